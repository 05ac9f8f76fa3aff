"""Numbers of an answer that no rows have, refused by site and field.

A site's sums are not independent of each other: there are no more events than rows, a Hessian has
no correlations beyond one, a convex loss lies above its tangents. What breaks such a rule was
changed, or added up wrongly, and would lead to a wrong estimate without a sign of it. `consistent`
holds what a site said in one round against what it said in others.
"""

from __future__ import annotations

import numpy as np

from .consistent import HUGE, folds_of
from .contents import FAR
from .plan import FederatedPlan
from .possible_rows import ROUNDING, exact_conditional, refuse, refuse_description
from .protocol import Message
from .site_sums import unpacked

__all__ = ["refuse_impossible"]

MOMENT = 1e-6  # of moments, which are about other centres
NOISE = 1e-4  # times `ROUNDING`, of Σ w x²: curvature that is none
NEAR = 1e-9  # of a column's size: what is left of constant columns
OVERFLOWING = ("poisson", "fine_gray")  # models of which exp may be beyond doubles
FLAT = 1e-3  # of a log-likelihood: how far profiles are from their values


def refuse_impossible(
    plan: FederatedPlan, request: Message, answer: Message, first: Message
) -> None:
    """Refuse numbers that contradict each other.

    Parameters
    ----------
    answer : Message
        Of the right fields; see `contents`.
    first : Message
        The site's answer of the first round, which may be the same.

    Raises
    ------
    DataError
    """
    if request.ask in ("describe", "estimate"):
        refuse_description(plan, answer)
    if request.ask == "estimate" and answer.value("usable"):
        refuse(answer, "variance_of_estimate", (answer.arrays["variance_of_estimate"] > 0).all(),
                "more than 0, as the estimate is usable")  # fmt: skip
    elif request.ask == "evaluate":
        _refuse_evaluation(plan, request, answer, first)
    elif request.ask == "risk_sets":
        _refuse_risk_sets(plan, request, answer, first)
    elif request.ask == "surrogate" and plan.prior == "none":
        q = len(answer.arrays["estimate"])
        H = unpacked(answer.arrays["hessian"], q)
        fine = _correlated(H, np.zeros(q)) and bool((np.diag(H) > 0).all())
        refuse(answer, "hessian", fine, "positive definite")
    elif request.ask == "profile":
        for name in plan.parameters:
            _refuse_profile(plan, answer, name)


# -- sums at coefficients --------------------------------------------------------------------------


def _refuse_evaluation(plan: FederatedPlan, request: Message, a: Message, first: Message) -> None:
    loss, g = a.arrays["loss"], a.arrays["gradient"]
    refuse(a, "loss", (loss > -FAR).all(), "numbers, or Infinity")
    least = _least_loss(plan, first)
    refuse(a, "loss", (loss >= least).all(), f"0 or more of a {plan.model} model")
    small = loss < HUGE
    refuse(a, "gradient", not (np.isfinite(g) & (np.abs(g) > FAR)).any(), f"within {FAR:g}")
    refuse(a, "loss", small.all() or plan.model in OVERFLOWING, "finite")
    refuse(a, "gradient", np.isfinite(g[small]).all(), "finite, as the loss is")
    at = request.numbers("hessians", 0, len(loss))
    own = 1 if plan.intercepts else 0
    q = own + len(request.arrays["columns"])
    H, raw = unpacked(a.arrays["hessian"], q), a.arrays["uncentred"]
    for name, x in (("hessian", H), ("uncentred", raw)):
        refuse(a, name, (np.abs(x[small[at]]) < FAR**2).all(), "finite, as the loss is")
    H, raw, folds = H[small[at]], raw[small[at]], folds_of(request)[at][small[at]]
    room = raw + NOISE * _squares(plan, request, first)
    refuse(a, "hessian", _correlated(H, room), "positive semidefinite, beside 'uncentred'")
    diagonal, room = np.diagonal(H, axis1=1, axis2=2), ROUNDING * room
    if own:
        fine = (np.abs(raw - diagonal) <= room).all()
        refuse(a, "uncentred", fine, "the diagonal of 'hessian'")
    elif not exact_conditional(plan):
        fine = (diagonal <= raw + room).all()
        refuse(a, "hessian", fine, "no more than 'uncentred' on its diagonal")
    _refuse_beyond_moments(plan, request, a, first, diagonal, folds)
    if "held_out" in a.arrays:
        _refuse_held_out(plan, request, a, small, least)


def _squares(plan: FederatedPlan, request: Message, first: Message) -> np.ndarray:
    """Σ w x² of a Hessian's columns, about the request's centre."""
    square = first.arrays["variance"] + (first.arrays["mean"] - request.arrays["center"]) ** 2
    of_columns = square[request.numbers("columns", 0, len(square))]
    return first.number("weight") * np.append(np.ones(1 if plan.intercepts else 0), of_columns)


def _refuse_beyond_moments(
    plan: FederatedPlan, request: Message, a: Message, first: Message, diagonal: np.ndarray,
    folds: np.ndarray,
) -> None:  # fmt: skip
    """Derivatives by the columns' second moments, of models whose residuals are bounded.

    |Σ w r x| ≤ √(Σ w r² Σ w x²), where Σ w r² is twice the loss of linear models, no more than the
    loss of logistic ones ((1 − p)² ≤ −log p), and W of exact conditional ones; Σ w v x² is at most
    max v Σ w x².
    """
    if plan.model not in ("linear", "logistic") and not exact_conditional(plan):
        return  # with other ties a set of d cases may expect them all of one row
    weight, own = first.number("weight"), 1 if plan.intercepts else 0
    center, mean = request.arrays["center"], first.arrays["mean"]
    square = first.arrays["variance"] + (mean - center) ** 2
    room = weight * np.append(np.zeros(own), (NEAR * (np.abs(mean) + np.abs(center))) ** 2)
    square = weight * np.append(np.ones(own), square)
    loss = a.arrays["loss"]
    residual = {"linear": 2 * loss, "logistic": loss}.get(plan.model, np.full(len(loss), weight))
    most = np.sqrt(residual[:, None] * (square + room)) * (1 + MOMENT)
    fine = (np.abs(a.arrays["gradient"]) <= most).all()
    refuse(a, "gradient", fine, "what the rows' moments and the loss allow")
    if not own:
        return
    at = np.append(0, 1 + request.numbers("columns", 0, 10**9))
    square, room = square[at], room[at]
    most = {"linear": 1.0, "logistic": 0.25}[plan.model] * square
    fine = diagonal <= most * (1 + MOMENT) + room
    if plan.model == "linear":
        fine &= (folds >= 0)[:, None] | (diagonal >= most * (1 - MOMENT) - room)
    refuse(a, "hessian", fine.all(), "what the rows' moments allow")


def _least_loss(plan: FederatedPlan, first: Message) -> float:
    """What minus a logarithm of probabilities is at least, by rounding; Poisson's are none.

    A row's weight is within the logarithm of models that compare rows, which weights below one
    make negative.
    """
    if plan.model in ("linear", "logistic"):
        return 0.0
    if plan.model == "poisson" or plan.weight is not None:
        return -np.inf
    return -MOMENT * first.number("weight")


def _refuse_held_out(
    plan: FederatedPlan, request: Message, a: Message, small: np.ndarray, least: float
) -> None:
    held, folds = a.arrays["held_out"], folds_of(request)
    fine = (np.abs(held[small]) < FAR).all()
    refuse(a, "held_out", fine, f"finite, as the loss is, and within {FAR:g}")
    refuse(a, "held_out", (held[folds < 0] == 0).all(), "0 where nothing is left out")
    if plan.model != "linear":
        fine = (held[small] <= -least).all()
        refuse(a, "held_out", fine, f"0 or less of a {plan.model} model")
    if plan.model == "linear":
        refuse(a, "held_out", (held[:, [0, 1, 3, 4, 5]] >= 0).all(), "sums of squares and weights")


def _correlated(H: np.ndarray, raw: np.ndarray) -> bool:
    """Whether matrices (…, q, q) have diagonals from 0, and no correlations beyond one."""
    diagonal = np.diagonal(H, axis1=-2, axis2=-1)
    size = np.sqrt(np.maximum(diagonal, 0.0) + ROUNDING * raw)
    fine = (diagonal >= -ROUNDING * raw).all()
    both = size[..., :, None] * size[..., None, :]
    return bool(fine and (np.abs(H) <= (1 + ROUNDING) * both).all())


# -- risk sets of all sites ------------------------------------------------------------------------


def _refuse_risk_sets(plan: FederatedPlan, request: Message, a: Message, first: Message) -> None:
    S, E = a.arrays["S"], a.arrays["E"]
    known = np.isfinite(S) & np.isfinite(E)
    for name in ("S", "E", "held_S", "held_E"):
        x = a.arrays.get(name, S)
        refuse(a, name, (x > -FAR).all(), "numbers, or Infinity")
    for name in ("S1", "E1"):
        x = a.arrays[name]
        refuse(a, name, not (np.isfinite(x) & (np.abs(x) > FAR)).any(), f"within {FAR:g}")
    room = ROUNDING * (1e-4 + np.where(known, S, 0.0))
    refuse(a, "E", (E[known] <= (S + room)[known]).all(), "no more than 'S'")
    count, weight = a.arrays["count"], a.arrays["weight"]
    events = count.sum(axis=-1)
    if "held_count" in a.arrays:
        held = a.arrays["held_count"]
        events = events + held.sum(axis=-1)
        _refuse_weights(plan, a, held, a.arrays["held_weight"], "held_weight")
    refuse(a, "count", (events == first.number("events")).all(),
            f"of {first.number('events'):g} events, as in the first round")  # fmt: skip
    _refuse_weights(plan, a, count, weight, "weight")
    if "cases" in first.arrays:
        _refuse_other_cases(request, a, first)
    rows = count[..., None] > 0
    E1 = a.arrays["E1"]
    refuse(a, "E1", (E1[~np.broadcast_to(rows, E1.shape)] == 0).all(), "0 at times without events")
    fine = known.reshape(len(S), -1).all(axis=1)
    if fine.all():
        for name in ("S1", "E1"):
            refuse(a, name, np.isfinite(a.arrays[name]).all(), "finite, as 'S' is")
    if fine.all() and "second" in a.arrays:
        flat = a.arrays["second"]
        k = int((np.sqrt(8 * flat.shape[-1] + 1) - 1) / 2)
        H = unpacked(flat, k)
        raw = np.maximum(np.diagonal(H, axis1=-2, axis2=-1), 0.0)
        fine_one = np.isfinite(H).all() and _correlated(H, raw)
        refuse(a, "second", fine_one, "positive semidefinite")


def _refuse_weights(
    plan: FederatedPlan, a: Message, count: np.ndarray, weight: np.ndarray, name: str
) -> None:
    refuse(a, name, ((weight > 0) == (count > 0)).all(), "more than 0 where there are events")
    if plan.weight is None:
        fine = np.abs(weight - count) <= ROUNDING * count
        refuse(a, name, fine.all(), "the number of events: the plan has no weights")


def _refuse_other_cases(request: Message, a: Message, first: Message) -> None:
    """Refuse weights of events that are not the first round's, of all rows and of folds."""
    cases = np.zeros((len(first.arrays["cases"]), len(request.arrays["times"])))
    at = np.searchsorted(request.arrays["times"], first.arrays["leave_times"])
    told = (first.arrays["cases"] > 0).any(axis=0)
    cases[:, at[told]] = first.arrays["cases"][:, told]
    said, room = "what 'cases' of the first round say", ROUNDING * cases[0]
    left = np.zeros(len(cases[0]))
    if "held_weight" in a.arrays:
        fold = request.numbers("folds", -1, len(cases) - 1)
        left = np.where(fold[:, None] < 0, 0.0, cases[1 + fold])
        off = np.abs(a.arrays["held_weight"] - left)
        refuse(a, "held_weight", (off <= room).all(), said)
    off = np.abs(a.arrays["weight"] - (cases[0] - left))
    refuse(a, "weight", (off <= room).all(), said)


# -- profiles --------------------------------------------------------------------------------------


def _refuse_profile(plan: FederatedPlan, a: Message, name: str) -> None:
    x, value, slope = a.arrays[name].T
    fine = len(x) > 1 and (np.diff(x) > 0).all() and np.ptp(x) > 1 / FAR
    refuse(a, name, fine, "of ascending points, two or more")
    step, rise = np.diff(x), np.diff(value)
    room = FLAT * (1 + np.abs(value[1:]) + np.abs(value[:-1]))
    most, least = slope[:-1] * step, slope[1:] * step
    if plan.model == "linear":  # −n/2 log of a parabola, which is concave near its top alone
        most, least = np.where(slope[:-1] < 0, 0.0, np.inf), np.where(slope[1:] > 0, 0.0, -np.inf)
    fine = ((rise <= most + room) & (rise >= least - room)).all()
    refuse(a, name, fine, "a concave curve with its slopes")
