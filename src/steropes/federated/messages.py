"""Messages between a lead and sites: requests, answers, refusals and withdrawals.

A message contains a few plain values and arrays by name, and all are public. The sums of an
answer are not among these. They are one vector of masked fixed-point numbers (`sums`), which is
meaningless until the answers of all sites are added.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np

from ..data.html_representations import FieldsInHtml
from ..errors import DataError
from .message_encoding import (
    NOT_FINITE,
    Kind,
    Value,
    array_of_plain,
    bits,
    bits_of_value,
    bytes_of_text,
    checked_values,
    one_of,
    plain_array,
    refuse_fields,
    sorted_items,
)

__all__ = ["ASKS", "SCHEMA", "Ask", "Kind", "Message", "Value", "message_schema"]

SCHEMA = "steropes.federated/6"

Ask = Literal["times", "describe", "evaluate", "risk_sets", "estimate", "surrogate", "profile"]

ASKS: tuple[str, ...] = get_args(Ask)


@dataclass(frozen=True)
class Message(FieldsInHtml):
    """A request of the lead, or a site's answer, refusal or withdrawal.

    Attributes
    ----------
    kind : {"request", "answer", "refusal", "withdrawal"}
        With a withdrawal a site states that it has not answered this round and never will.
    study : str
        Digest of the plan.
    round : int
        Counted from 0.
    ask : str
        The kind of request; see the page on the protocol.
    site : str
        The sender; empty in a request.
    request : str
        The ``id`` of the request that this message answers; empty in a request.
    values : dict
        Plain values.
    arrays : dict of str to array
        Arrays of numbers.
    sums : bytes
        Masked sums of an answer, 24 bytes per number; see `fixed_point_sums` and `site_keys`.
    reasons : tuple of str
        Reasons of a refusal.
    signature : bytes
        Ed25519 signature of the `digest`; empty in a request.

    Examples
    --------
    >>> from steropes.federated import Message
    >>> request = Message("request", study="abc", round=0, ask="describe")
    >>> Message.from_dict(request.to_dict(), "the request").id == request.id
    True
    >>> request.reply("refusal", "north", reasons=("too few rows",)).reasons
    ('too few rows',)
    """

    kind: Kind
    study: str
    round: int
    ask: Ask
    site: str = ""
    request: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    sums: bytes = b""
    reasons: tuple[str, ...] = ()
    signature: bytes = b""

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of the message without its signature; see `digested_text`."""
        return hashlib.sha256(self.digested_text().encode()).digest()

    @property
    def id(self) -> str:
        """The digest as hexadecimal text."""
        return self.digest.hex()

    def digested_text(self) -> str:
        """Return the text that is digested.

        Numbers are the bits of a double, so that the text does not depend on how a programming
        language prints them.

        Returns
        -------
        str
            One line for the schema and for each field, value, array and reason.
        """
        lines = [SCHEMA, f"kind {self.kind}", f"study {self.study}", f"round {self.round}"]
        lines += [f"ask {self.ask}", f"site {self.site}", f"request {self.request}"]
        lines += [f"value {name} {bits_of_value(name, x)}" for name, x in sorted_items(self.values)]
        for name, x in sorted_items(self.arrays):
            x = np.asarray(x, np.float64)
            lines.append(f"array {name} {'x'.join(map(str, x.shape))} {bits(x)}")
        lines.append(f"sums {self.sums.hex()}")
        lines += [f"reason {reason}" for reason in self.reasons]
        return "".join(f"{line}\n" for line in lines)

    def reply(self, kind: Kind, site: str, **content: Any) -> Message:
        """Create a site's unsigned reply to this request.

        Parameters
        ----------
        kind : {"answer", "refusal", "withdrawal"}
            Kind of the reply.
        site : str
            The sender.
        **content : dict
            Further fields, such as ``values``, ``sums`` or ``reasons``.

        Returns
        -------
        Message
            The reply with the study, round and ``ask`` of the request.
        """
        head = {"kind": kind, "site": site, "request": self.id, "values": {}, "arrays": {}}
        return replace(self, **head | content)

    def array(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return an array by name, which must have a given shape.

        Parameters
        ----------
        name : str
            Name of the array.
        shape : tuple of int
            Its shape.

        Returns
        -------
        array, shape ``shape``
            The array.

        Raises
        ------
        DataError
            The array is missing or has another shape.
        """
        found = self.arrays.get(name)
        if found is None:
            raise DataError(f"{self.who} has no array {name!r}")
        if found.shape != shape:
            raise DataError(
                f"{self.who}: the array {name!r} has shape {list(found.shape)}, not {list(shape)}"
            )
        return found

    def numbers(self, name: str, least: int, end: int) -> np.ndarray:
        """Return an array of whole numbers in [least, end); empty if it is missing.

        Parameters
        ----------
        name : str
            Name of the array.
        least : int
            Smallest number that is allowed.
        end : int
            The numbers are smaller than this one.

        Returns
        -------
        array of int, shape (k,)
            The numbers.

        Raises
        ------
        DataError
            A number is not whole or is out of range.
        """
        given = np.asarray(self.arrays.get(name, np.empty(0)), float).ravel()
        if not ((given >= least) & (given < end) & (given == np.round(given))).all():
            raise DataError(
                f"the {self.kind}'s {name!r} must be whole numbers from {least} to {end - 1}"
            )
        return given.astype(np.int64)

    def value(self, name: str) -> Any:
        """Return a plain value by name.

        Parameters
        ----------
        name : str
            Name of the value.

        Returns
        -------
        str, int, float, bool or list
            The value.

        Raises
        ------
        DataError
            The value is missing.
        """
        if name not in self.values:
            raise DataError(f"{self.who} has no value {name!r}")
        return self.values[name]

    def number(self, name: str) -> float:
        """Return a plain value that must be a finite number, by name.

        Parameters
        ----------
        name : str
            Name of the value.

        Returns
        -------
        float
            The number.

        Raises
        ------
        DataError
            The value is missing or is no finite number.
        """
        found = self.value(name)
        if isinstance(found, bool) or not isinstance(found, int | float) or not np.isfinite(found):
            raise DataError(f"{self.who}: {name!r} must be a number, not {found!r}")
        return float(found)

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites that a request addresses; their masks cancel."""
        named = self.values.get("sites")
        if not isinstance(named, list) or not all(isinstance(s, str) for s in named):
            raise DataError(f"{self.who}: 'sites' must be a list of names")
        return tuple(named)

    @property
    def who(self) -> str:
        """The description of the message in errors."""
        of = f" of site {self.site!r}" if self.site else ""
        return f"the {self.kind}{of} in round {self.round} ({self.ask})"

    # -- as plain values -------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, including the ``id`` of a request.

        Returns
        -------
        dict
            Values that `from_dict` reads.
        """
        out: dict[str, Any] = {
            "schema": SCHEMA, "kind": self.kind, "study": self.study, "round": self.round,
            "ask": self.ask,
        }  # fmt: skip
        body = {
            "values": dict(self.values),
            "arrays": {name: plain_array(x) for name, x in self.arrays.items()},
        }
        if self.kind == "request":
            return out | body | {"id": self.id}
        signature = base64.b64encode(self.signature).decode()
        out |= {"site": self.site, "request": self.request, "signature": signature}
        if self.kind == "answer":
            return out | body | {"sums": base64.b64encode(self.sums).decode()}
        return out | ({"reasons": list(self.reasons)} if self.kind == "refusal" else {})

    @classmethod
    def from_dict(cls, given: object, where: str) -> Message:
        """Create a message from the result of `to_dict`.

        Parameters
        ----------
        given : dict
            The plain values.
        where : str
            Name of the message in errors.

        Returns
        -------
        Message
            The message.

        Raises
        ------
        DataError
            It is not a message or has another version, or the ``id`` of a request does not match
            its content.
        """
        if not isinstance(given, dict):
            raise DataError(f"{where} is not a message: it must be an object")
        if given.get("schema") != SCHEMA:
            raise DataError(
                f"{where} has schema {given.get('schema')!r}; this version of steropes uses "
                f"{SCHEMA!r}. Use the same version at the lead and at the site."
            )
        kind = one_of(given, "kind", get_args(Kind), where)
        refuse_fields(given, kind, where)
        message = cls(
            kind=kind,
            study=given["study"],
            round=given["round"],
            ask=one_of(given, "ask", get_args(Ask), where),
            site=given.get("site", ""),
            request=given.get("request", ""),
            values=checked_values(given.get("values", {}), where),
            arrays={
                k: array_of_plain(x, f"{where}, {k}") for k, x in given.get("arrays", {}).items()
            },
            sums=bytes_of_text(given, "sums", where),
            reasons=tuple(given.get("reasons", ())),
            signature=bytes_of_text(given, "signature", where),
        )
        if kind == "request" and given["id"] != message.id:
            raise DataError(
                f"{where}: its id is {given['id']!r}, but that of its content {message.id!r}: it "
                "was changed after the lead wrote it. Do not answer it; ask the lead to delete it "
                "and to take a step, which writes it again."
            )
        return message


def message_schema() -> dict[str, Any]:
    """Return the JSON Schema of a message.

    Returns
    -------
    dict
        A schema of draft 2020-12.

    Examples
    --------
    >>> from steropes.federated import SCHEMA, message_schema
    >>> message_schema()["title"] == SCHEMA
    True
    """
    number = {"anyOf": [{"type": "number"}, {"enum": list(NOT_FINITE)}]}
    array = {
        "type": "object",
        "properties": {
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
            "values": {"type": "array", "items": number, "description": "row by row"},
        },
        "required": ["shape", "values"],
        "additionalProperties": False,
    }
    text = {"type": "string"}
    encoded = {**text, "contentEncoding": "base64"}
    head = {
        "schema": {"const": SCHEMA},
        "study": {**text, "description": "the plan's digest"},
        "round": {"type": "integer", "minimum": 0},
        "ask": {"enum": list(ASKS)},
    }
    body: dict[str, object] = {
        "values": {"type": "object"},
        "arrays": {"type": "object", "additionalProperties": array},
    }
    back: dict[str, object] = {
        "site": text, "request": {**text, "description": "the request's id"}, "signature": encoded,
    }  # fmt: skip
    reasons: dict[str, object] = {"reasons": {"type": "array", "items": text, "minItems": 1}}

    def one(kind: Kind, more: dict[str, object]) -> dict[str, object]:
        """Return the JSON Schema of one kind of message."""
        properties = head | {"kind": {"const": kind}} | more
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }

    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA,
        "oneOf": [
            one("request", {"id": text} | body),
            one("answer", back | body | {"sums": encoded}),
            one("refusal", back | reasons),
            one("withdrawal", back),
        ],
    }
