"""Messages between a lead and sites: what is asked, what is answered, and the schema of both.

A message is a few plain values and arrays by name. Nothing in it is of a single row: the lead
sends coefficients, a site answers with sums over its rows, or refuses and says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from ..errors import DataError
from .identity import digest

__all__ = ["ASKS", "SCHEMA", "Ask", "Kind", "Message", "message_schema"]

SCHEMA = "steropes.federated/4"

Kind = Literal["request", "answer", "refusal"]
Ask = Literal["describe", "evaluate", "risk_sets", "estimate", "surrogate", "profile"]
Value = str | int | float | bool | list[Any] | dict[str, Any]

ASKS: tuple[str, ...] = get_args(Ask)
NOT_FINITE = {"Infinity": np.inf, "-Infinity": -np.inf, "NaN": np.nan}


@dataclass(frozen=True)
class Message:
    """A request of the lead, or a site's answer or refusal.

    Attributes
    ----------
    kind : {"request", "answer", "refusal"}
    study : str
        Digest of the plan.
    round : int
        Counted from 0.
    ask : str
        What is asked; see the page on the protocol.
    site : str
        Who answers; empty in a request.
    request : str
        In an answer: the ``id`` of the request.
    values : dict
        Plain values.
    arrays : dict of str to array
    reasons : tuple of str
        Of a refusal.
    """

    kind: Kind
    study: str
    round: int
    ask: Ask
    site: str = ""
    request: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Of a request: a digest of all that is asked; see `identity`."""
        return digest(SCHEMA, self.study, self.round, self.ask, self.values, self.arrays)

    def answered(
        self, site: str, values: Mapping[str, Value], arrays: Mapping[str, np.ndarray]
    ) -> Message:
        """A site's answer to this request."""
        return replace(
            self, kind="answer", site=site, request=self.id, values=values, arrays=arrays
        )

    def refused(self, site: str, reasons: tuple[str, ...]) -> Message:
        """A site's refusal of this request."""
        return replace(
            self, kind="refusal", site=site, request=self.id, values={}, arrays={}, reasons=reasons
        )

    def array(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """An array by name, of the shape that it must have."""
        found = self.arrays.get(name)
        if found is None:
            raise DataError(f"{self.who} has no array {name!r}")
        if found.shape != shape:
            raise DataError(
                f"{self.who}: the array {name!r} has shape {list(found.shape)}, not {list(shape)}"
            )
        return found

    def numbers(self, name: str, least: int, end: int) -> np.ndarray:
        """Whole numbers from ``least`` to before ``end``; none where there is no such array."""
        given = np.asarray(self.arrays.get(name, np.empty(0)), float).ravel()
        if not ((given >= least) & (given < end) & (given == np.round(given))).all():
            raise DataError(
                f"the {self.kind}'s {name!r} must be whole numbers from {least} to {end - 1}"
            )
        return given.astype(np.int64)

    def value(self, name: str) -> Any:
        """A plain value by name."""
        if name not in self.values:
            raise DataError(f"{self.who} has no value {name!r}")
        return self.values[name]

    def number(self, name: str) -> float:
        """A plain value that is a finite number, by name."""
        found = self.value(name)
        if isinstance(found, bool) or not isinstance(found, int | float) or not np.isfinite(found):
            raise DataError(f"{self.who}: {name!r} must be a number, not {found!r}")
        return float(found)

    @property
    def who(self) -> str:
        """What errors call it."""
        of = f" of site {self.site!r}" if self.site else ""
        return f"the {self.kind}{of} in round {self.round} ({self.ask})"

    # -- as plain values -------------------------------------------------------------------------

    def _content(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "schema": SCHEMA, "kind": self.kind, "study": self.study, "round": self.round,
            "ask": self.ask,
        }  # fmt: skip
        if self.kind != "request":
            out |= {"site": self.site, "request": self.request}
        if self.kind == "refusal":
            return out | {"reasons": list(self.reasons)}
        arrays = {name: _plain(x) for name, x in self.arrays.items()}
        return out | {"values": dict(self.values), "arrays": arrays}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; a request has its ``id`` among them."""
        content = self._content()
        return content | {"id": self.id} if self.kind == "request" else content

    @classmethod
    def from_dict(cls, given: Any, where: str) -> Message:
        """Read what `to_dict` made; ``where`` is what errors call it.

        Raises
        ------
        DataError
            Not a message, one of another version, or a request whose ``id`` is not that of its
            content.
        """
        if not isinstance(given, dict):
            raise DataError(f"{where} is not a message: it must be an object")
        if given.get("schema") != SCHEMA:
            raise DataError(
                f"{where} is of schema {given.get('schema')!r}; this version of steropes speaks "
                f"{SCHEMA!r}. Use the same version at the lead and at the site."
            )
        kind = _one_of(given, "kind", get_args(Kind), where)
        needed = {"schema": str, "kind": str, "study": str, "round": int, "ask": str}
        needed |= {"id": str} if kind == "request" else {"site": str, "request": str}
        needed |= {"reasons": list} if kind == "refusal" else {"values": dict, "arrays": dict}
        for name, of in needed.items():
            if not isinstance(given.get(name), of) or isinstance(given[name], bool):
                raise DataError(f"{where}: {name!r} is missing, or not of type {of.__name__}")
        odd = [name for name in given if name not in needed]
        if odd:
            raise DataError(f"{where}: {odd[0]!r} is nothing that a message of its kind has")
        reasons = given.get("reasons", [""])
        if not reasons or not all(isinstance(r, str) for r in reasons):
            raise DataError(f"{where}: 'reasons' must be one or more sentences")
        message = cls(
            kind=kind,
            study=given["study"],
            round=given["round"],
            ask=_one_of(given, "ask", ASKS, where),
            site=given.get("site", ""),
            request=given.get("request", ""),
            values=given.get("values", {}),
            arrays={k: _array(x, f"{where}, {k}") for k, x in given.get("arrays", {}).items()},
            reasons=tuple(given.get("reasons", ())),
        )
        if kind == "request" and given["id"] != message.id:
            raise DataError(
                f"{where}: its id is {given['id']!r}, but that of its content {message.id!r}: it "
                "was changed after the lead wrote it. Do not answer it; let the lead delete it "
                "and take a step, which writes it again."
            )
        return message


def _one_of(given: dict[str, Any], name: str, allowed: tuple[Any, ...], where: str) -> Any:
    if given.get(name) not in allowed:
        known = ", ".join(map(repr, allowed))
        raise DataError(f"{where}: {name!r} must be one of {known}, not {given.get(name)!r}")
    return given[name]


def _plain(x: np.ndarray) -> dict[str, Any]:
    """An array as its shape and its values, which keep all their digits."""
    x = np.asarray(x)
    flat = x.ravel().tolist()
    if x.dtype.kind == "f" and not np.isfinite(x).all():
        flat = [v if np.isfinite(v) else _named(v) for v in flat]
    return {"shape": list(x.shape), "values": flat}


def _named(value: float) -> str:
    return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")


def _array(given: Any, where: str) -> np.ndarray:
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
        return out.reshape(shape)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"{where}: its values do not make an array of its shape ({error})"
        ) from None


def message_schema() -> dict[str, Any]:
    """The JSON Schema of a message."""
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
    head = {
        "schema": {"const": SCHEMA},
        "kind": {"enum": list(get_args(Kind))},
        "study": {**text, "description": "the plan's"},
        "round": {"type": "integer", "minimum": 0},
        "ask": {"enum": list(ASKS)},
    }
    body = {
        "values": {"type": "object"},
        "arrays": {"type": "object", "additionalProperties": array},
    }
    back = {"site": text, "request": {**text, "description": "the request's id, as it is"}}
    reasons = {"reasons": {"type": "array", "items": text, "minItems": 1}}

    def one(kind: Kind, more: dict[str, Any]) -> dict[str, Any]:
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
            one("answer", back | body),
            one("refusal", back | reasons),
        ],
    }
