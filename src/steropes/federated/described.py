"""What the first round tells of the sites, and what follows from it: centres, scales, a start."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..design.blocks import power_of_two
from ..errors import DataError
from .censoring import CensoringOfAll, pooled_censoring
from .exchange import Exchange
from .plan import FederatedPlan
from .protocol import Message

__all__ = ["Described", "describe", "describe_from"]

NARROWEST = 1e-6  # of the spread over all sites: one within sites that is no rounding
FILLED = 0.5  # share of rows that are not zero, at every site, from which a column is centred


@dataclass(frozen=True)
class Described:
    """The sites' rows in a few numbers.

    Attributes
    ----------
    weight, rows, people, events : dict of str to number
        By site; events are empty for linear models.
    center, scale : (p,) arrays
        Of the columns: where the intercept is, and powers of two near their spread.
    mean : (sites, p) array
        Of the columns at each site.
    constant : float
        Of the log-likelihood.
    grouped : bool
    start : (h,) array
        Of the intercepts.
    outcome_variance : float
        Over all rows.
    times : (T,) array
        Of shared risk sets.
    fold_weight : (folds · repeats,) array
        Of the rows of all sites that each fold leaves out.
    censoring : CensoringOfAll or None
        Of Fine and Gray's models with one baseline.
    """

    weight: dict[str, float]
    rows: dict[str, int]
    people: dict[str, int]
    events: dict[str, int]
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
    """The first round."""
    return describe_from(plan, exchange.ask("describe"))


def describe_from(plan: FederatedPlan, answers: list[Message]) -> Described:
    """What answers tell that hold a description, among other things perhaps."""
    p = len(plan.columns)
    for a in answers:
        if a.value("columns") != list(plan.columns):
            raise DataError(
                f"site {a.site!r} answered for other columns than the plan's: {a.value('columns')}"
            )
    w = np.array([a.number("weight") for a in answers])
    if not (np.isfinite(w).all() and (w > 0).all()):
        given = dict(zip(plan.sites, w.tolist(), strict=True))
        raise DataError(f"a site's rows have no weight: {given}")
    mean = np.array([a.array("mean", (p,)) for a in answers])
    variance = np.array([a.array("variance", (p,)) for a in answers])
    filled = np.array([a.array("filled", (p,)) for a in answers])
    for a, m, v in zip(answers, mean, variance, strict=True):
        bad = np.flatnonzero(~(np.isfinite(m) & (v >= 0)))
        if len(bad):
            raise DataError(
                f"site {a.site!r}: mean or variance of {plan.columns[bad[0]]!r} are not finite, or "
                "the variance is negative"
            )
    middle = w @ mean / w.sum()
    spread = np.sqrt(w @ (variance + (mean - middle) ** 2) / w.sum())
    if not np.isfinite(spread).all():
        raise DataError("a site's means or variances are not finite")
    centred = filled.min(axis=0) >= FILLED
    constant = [c for j, c in enumerate(plan.columns) if spread[j] <= 1e-13 * abs(middle[j])]
    if constant and plan.prior == "none":
        raise DataError(
            f"the column {constant[0]!r} has one value only, at all sites: leave it out"
        )
    size = np.where(centred, spread, np.sqrt(spread**2 + middle**2))
    if not plan.shares_risk_sets and len(plan.intercepts) != 1:  # sites are not compared
        within = np.sqrt(w @ variance / w.sum())
        size = np.where(within > NARROWEST * spread, within, size)
    events = {a.site: int(a.number("events")) for a in answers if "events" in a.values}
    sizes = {a.site: int(a.number("rows")) for a in answers}
    _refuse_events(plan, events, sizes)
    start, outcome_variance = _outcome(plan, answers, w)
    return Described(
        weight={a.site: float(x) for a, x in zip(answers, w, strict=True)},
        rows=sizes,
        people={a.site: int(a.number("people")) for a in answers},
        events=events,
        center=np.where(centred, middle, 0.0),
        scale=power_of_two(size),
        mean=mean,
        constant=sum(a.number("constant") for a in answers),
        grouped=bool(answers[0].value("grouped")),
        start=start,
        outcome_variance=outcome_variance,
        times=_times(plan, answers),
        fold_weight=_fold_weight(plan, answers),
        censoring=_censoring(plan, answers),
    )


def _fold_weight(plan: FederatedPlan, answers: list[Message]) -> np.ndarray:
    K = plan.folds * plan.repeats
    if not K:
        return np.empty(0)
    each = np.array([a.array("fold_weight", (K,)) for a in answers])
    if not (np.isfinite(each).all() and (each >= 0).all()):
        raise DataError("a site's folds have weights that are not finite, or negative")
    return each.sum(axis=0)


def _censoring(plan: FederatedPlan, answers: list[Message]) -> CensoringOfAll | None:
    if not plan.shares_risk_sets or plan.model != "fine_gray":
        return None
    return pooled_censoring(plan, answers)


def _times(plan: FederatedPlan, answers: list[Message]) -> np.ndarray:
    if not plan.shares_risk_sets:
        return np.empty(0)
    if plan.times:
        return np.asarray(plan.times, float)
    return np.unique(np.concatenate([np.asarray(a.arrays["times"], float) for a in answers]))


def _refuse_events(plan: FederatedPlan, events: dict[str, int], rows: dict[str, int]) -> None:
    """Refuse intercepts that have no finite estimate, and models without events."""
    if not events:
        return
    if not sum(events.values()):
        raise DataError("no site has an event")
    if plan.model == "logistic" and sum(events.values()) == sum(rows.values()):
        raise DataError("everyone has the event, at all sites")
    if plan.baseline != "site" or not plan.intercepts:
        return
    for site, n in events.items():
        if n == 0 or (plan.model == "logistic" and n == rows[site]):
            what = "no event" if n == 0 else "no one without the event"
            raise DataError(
                f"site {site!r} has {what}, so that its intercept is not finite and its rows say "
                "nothing: leave it out of the plan, or set baseline='common'"
            )


def _outcome(
    plan: FederatedPlan, answers: list[Message], w: np.ndarray
) -> tuple[np.ndarray, float]:
    """Intercepts to start from, and the variance of the outcome over all rows."""
    if not plan.intercepts:
        return np.empty(0), math.nan
    total = np.array([a.number("outcome") for a in answers])
    expected = np.array([a.number("expected") for a in answers])
    middle = total.sum() / w.sum()
    within = np.array([a.number("outcome_variance") for a in answers])
    variance = float(w @ (within + (total / w - middle) ** 2) / w.sum())
    if plan.baseline == "common":
        total, expected, w = (np.array([x.sum()]) for x in (total, expected, w))
    if plan.model == "linear":
        return total / w, variance
    if plan.model == "poisson":
        return np.log(total / expected), variance
    share = np.clip(total / w, 1e-12, 1 - 1e-12)
    return np.log(share / (1 - share)), variance
