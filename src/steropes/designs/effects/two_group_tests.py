"""Proportionality test and robust standard error of Cox's model of the treatment alone.

Both are computed in closed form from the counts at risk and agree with a fit of the model; a grid
needs them hundreds of times.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.data.distinct_values import rank_values
from steropes.data.kaplan_meier import product_limit
from steropes.designs.effects.two_group_cox import TwoGroupCox

__all__ = ["TRANSFORM", "proportionality_p", "robust_error"]

TRANSFORM = "km"  # Time is transformed to one minus the Kaplan–Meier curve (R's cox.zph).
ALONE = 1e-10  # The smallest share of the change's information that is independent of the effect.


def proportionality_p(
    groups: TwoGroupCox, log_rr: float, time: ArrayLike, event: ArrayLike, weight: ArrayLike | None
) -> float:
    """Compute the p-value of the score test for a time-varying effect; NaN if there is none.
    The test is that of Grambsch and Therneau (1994), Biometrika 81:515, with g(t) one minus the
    Kaplan–Meier curve of everybody, as in ``CoxRegression.checks.proportionality``.

    Parameters
    ----------
    log_rr : float
        The maximum of its likelihood.
    time, event, weight : array_like, shape (n,)
        Data of the people, with the weights of ``groups``.
    """
    from scipy.stats import chi2

    t, died = np.asarray(time, dtype=float), np.asarray(event).astype(bool)
    if weight is not None:  # Positive weights do not affect g.
        there = np.asarray(weight) > 0
        t, died = t[there], died[there]
    curve = product_limit(t, died)
    g = 1 - curve.at(groups.time, left=True)
    g = g - float(np.mean(1 - curve.at(t[died], left=True)))
    share = groups.share(log_rr)
    score = float(g @ (groups.target_events - groups.events * share))
    variance = groups.events * share * (1 - share)
    v0, v1, v2 = (float(variance @ g**k) for k in (0, 1, 2))
    left = v2 - v1**2 / v0 if v0 > 0 else 0.0
    if not left > ALONE * v2:
        return math.nan
    return float(chi2.sf(score**2 / left, 1))


def robust_error(
    groups: TwoGroupCox,
    log_rr: float,
    time: ArrayLike,
    event: ArrayLike,
    treated: ArrayLike,
    weight: ArrayLike | None = None,
    strata: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
) -> float:
    """Compute the robust standard error of the log hazard ratio.

    It is the root of the sum of squared scores, by cluster, over the information (Lin and Wei 1989,
    JASA 84:1074).

    Parameters
    ----------
    log_rr : float
        The maximum of its likelihood.
    time, event, treated, weight, strata
        The data of ``groups``.
    clusters : array_like, shape (n,), optional
        Clusters within which scores are summed before squaring.
    """
    t, died = np.asarray(time, dtype=float), np.asarray(event).astype(bool)
    arm = np.asarray(treated).astype(bool)
    w = np.ones(len(t)) if weight is None else np.asarray(weight, dtype=float)
    stratum = np.zeros(len(t), dtype=np.int64)
    if strata is not None:
        stratum = rank_values(strata)[1]
    share = groups.share(log_rr)
    with np.errstate(divide="ignore"):
        total = np.logaddexp(np.log(groups.target) + log_rr, np.log(groups.comparator))
    hazard = groups.events * np.exp(-total)
    # Event times in ascending order, stratum by stratum.
    order = np.lexsort((groups.time, groups.stratum))
    span = max(float(t.max(initial=0.0)), 0.0) + 1.0
    places = groups.stratum[order] * span + groups.time[order]
    distinct, own = rank_values(stratum * span + t)
    mine = np.minimum(np.searchsorted(places, distinct), max(len(places) - 1, 0))[own]
    # The event times of each person's stratum up to the person's own time.
    strata_from = np.arange(int(stratum.max(initial=-1)) + 1)
    first = np.searchsorted(groups.stratum[order], strata_from, side="left")[stratum]
    last = np.maximum(np.searchsorted(places, distinct, side="right")[own], first)
    parts = []
    for x in (1.0, 0.0):
        lost = (hazard * math.exp(log_rr * x) * (x - share))[order]
        running = np.concatenate(([0.0], np.cumsum(lost)))
        part = running[last] - running[first]
        if len(places):  # tied events are at risk of a part of their own time's hazard only
            part = part - np.where(died, _at_time(lost * groups.departed[order], places)[mine], 0.0)
        parts.append(part)
    score = -np.where(arm, parts[0], parts[1])
    if len(places):
        weight_of = groups.events[order]
        mean = _at_time(share[order] * weight_of, places) / _at_time(weight_of, places)
        score = score + np.where(died, arm - mean[mine], 0.0)
    score = w * score
    if clusters is not None:
        number = rank_values(clusters)[1]
        score = np.bincount(number, score)
    return math.sqrt(float(score @ score)) / groups.information(log_rr)


def _at_time(values: NDArray, places: NDArray) -> NDArray:
    """Sum the values of each event time, for every row of that time."""
    first = np.flatnonzero(np.diff(places, prepend=-np.inf))
    counts = np.diff(np.append(first, len(places)))
    return np.repeat(np.add.reduceat(values, first), counts)
