"""Numbers of a description that no rows have: of rows, events, outcomes and times."""

from __future__ import annotations

import numpy as np

from ..errors import DataError
from .plan import FederatedPlan
from .protocol import Message

__all__ = ["ROUNDING", "exact_conditional", "refuse", "refuse_description"]

ROUNDING = 1e-8  # of sums
LEAST_GAMMA = 0.1215  # −log Γ(1 + y) at most


def refuse(answer: Message, name: str, fine: bool | np.bool_, said: str) -> None:
    """Refuse a field that is not what it must be, by site and field."""
    if not fine:
        given = answer.values.get(name)
        more = "" if given is None else f", not {given!r}"
        raise DataError(f"{answer.who}: {name!r} must be {said}{more}")


def exact_conditional(plan: FederatedPlan) -> bool:
    """Whether the model is the exact conditional one."""
    return plan.model == "conditional" and plan.ties in (None, "exact")


def _same(a: float, b: float) -> bool:
    return abs(a - b) <= ROUNDING * max(abs(a), abs(b))


def refuse_description(plan: FederatedPlan, a: Message) -> None:
    """Refuse numbers of the first round that contradict each other."""
    rows, weight = a.number("rows"), a.number("weight")
    refuse(a, "columns", a.value("columns") == list(plan.columns), "the plan's columns")
    mean, variance, filled = (a.arrays[n] for n in ("mean", "variance", "filled"))
    fine = mean**2 * (1 - filled) <= filled * variance + ROUNDING * mean**2
    refuse(a, "mean", fine.all(), "what 'variance' and 'filled' allow")
    refuse(a, "rows", rows > 0, "more than 0")
    refuse(a, "people", 0 < a.number("people") <= rows, f"from 1 to 'rows', {rows:g}")
    if plan.weight is None:
        refuse(a, "weight", _same(weight, rows), f"'rows', {rows:g}: the plan has no weights")
    grouped = not plan.intercepts
    refuse(a, "grouped", a.value("grouped") == grouped, f"{grouped} of a {plan.model} model")
    if plan.model in ("linear", "logistic", "cox", "fine_gray") or exact_conditional(plan):
        refuse(a, "constant", a.number("constant") == 0, f"0 of a {plan.model} model")
    if plan.model == "poisson":
        most = LEAST_GAMMA * weight  # counts may be fractions
        refuse(a, "constant", a.number("constant") <= most, f"no more than {most:g}")
    if plan.model != "linear":
        refuse(a, "events", a.number("events") <= rows, f"no more than 'rows', {rows:g}")
    if plan.intercepts:
        _refuse_outcome(plan, a, weight)
    _refuse_times(plan, a)
    K = plan.folds
    for r in range(plan.repeats if K else 0):
        parts = float(a.arrays["fold_weight"][r * K : (r + 1) * K].sum())
        refuse(a, "fold_weight", _same(parts, weight), f"'weight', {weight:g}, in parts")


def _refuse_outcome(plan: FederatedPlan, a: Message, weight: float) -> None:
    total, variance = a.number("outcome"), a.number("outcome_variance")
    if plan.offset is None and plan.exposure is None:
        refuse(a, "expected", _same(a.number("expected"), weight), f"'weight', {weight:g}")
    if plan.model == "linear":
        return
    events = a.number("events")
    refuse(a, "expected", a.number("expected") > 0, "more than 0")
    refuse(a, "outcome", (total > 0) == (events > 0) and total >= 0,
            "0 or more, and 0 without 'events'")  # fmt: skip
    if plan.model == "logistic":
        share = total / weight
        refuse(a, "outcome", share <= 1 + ROUNDING, f"no more than 'weight', {weight:g}")
        of = share * (1 - share)
        refuse(
            a, "outcome_variance", abs(variance - of) <= ROUNDING, f"{of:g}, by outcome and weight"
        )
        if plan.weight is None:
            refuse(a, "outcome", _same(total, events), f"'events', {events:g}")


def _refuse_times(plan: FederatedPlan, a: Message) -> None:
    if "times" in a.arrays:
        n, events = len(a.arrays["times"]), a.number("events")
        refuse(a, "times", n <= events and (n > 0) == (events > 0),
                f"those of {events:g} 'events', but there are {n}")  # fmt: skip
    if "leave" not in a.arrays:
        return
    among = plan.times if plan.times else a.arrays["leave_times"]
    inside = np.isin(a.arrays["leave_times"] if plan.times else a.arrays["times"], among)
    refuse(a, "leave_times", inside.all(), "of the grid, or hold 'times'")
    leave, censored, weight = a.arrays["leave"], a.arrays["censored"], a.number("weight")
    room = ROUNDING * (1 + leave[0])
    refuse(a, "leave", _same(float(leave[0].sum()), weight), f"'weight', {weight:g}, in all")
    refuse(a, "leave", (leave <= leave[0] + room).all(), "more of all rows than of some")
    refuse(a, "censored", (censored <= leave + room).all(), "no more than those who leave")
    refuse(a, "censored", (censored <= censored[0] + room).all(), "more of all rows than of some")
    counts = {"leave": leave, "censored": censored}
    if "enter" in a.arrays:
        enter = counts["enter"] = a.arrays["enter"]
        early = weight - float(enter[0].sum())  # before all times
        came = early + np.cumsum(enter[0]) - enter[0]
        slack = ROUNDING * (1 + weight)
        fine = early >= -slack and (np.cumsum(leave[0]) <= came + slack).all()
        refuse(a, "enter", fine, "of people who enter before they leave")
        _refuse_cases(plan, a, room)
        counts["cases"] = a.arrays["cases"]
        room = room + ROUNDING * enter[0]
        refuse(a, "enter", (enter <= enter[0] + room).all(), "more of all rows than of some")
    for r in range(plan.repeats if plan.folds else 0):
        own = slice(1 + r * plan.folds, 1 + (r + 1) * plan.folds)
        for name, x in counts.items():
            parts = np.abs(x[own].sum(axis=0) - x[0])
            refuse(a, name, (parts <= room).all(), "of the folds what it is of all, in parts")


def _refuse_cases(plan: FederatedPlan, a: Message, room: np.ndarray) -> None:
    """Weights of the events of interest at the times at which rows leave."""
    cases, uncensored = a.arrays["cases"], a.arrays["leave"] - a.arrays["censored"]
    refuse(a, "cases", (cases <= uncensored + room).all(), "no more than leave uncensored")
    refuse(a, "cases", (cases <= cases[0] + room).all(), "more of all rows than of some")
    events, total = a.number("events"), float(cases[0].sum())
    refuse(a, "cases", (total > 0) == (events > 0), f"of {events:g} 'events'")
    if plan.weight is None:
        refuse(a, "cases", _same(total, events), f"of {events:g} 'events': the plan has no weights")
    if not plan.times:
        at = a.arrays["leave_times"][cases[0] > 0]
        refuse(a, "cases", np.array_equal(at, a.arrays["times"]), "more than 0 at 'times' alone")
