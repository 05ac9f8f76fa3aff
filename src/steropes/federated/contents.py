"""What an answer has: the name, shape and range of each of its fields, for the lead and the page.

The lead refuses an answer that has other fields than these, or numbers outside of their range, by
site and field. The protocol's page shows the same list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import DataError
from .plan import FederatedPlan
from .protocol import Ask, Message

__all__ = ["FAR", "FIELDS", "Field", "contents_table", "fields_of", "refuse_contents"]

Range = Literal["number", "≥ 0", "> 0", "0 to 1", "count", "ascending", "text", "texts", "truth"]
ROUNDING = 1e-9
LINEAR_PARTS, PARTS = 6, 1  # sums that make the score of a fold's rows
FAR = 1e150  # what can still be squared
OVERFLOW = "where exp overflows not finite"


@dataclass(frozen=True)
class Field:
    """A field of an answer.

    Attributes
    ----------
    ask : str
    name : str
        ``"*"`` stands for the plan's parameters.
    shape : tuple of str or None
        Names of lengths (see `_lengths`); None for a plain value.
    range : str
    when : str
        Key of `WHEN`.
    overflow : bool
        Whether it may be not finite, where exp overflows.
    """

    ask: Ask
    name: str
    shape: tuple[str, ...] | None
    range: Range = "number"
    when: str = ""
    overflow: bool = False


WHEN: dict[str, Callable[[FederatedPlan, Message], bool]] = {
    "": lambda plan, request: True,
    "not in linear models": lambda plan, request: plan.model != "linear",
    "with an intercept": lambda plan, request: bool(plan.intercepts),
    "with folds": lambda plan, request: plan.folds > 0,
    "risk sets of all, no grid": lambda plan, request: plan.shares_risk_sets and not plan.times,
    "risk sets of all, Fine–Gray": lambda plan, request: (
        plan.shares_risk_sets and plan.model == "fine_gray"
    ),
    "risk sets of all, Fine–Gray, late entry": lambda plan, request: (
        plan.shares_risk_sets and plan.model == "fine_gray" and plan.entry is not None
    ),
    "the request has `folds`": lambda plan, request: "folds" in request.arrays,
    "the request has `a`": lambda plan, request: "a" in request.arrays,
}


def _described(ask: Ask) -> list[Field]:
    fine_gray = "risk sets of all, Fine–Gray"
    return [
        Field(ask, "columns", None, "texts"),
        Field(ask, "rows", None, "count"),
        Field(ask, "people", None, "count"),
        Field(ask, "weight", None, "> 0"),
        Field(ask, "constant", None),
        Field(ask, "grouped", None, "truth"),
        Field(ask, "events", None, "count", "not in linear models"),
        Field(ask, "outcome", None, when="with an intercept"),
        Field(ask, "expected", None, "≥ 0", "with an intercept"),
        Field(ask, "outcome_variance", None, "≥ 0", "with an intercept"),
        Field(ask, "mean", ("p",)),
        Field(ask, "variance", ("p",), "≥ 0"),
        Field(ask, "filled", ("p",), "0 to 1"),
        Field(ask, "fold_weight", ("F",), "≥ 0", "with folds"),
        Field(ask, "times", ("any",), "ascending", "risk sets of all, no grid"),
        Field(ask, "leave_times", ("L",), "ascending", fine_gray),
        Field(ask, "leave", ("1 + F", "L"), "≥ 0", fine_gray),
        Field(ask, "censored", ("1 + F", "L"), "≥ 0", fine_gray),
        Field(ask, "enter", ("1 + F", "L"), "≥ 0", f"{fine_gray}, late entry"),
        Field(ask, "cases", ("1 + F", "L"), "≥ 0", f"{fine_gray}, late entry"),
    ]


def _risk_sets() -> list[Field]:
    ask: Ask = "risk_sets"
    held = "the request has `folds`"
    return [
        Field(ask, "S", ("m", "T"), "≥ 0", overflow=True),
        Field(ask, "E", ("m", "T"), "≥ 0", overflow=True),
        Field(ask, "linear", ("m",)),
        Field(ask, "S1", ("fits", "T", "p"), overflow=True),
        Field(ask, "E1", ("fits", "T", "p"), overflow=True),
        Field(ask, "covariates", ("fits", "p")),
        Field(ask, "count", ("fits", "T"), "count"),
        Field(ask, "weight", ("fits", "T"), "≥ 0"),
        Field(ask, "second", ("h", "k (k + 1) / 2"), when="the request has `a`", overflow=True),
        Field(ask, "held_S", ("fits", "T"), "≥ 0", held, overflow=True),
        Field(ask, "held_E", ("fits", "T"), "≥ 0", held, overflow=True),
        Field(ask, "held_linear", ("fits",), when=held),
        Field(ask, "held_count", ("fits", "T"), "count", held),
        Field(ask, "held_weight", ("fits", "T"), "≥ 0", held),
    ]


FIELDS: tuple[Field, ...] = (
    *_described("describe"),
    Field("evaluate", "loss", ("m",), overflow=True),
    Field("evaluate", "gradient", ("m", "1 + p"), overflow=True),
    Field("evaluate", "hessian", ("h", "q (q + 1) / 2"), overflow=True),
    Field("evaluate", "uncentred", ("h", "q"), "≥ 0", overflow=True),
    Field("evaluate", "held_out", ("m", "s"), when="the request has `folds`", overflow=True),
    *_risk_sets(),
    *_described("estimate"),
    Field("estimate", "usable", None, "truth"),
    Field("estimate", "note", None, "text"),
    Field("estimate", "estimate", ("1 + p",)),
    Field("estimate", "variance_of_estimate", ("1 + p",), "≥ 0"),
    Field("surrogate", "optimality", None, "≥ 0"),
    Field("surrogate", "estimate", ("1 + p",)),
    Field("surrogate", "hessian", ("(1 + p) (2 + p) / 2",)),
    Field("profile", "rows", None, "count"),
    Field("profile", "notes", None, "texts"),
    Field("profile", "*", ("any", "3")),
)


def fields_of(plan: FederatedPlan, request: Message) -> list[Field]:
    """The fields that an answer to a request must have."""
    return [f for f in FIELDS if f.ask == request.ask and WHEN[f.when](plan, request)]


def _lengths(plan: FederatedPlan, request: Message) -> dict[str, int]:
    """The lengths that shapes are made of."""
    p, own = len(plan.columns), 1 if plan.intercepts else 0

    def of(name: str) -> int:
        return len(request.arrays[name]) if name in request.arrays else 0

    several = request.ask == "risk_sets" and plan.folds > 0
    k = of("columns")
    q, head = own + k, own + p
    F = plan.folds * plan.repeats
    return {
        "p": p, "F": F, "1 + F": 1 + F, "m": of("points"), "T": of("times"), "3": 3,
        "fits": of("firsts") if several else -1, "h": of("hessians") if plan.folds or
        request.ask == "evaluate" else -1, "1 + p": head, "q": q,
        "q (q + 1) / 2": q * (q + 1) // 2, "k (k + 1) / 2": k * (k + 1) // 2,
        "(1 + p) (2 + p) / 2": head * (head + 1) // 2,
        "s": LINEAR_PARTS if plan.model == "linear" else PARTS,
    }  # fmt: skip


def refuse_contents(plan: FederatedPlan, request: Message, answer: Message) -> None:
    """Refuse an answer whose fields are not those of its request, by site and field."""
    fields, lengths = fields_of(plan, request), _lengths(plan, request)
    values = {f.name: f for f in fields if f.shape is None}
    arrays: dict[str, Field] = {}
    for f in fields:
        if f.shape is not None:
            arrays |= dict.fromkeys(plan.parameters if f.name == "*" else (f.name,), f)
    for what, given, wanted in (
        ("value", answer.values, values), ("array", answer.arrays, arrays),
    ):  # fmt: skip
        for name in wanted:
            if name not in given:
                raise DataError(f"{answer.who} has no {what} {name!r}")
        for name in given:
            if name not in wanted:
                raise DataError(f"{answer.who} has {name!r}, a {what} that was not asked for")
    for name, f in values.items():
        said = _wrong_value(f, answer.values[name])
        if said:
            raise DataError(f"{answer.who}: {name!r} must be {said}, not {answer.values[name]!r}")
    free: dict[str, int] = {}
    for name, f in arrays.items():
        x = answer.arrays[name]
        _refuse_shape(answer, name, f, x, lengths, free)
        said = _wrong_array(f, x)
        if said:
            raise DataError(f"{answer.who}: the array {name!r} must be {said}")


def _refuse_shape(
    answer: Message, name: str, field: Field, x: np.ndarray, lengths: dict[str, int],
    free: dict[str, int],
) -> None:  # fmt: skip
    """Refuse other lengths; those that the request does not tell are the first array's."""
    assert field.shape is not None
    wanted: list[int] = []
    for axis, length in enumerate(field.shape):
        if length in lengths:
            n = lengths[length]
        else:
            here = x.shape[axis] if axis < x.ndim else 0
            n = here if length == "any" else free.setdefault(length, here)
        if n >= 0:  # an axis that there is only with folds
            wanted.append(n)
    if list(x.shape) != wanted:
        raise DataError(f"{answer.who}: the array {name!r} has shape {list(x.shape)}, not {wanted}")


def _wrong_value(field: Field, x: Any) -> str:
    """What a plain value must be, where it is not."""
    if field.range == "text":
        return "" if isinstance(x, str) else "text"
    if field.range == "texts":
        fine = isinstance(x, list) and all(isinstance(item, str) for item in x)
        return "" if fine else "a list of texts"
    if field.range == "truth":
        return "" if isinstance(x, bool) else "true or false"
    if isinstance(x, bool) or not isinstance(x, int | float) or not abs(x) < 1e300:
        return "a number"
    return _outside(field.range, np.array([float(x)]))


def _wrong_array(field: Field, x: np.ndarray) -> str:
    """What an array must be, where it is not."""
    if x.dtype.kind not in "iuf":
        return "of numbers"
    finite = np.isfinite(x)
    if not (finite & (np.abs(x) < FAR)).all() and not field.overflow:
        return f"finite, and within {FAR:g}"
    x = x[finite]  # sums over those at risk are differences
    return _outside(field.range, x, 1e-12 + ROUNDING * float(x.max(initial=0.0)))


def _outside(range_: Range, x: np.ndarray, rounding: float = 0.0) -> str:
    if range_ == "count" and ((x < 0) | (x != np.round(x))).any():
        return "a whole number from 0" if x.size == 1 else "whole numbers from 0"
    if range_ == "≥ 0" and (x < -rounding).any():
        return "at least 0"
    if range_ == "> 0" and (x <= 0).any():
        return "more than 0"
    if range_ == "0 to 1" and ((x < 0) | (x > 1 + ROUNDING)).any():
        return "from 0 to 1"
    if range_ == "ascending" and (np.diff(x) <= 0).any():
        return "ascending"
    return ""


def contents_table() -> str:
    """The fields as the table of the protocol's page."""
    lines = ["| ask | field | shape | what | when |", "|---|---|---|---|---|"]
    for f in FIELDS:
        shape = "value" if f.shape is None else f"({', '.join(f.shape)})"
        name = "each of `parameters`" if f.name == "*" else f"`{f.name}`"
        what = f"{f.range}; {OVERFLOW}" if f.overflow else f.range
        lines.append(f"| `{f.ask}` | {name} | {shape} | {what} | {f.when} |")
    return "\n".join(lines) + "\n"
