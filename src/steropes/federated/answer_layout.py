"""Contents of answers: names, shapes and order of the sums, and of the numbers of single sites.

The sums of an answer are one vector of fixed-point numbers. Its layout depends only on the plan and
the request, so that all sites and the lead agree on it without seeing each other's numbers. The
page on the protocol contains the same list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import DataError
from .federated_plan import FederatedPlan
from .fixed_point_sums import BYTES, LARGEST, add, decode, encode, from_bytes, to_bytes
from .messages import Ask, Message

__all__ = [
    "FIELDS",
    "Field",
    "Totals",
    "layout",
    "numbers_in",
    "pack",
    "refuse_contents",
    "total_of",
]

# The number of sums that determine the score of a fold's rows.
LINEAR_PARTS, PARTS = 6, 1


@dataclass(frozen=True)
class Field:
    """A field of an answer.

    Attributes
    ----------
    name : str
        Name of the field; ``"*"`` means each of the plan's parameters.
    shape : tuple of str
        Names of lengths (see `_lengths`); empty for a single number.
    when : str
        Key of `WHEN`.
    """

    ask: Ask
    name: str
    shape: tuple[str, ...] = ()
    when: str = ""


WHEN: dict[str, Callable[[FederatedPlan, Message], bool]] = {
    "": lambda plan, request: True,
    "not in linear models": lambda plan, request: not plan.planned.quadratic,
    "linear, logistic, Poisson": lambda plan, request: plan.planned.intercept is not None,
    "rare rows are grouped": lambda plan, request: plan.groups_rare_rows,
    "with folds": lambda plan, request: plan.folds > 0,
    "risk sets of all, Fine–Gray": lambda plan, request: (
        plan.shares_risk_sets and plan.planned.has_competing_events
    ),
    "risk sets of all, Fine–Gray, late entry": lambda plan, request: (
        plan.shares_risk_sets and plan.planned.has_competing_events and plan.entry is not None
    ),
    "the request has `folds`": lambda plan, request: "folds" in request.arrays,
    "the request has `a`": lambda plan, request: "a" in request.arrays,
}
FINE_GRAY = "risk sets of all, Fine–Gray"
LATE = f"{FINE_GRAY}, late entry"

FIELDS: tuple[Field, ...] = (
    Field("describe", "rows"),
    Field("describe", "people"),
    Field("describe", "weight"),
    Field("describe", "constant"),
    Field("describe", "events", when="not in linear models"),
    Field("describe", "outcome", when="linear, logistic, Poisson"),
    Field("describe", "expected", when="linear, logistic, Poisson"),
    Field("describe", "outcome_within", when="linear, logistic, Poisson"),
    Field("describe", "outcome_between", when="linear, logistic, Poisson"),
    Field("describe", "first", ("p",)),
    Field("describe", "within", ("p",)),
    Field("describe", "between", ("p",)),
    Field("describe", "filled", ("p",)),
    Field("describe", "rare", when="rare rows are grouped"),
    Field("describe", "fold_weight", ("F",), "with folds"),
    Field("describe", "leave", ("1 + F", "L"), FINE_GRAY),
    Field("describe", "censored", ("1 + F", "L"), FINE_GRAY),
    Field("describe", "enter", ("1 + F", "L"), LATE),
    Field("describe", "cases", ("1 + F", "L"), LATE),
    Field("evaluate", "too_far", ("m",)),
    Field("evaluate", "loss", ("m",)),
    Field("evaluate", "gradient", ("m", "1 + p")),
    Field("evaluate", "hessian", ("h", "q (q + 1) / 2")),
    Field("evaluate", "uncentred", ("h", "q")),
    Field("evaluate", "held_out", ("m", "s"), "the request has `folds`"),
    Field("risk_sets", "too_far", ("m",)),
    Field("risk_sets", "S", ("m", "T")),
    Field("risk_sets", "E", ("m", "T")),
    Field("risk_sets", "linear", ("m",)),
    Field("risk_sets", "S1", ("fits", "T", "p")),
    Field("risk_sets", "E1", ("fits", "T", "p")),
    Field("risk_sets", "covariates", ("fits", "p")),
    Field("risk_sets", "count", ("fits", "T")),
    Field("risk_sets", "weight", ("fits", "T")),
    Field("risk_sets", "second", ("h", "k (k + 1) / 2"), "the request has `a`"),
    Field("risk_sets", "held_S", ("fits", "T"), "the request has `folds`"),
    Field("risk_sets", "held_E", ("fits", "T"), "the request has `folds`"),
    Field("risk_sets", "held_linear", ("fits",), "the request has `folds`"),
    Field("risk_sets", "held_count", ("fits", "T"), "the request has `folds`"),
    Field("risk_sets", "held_weight", ("fits", "T"), "the request has `folds`"),
    # Numbers of single sites in clear; lengths that the request does not determine are free.
    Field("times", "times", ("any",)),
    Field("times", "leave_times", ("any",), FINE_GRAY),
    Field("estimate", "estimate", ("1 + p",)),
    Field("estimate", "variance_of_estimate", ("1 + p",)),
    Field("surrogate", "estimate", ("1 + p",)),
    Field("surrogate", "hessian", ("(1 + p) (2 + p) / 2",)),
    Field("profile", "*", ("any", "3")),
)


def _lengths(plan: FederatedPlan, request: Message) -> dict[str, int]:
    """Return the lengths by the names that shapes use."""
    p, own = len(plan.columns), len(plan.intercepts)

    def of(name: str) -> int:
        return len(request.arrays[name]) if name in request.arrays else 0

    k = of("columns")
    q, head = own + k, own + p
    F = plan.folds * plan.repeats
    return {
        "p": p, "F": F, "1 + F": 1 + F, "m": of("points"), "T": of("times"), "3": 3,
        "L": of("leave_times"), "fits": of("firsts"), "h": of("hessians"), "1 + p": head, "q": q,
        "q (q + 1) / 2": q * (q + 1) // 2, "k (k + 1) / 2": k * (k + 1) // 2,
        "(1 + p) (2 + p) / 2": head * (head + 1) // 2,
        "s": LINEAR_PARTS if plan.planned.quadratic else PARTS,
    }  # fmt: skip


def layout(plan: FederatedPlan, request: Message) -> dict[str, tuple[int, ...]]:
    """Return the shapes of an answer's sums by name, in order."""
    lengths = _lengths(plan, request)
    return {
        f.name: tuple(lengths[length] for length in f.shape)
        for f in FIELDS
        if f.ask == request.ask and WHEN[f.when](plan, request)
    }


def numbers_in(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Count the numbers of a layout."""
    return sum(int(np.prod(shape)) for shape in shapes.values())


def pack(shapes: Mapping[str, tuple[int, ...]], sums: Mapping[str, np.ndarray]) -> np.ndarray:
    """Encode sums as one vector of limbs, (n, 3), in the order of the layout.

    Raises
    ------
    DataError
        A sum is too large.
    """
    flat = []
    for name, shape in shapes.items():
        x = np.asarray(sums[name], float)
        assert x.shape == shape, (name, x.shape, shape)
        try:
            flat.append(encode(x.ravel()))
        except OverflowError as error:
            raise DataError(
                f"{name!r}: {error}. Give columns, weights and the outcome in larger units, which "
                "make their values smaller."
            ) from None
    return np.concatenate(flat)


@dataclass(frozen=True)
class Totals:
    """The totals over all sites that answered a request."""

    arrays: Mapping[str, np.ndarray]

    def __getitem__(self, name: str) -> np.ndarray:
        """Return a total by name."""
        return self.arrays[name]

    def number(self, name: str) -> float:
        """Return a total that is a single number."""
        return float(self.arrays[name])

    def count(self, name: str) -> int:
        """Return a total that is a count.

        Raises
        ------
        DataError
            It is not a count, because the masks of the answers did not cancel.
        """
        value = self.number(name)
        if value != round(value) or not 0 <= value < 2**53:
            raise DataError(
                f"the total of {name!r} is not a count, so that the masks did not cancel: do all "
                "sites have each other's current public keys?"
            )
        return int(value)


def total_of(plan: FederatedPlan, request: Message, answers: tuple[Message, ...]) -> Totals:
    """Add masked answers; the masks cancel if all sites answered.

    Raises
    ------
    DataError
        An answer has another length, or a total is larger than sums of this number of sites can be.
    """
    shapes = layout(plan, request)
    n = numbers_in(shapes)
    total = np.zeros((n, 3), np.uint64)
    for answer in answers:
        if len(answer.sums) != n * BYTES:
            raise DataError(f"{answer.who} has {len(answer.sums)} bytes of sums, not {n * BYTES}")
        total = add(total, from_bytes(answer.sums))
    flat, out, at = decode(total), {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        if (np.abs(flat[at : at + size]) > LARGEST * len(answers)).any():
            raise DataError(
                f"the total of {name!r} is larger than sums of sites can be: an answer is wrong "
                "or the masks did not cancel. Do all sites have each other's current public keys?"
            )
        out[name] = flat[at : at + size].reshape(shape)
        at += size
    return Totals(out)


def masked(sums: np.ndarray, mask: np.ndarray) -> bytes:
    """Add a mask to sums and convert them to the bytes of an answer."""
    return to_bytes(add(sums, mask))


def refuse_contents(plan: FederatedPlan, request: Message, answer: Message) -> None:
    """Raise `DataError` if the arrays of an answer in clear are not those of its request."""
    lengths = _lengths(plan, request)
    wanted: dict[str, tuple[str, ...]] = {}
    for f in FIELDS:
        if f.ask == request.ask and WHEN[f.when](plan, request):
            names = plan.parameters if f.name == "*" else (f.name,)
            wanted |= dict.fromkeys(names, f.shape)
    odd = sorted(set(wanted) ^ set(answer.arrays))
    if odd:
        raise DataError(f"{answer.who}: {odd[0]!r} is missing, or was not asked for")
    for name, shape in wanted.items():
        x = answer.arrays[name]
        own = [x.shape[k] if f == "any" else lengths[f] for k, f in enumerate(shape[: x.ndim])]
        fine = x.ndim == len(shape) and list(x.shape) == own
        if not fine or not np.isfinite(x).all():
            raise DataError(f"{answer.who}: {name!r} must be ({', '.join(shape)}) finite numbers")
    if request.ask == "times":
        for name in wanted:
            if (np.diff(answer.arrays[name]) <= 0).any():
                raise DataError(f"{answer.who}: {name!r} must be ascending")
