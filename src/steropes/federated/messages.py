"""Messages between a lead and sites: requests, answers, refusals and withdrawals.

A message contains a few plain values and arrays by name, and all are public. The sums of an
answer are not among these. They are one vector of masked fixed-point numbers (`sums`), which is
meaningless until the answers of all sites are added.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from ..data.html_facts import FieldsInHtml
from ..errors import DataError

__all__ = ["ASKS", "SCHEMA", "Ask", "Kind", "Message", "Value", "message_schema"]

SCHEMA = "steropes.federated/5"

Kind = Literal["request", "answer", "refusal", "withdrawal"]
Ask = Literal["times", "describe", "evaluate", "risk_sets", "estimate", "surrogate", "profile"]
Value = str | int | float | bool | list[Any]

T = TypeVar("T")
ASKS: tuple[str, ...] = get_args(Ask)
NOT_FINITE = {"Infinity": np.inf, "-Infinity": -np.inf}


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
        lines += [f"value {name} {_bits_of_value(name, x)}" for name, x in _sorted(self.values)]
        for name, x in _sorted(self.arrays):
            x = np.asarray(x, np.float64)
            lines.append(f"array {name} {'x'.join(map(str, x.shape))} {_bits(x)}")
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
            "arrays": {name: _plain(x) for name, x in self.arrays.items()},
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
        kind = _one_of(given, "kind", get_args(Kind), where)
        _refuse_fields(given, kind, where)
        message = cls(
            kind=kind,
            study=given["study"],
            round=given["round"],
            ask=_one_of(given, "ask", get_args(Ask), where),
            site=given.get("site", ""),
            request=given.get("request", ""),
            values=_values(given.get("values", {}), where),
            arrays={k: _array(x, f"{where}, {k}") for k, x in given.get("arrays", {}).items()},
            sums=_bytes(given, "sums", where),
            reasons=tuple(given.get("reasons", ())),
            signature=_bytes(given, "signature", where),
        )
        if kind == "request" and given["id"] != message.id:
            raise DataError(
                f"{where}: its id is {given['id']!r}, but that of its content {message.id!r}: it "
                "was changed after the lead wrote it. Do not answer it; ask the lead to delete it "
                "and to take a step, which writes it again."
            )
        return message


def _sorted(given: Mapping[str, T]) -> list[tuple[str, T]]:
    """Return the items of a mapping in the order of their names."""
    return sorted(given.items())


def _bits(x: np.ndarray) -> str:
    """Convert doubles to 16 hexadecimal digits each, most significant first; −0 becomes 0."""
    return (x + 0.0).astype(">f8").tobytes().hex()


def _bits_of_value(name: str, value: Value) -> str:
    """Convert a plain value to its text in the digest."""
    if isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return _bits(np.array(float(value)))
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return " ".join(value)
    raise DataError(f"a message's {name!r} must be a number, text, or a list of texts")


def _refuse_fields(given: Mapping[str, object], kind: Kind, where: str) -> None:
    """Raise `DataError` for fields that are missing, of another type, or not allowed."""
    needed = {"schema": str, "kind": str, "study": str, "round": int, "ask": str}
    if kind == "request":
        needed |= {"id": str, "values": dict, "arrays": dict}
    else:
        needed |= {"site": str, "request": str, "signature": str}
    if kind == "answer":
        needed |= {"values": dict, "arrays": dict, "sums": str}
    if kind == "refusal":
        needed |= {"reasons": list}
    for name, of in needed.items():
        if not isinstance(given.get(name), of) or isinstance(given[name], bool):
            raise DataError(f"{where}: {name!r} is missing, or not of type {of.__name__}")
    odd = [name for name in given if name not in needed]
    if odd:
        raise DataError(f"{where}: a message of kind {kind!r} has no {odd[0]!r}")
    reasons = given.get("reasons", [""])
    if not isinstance(reasons, list) or not reasons or not all(isinstance(r, str) for r in reasons):
        raise DataError(f"{where}: 'reasons' must be one or more sentences")


def _one_of(given: Mapping[str, object], name: str, allowed: tuple[T, ...], where: str) -> T:
    """Return a field that must have one of some values."""
    found = given.get(name)
    if found not in allowed:
        known = ", ".join(map(repr, allowed))
        raise DataError(f"{where}: {name!r} must be one of {known}, not {found!r}")
    return allowed[allowed.index(found)]


def _values(given: dict[str, Value], where: str) -> dict[str, Value]:
    """Validate plain values."""
    for name, value in given.items():
        try:
            _bits_of_value(name, value)
        except (DataError, OverflowError):
            raise DataError(
                f"{where}: {name!r} must be a number, text, or a list of texts"
            ) from None
    return given


def _bytes(given: Mapping[str, str], name: str, where: str) -> bytes:
    """Decode a field of bytes in base64."""
    try:
        return base64.b64decode(given.get(name, ""), validate=True)
    except (ValueError, binascii.Error):
        raise DataError(f"{where}: {name!r} must be bytes in base64") from None


def _plain(x: np.ndarray) -> dict[str, list]:
    """Convert an array to its shape and values, which keep all digits."""
    x = np.asarray(x)
    flat = x.ravel().tolist()
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        flat = [v if np.isfinite(v) else ("Infinity" if v > 0 else "-Infinity") for v in flat]
    return {"shape": list(x.shape), "values": flat}


def _array(given: object, where: str) -> np.ndarray:
    """Create an array from its shape and values."""
    if not (isinstance(given, dict) and {"shape", "values"} <= given.keys()):
        raise DataError(f"{where}: an array is an object with shape and values")
    try:
        flat = [NOT_FINITE[v] if isinstance(v, str) else v for v in given["values"]]
        shape = given["shape"]
        if not all(isinstance(k, int) and not isinstance(k, bool) and k >= 0 for k in shape):
            raise TypeError("the shape is not of whole numbers")
        if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in flat):
            raise TypeError("not all are numbers")
        whole = all(isinstance(v, int) for v in flat)
        out = np.array(flat, np.int64 if whole and flat else np.float64)
        if np.isnan(out).any():
            raise ValueError("NaN is not a number of a message")
        return out.reshape(shape)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{where}: its values do not make an array of its shape ({error})"
        ) from None


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
