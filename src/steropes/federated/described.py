"""The description of all sites' rows, and what follows from it: centres, scales and a start."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..design.column_storage import power_of_two
from ..errors import DataError
from .censoring import CensoringOfAll, pooled_censoring
from .contents import Totals
from .exchange import Exchange
from .plan import FederatedPlan

__all__ = ["Described", "describe"]

NARROWEST = 1e-6  # of the spread over all sites: a smaller spread within sites may be rounding
CANCELLED = 1e-12  # of a squared mean: a variance between sites that may be rounding
FILLED = 0.5  # share of rows that are not zero from which on a column is centred


@dataclass(frozen=True)
class Described:
    """The rows of all sites in a few numbers.

    Attributes
    ----------
    weight : float
    rows, people : int
    events : int or None
        None for linear models.
    center, scale : (p,) arrays
        Of the columns: where the intercept is, and powers of two near their spread.
    mean : (p,) array
    constant : float
        Of the log-likelihood.
    grouped : bool
        Whether an intercept of its own would make no difference to a site's loss.
    start : (h,) array
        Of the intercept that all sites share.
    outcome_variance : float
        Within the sites where each has its own intercept, otherwise over all rows.
    times : (T,) array
        Of shared risk sets.
    fold_weight : (folds · repeats,) array
        Of the rows that each fold leaves out.
    censoring : CensoringOfAll or None
        Of Fine and Gray's models with one baseline.
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
    censoring: CensoringOfAll | None = None


def describe(plan: FederatedPlan, exchange: Exchange) -> Described:
    """Ask for the description; where risk sets are shared without a grid, for event times first."""
    times, leave_times = _times(plan, exchange)
    arrays = {"leave_times": leave_times} if plan.model == "fine_gray" else {}
    told = exchange.total("describe", arrays if plan.shares_risk_sets else {})
    weight, rows = told.number("weight"), told.count("rows")
    events = None if plan.model == "linear" else told.count("events")
    if not weight > 0:
        raise DataError("the sites' rows have no weight")
    _refuse_events(plan, events, rows)
    center, scale, mean = _columns(plan, told, weight)
    start, outcome_variance = _outcome(plan, told, weight)
    censoring = None
    if plan.shares_risk_sets and plan.model == "fine_gray":
        censoring = pooled_censoring(plan, leave_times, told)
    return Described(
        weight, rows, told.count("people"), events, center, scale, mean, told.number("constant"),
        not plan.intercepts, start, outcome_variance, times,
        told["fold_weight"] if plan.folds else np.empty(0), censoring,
    )  # fmt: skip


def _times(plan: FederatedPlan, exchange: Exchange) -> tuple[np.ndarray, np.ndarray]:
    """Times of shared risk sets, and those at which rows leave or enter: the grid, or a union."""
    none = np.empty(0)
    if not plan.shares_risk_sets:
        return none, none
    if plan.times:
        grid = np.asarray(plan.times, float)
        return grid, grid
    answers = exchange.each("times")
    times = np.unique(np.concatenate([a.arrays["times"] for a in answers]))
    if plan.model != "fine_gray":
        return times, none
    return times, np.unique(np.concatenate([a.arrays["leave_times"] for a in answers]))


def _columns(
    plan: FederatedPlan, told: Totals, weight: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centres, scales and means of the columns."""
    mean, filled = told["first"] / weight, told["filled"] / weight
    within = np.maximum(told["within"] / weight, 0.0)
    between = told["between"] / weight - mean**2
    between = np.where(between > CANCELLED * mean**2, between, 0.0)
    spread = np.sqrt(within + between)
    constant = [c for j, c in enumerate(plan.columns) if spread[j] <= 1e-13 * abs(mean[j])]
    if constant and plan.prior == "none":
        raise DataError(
            f"the column {constant[0]!r} has one value only, at all sites: leave it out"
        )
    centred = filled >= FILLED
    size = np.where(centred, spread, np.sqrt(spread**2 + mean**2))
    if not plan.shares_risk_sets and not plan.intercepts:  # sites are not compared
        size = np.where(np.sqrt(within) > NARROWEST * spread, np.sqrt(within), size)
    return np.where(centred, mean, 0.0), power_of_two(size), mean


def _refuse_events(plan: FederatedPlan, events: int | None, rows: int) -> None:
    """Refuse models without events, whose estimates are not finite."""
    if events == 0:
        raise DataError("no site has an event")
    if plan.model == "logistic" and events == rows:
        raise DataError("everyone has the event, at all sites")


def _outcome(plan: FederatedPlan, told: Totals, weight: float) -> tuple[np.ndarray, float]:
    """The common intercept to start from, and the variance of the outcome."""
    if not (plan.intercepts or plan.has_own_intercepts):
        return np.empty(0), math.nan
    total, within = told.number("outcome"), told.number("outcome_within") / weight
    if plan.has_own_intercepts:
        return np.empty(0), within
    middle = total / weight
    between = told.number("outcome_between") / weight - middle**2
    variance = within + (between if between > CANCELLED * middle**2 else 0.0)
    if plan.model == "linear":
        return np.array([middle]), variance
    if plan.model == "poisson":
        return np.log(np.array([total / told.number("expected")])), variance
    share = np.clip(np.array([middle]), 1e-12, 1 - 1e-12)
    return np.log(share / (1 - share)), variance
