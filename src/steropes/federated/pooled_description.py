"""Description of the rows of all sites, with the centres, scales and start derived from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..design_matrix.column_storage import power_of_two
from ..errors import DataError
from .answer_layout import Totals
from .falsified_totals import IMPOSSIBLE, refuse_impossible
from .federated_constants import EVALUATION, GROUPING
from .federated_plan import FederatedPlan
from .message_exchange import Exchange
from .pooled_censoring import PooledCensoring, pooled_censoring

__all__ = ["PooledDescription", "describe"]


@dataclass(frozen=True)
class PooledDescription:
    """Summary statistics of the rows of all sites.

    Attributes
    ----------
    weight : float
        Total weight.
    events : int or None
        None for linear models.
    center, scale : (p,) arrays
        Centres of the columns, to which the intercept refers, and powers of two close to their
        standard deviations.
    mean : (p,) array
        Means of the columns.
    constant : float
        Constant of the log-likelihood.
    grouped : bool
        Whether the loss of each site does not depend on an intercept of that site.
    start : (h,) array
        Initial value of the common intercept, if any.
    outcome_variance : float
        Variance of the outcome, within sites if each has its own intercept, otherwise over all
        rows.
    times : (T,) array
        Times of shared risk sets.
    fold_weight : (folds · repeats,) array
        Weight of the rows that each fold leaves out.
    outcome : float
        Weighted total of the outcome, if sites share an intercept.
    rare : float or None
        Number of people whose values sites have replaced, from whole percent of each site; None if
        the plan does not allow it.
    censoring : PooledCensoring or None
        Censoring distribution of Fine–Gray models with a common baseline.
    """

    weight: float
    rows: int
    people: int
    events: int | None
    center: np.ndarray
    scale: np.ndarray
    mean: np.ndarray
    constant: float
    grouped: bool
    start: np.ndarray
    outcome_variance: float
    times: np.ndarray
    fold_weight: np.ndarray
    censoring: PooledCensoring | None = None
    rare: float | None = None
    outcome: float = math.nan

    @property
    def notes(self) -> list[str]:
        """A remark on people whose values sites have replaced."""
        if self.rare is None:
            return []
        share = round(100.0 * self.rare / max(self.people, 1))
        many = f"about {share} %" if share else "fewer than 1 %"
        note = (
            f"people with a rare combination of values ({many} of all) were grouped with similar "
            "people of their site, and the estimate is that of the grouped tables"
        )
        if share >= GROUPING.percent_with_bias:
            note += (
                ". With so many of them it can differ from that of all rows by half a standard "
                "error or more, which standard errors and intervals do not include: leave out "
                "columns that are not needed"
            )
        return [note]


def describe(plan: FederatedPlan, exchange: Exchange) -> PooledDescription:
    """Request the description, and before it the event times if risk sets share no given grid."""
    times, leave_times = _times(plan, exchange)
    arrays = {"leave_times": leave_times} if plan.planned.has_competing_events else {}
    totals = exchange.total("describe", arrays if plan.shares_risk_sets else {})
    weight, rows = totals.number("weight"), totals.count("rows")
    events = None if plan.planned.quadratic else totals.count("events")
    if not weight > 0:
        raise DataError("the sites' rows have no weight")
    _refuse_description(totals, weight, rows, events)
    _refuse_events(plan, events, rows)
    center, scale, mean = _columns(plan, totals, weight)
    start, outcome_variance = _outcome(plan, totals, weight)
    censoring = None
    if plan.shares_risk_sets and plan.planned.has_competing_events:
        censoring = pooled_censoring(plan, leave_times, totals)
    return PooledDescription(
        weight, rows, totals.count("people"), events, center, scale, mean,
        totals.number("constant"),
        not plan.intercepts, start, outcome_variance, times,
        totals["fold_weight"] if plan.folds else np.empty(0), censoring,
        totals.number("rare") if plan.groups_rare_rows else None,
        totals.number("outcome") if plan.intercepts else math.nan,
    )  # fmt: skip


def _times(plan: FederatedPlan, exchange: Exchange) -> tuple[np.ndarray, np.ndarray]:
    """Return the times of shared risk sets, and the times at which rows leave or enter.

    They are those of the plan's grid, or the unions over sites.
    """
    none = np.empty(0)
    if not plan.shares_risk_sets:
        return none, none
    if plan.times:
        grid = np.asarray(plan.times, float)
        return grid, grid
    answers = exchange.each("times")
    times = np.unique(np.concatenate([a.arrays["times"] for a in answers]))
    if not plan.planned.has_competing_events:
        return times, none
    return times, np.unique(np.concatenate([a.arrays["leave_times"] for a in answers]))


def _columns(
    plan: FederatedPlan, totals: Totals, weight: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute centres, scales and means of the columns."""
    mean, filled = totals["first"] / weight, totals["filled"] / weight
    within = np.maximum(totals["within"] / weight, 0.0)
    between = totals["between"] / weight - mean**2
    between = np.where(between > EVALUATION.min_between_share * mean**2, between, 0.0)
    spread = np.sqrt(within + between)
    constant = [c for j, c in enumerate(plan.columns) if spread[j] <= 1e-13 * abs(mean[j])]
    if constant and plan.prior == "none":
        raise DataError(f"the column {constant[0]!r} has the same value at all sites: leave it out")
    centred = filled >= EVALUATION.center_share
    size = np.where(centred, spread, np.sqrt(spread**2 + mean**2))
    if not plan.shares_risk_sets and not plan.intercepts:  # sites are not compared
        size = np.where(
            np.sqrt(within) > EVALUATION.min_within_share * spread, np.sqrt(within), size
        )
    return np.where(centred, mean, 0.0), power_of_two(size), mean


def _refuse_description(totals: Totals, weight: float, rows: int, events: int | None) -> None:
    """Reject a description that no rows have."""
    first, filled = totals["first"], totals["filled"]
    within, between = totals["within"], totals["between"]
    slack = IMPOSSIBLE * (np.abs(between) + np.abs(within))
    refuse_impossible({
        "people": totals.count("people") > rows,
        "events": events is not None and events > rows,
        "filled": bool(((filled < 0) | (filled > weight * (1 + IMPOSSIBLE))).any()),
        "within": bool((within < -slack).any()),
        "between": bool((first**2 > weight * (between + slack)).any()),
    })  # fmt: skip


def _refuse_events(plan: FederatedPlan, events: int | None, rows: int) -> None:
    """Reject data without events, or without others: their estimates are not finite."""
    if events == 0:
        raise DataError("no site has an event")
    if plan.planned.needs_non_events and events == rows:
        raise DataError("everyone has the event, at all sites")


def _outcome(plan: FederatedPlan, totals: Totals, weight: float) -> tuple[np.ndarray, float]:
    """Compute the initial common intercept, and the variance of the outcome."""
    intercept = plan.planned.intercept
    if intercept is None:
        return np.empty(0), math.nan
    total, within = totals.number("outcome"), totals.number("outcome_within") / weight
    if plan.has_own_intercepts:
        return np.empty(0), within
    middle = total / weight
    between = totals.number("outcome_between") / weight - middle**2
    variance = within + (between if between > EVALUATION.min_between_share * middle**2 else 0.0)
    return np.array([intercept.start(middle, total, totals.number("expected"))]), variance
