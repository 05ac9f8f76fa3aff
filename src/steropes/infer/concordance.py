"""Harrell's and Uno's concordance of risk scores with survival, in O(n log n)."""

from __future__ import annotations

import numpy as np

from ..backends.cpu.concordance_counts import count_pairs
from ..errors import DataError
from .time_dependent_auc import CensoringWeights

__all__ = ["censoring_share", "concordance_index", "concordance_influence"]


def concordance_influence(
    score: np.ndarray,
    time: np.ndarray,
    event: np.ndarray,
    entry: np.ndarray | None = None,
    strata: np.ndarray | None = None,
    weight: np.ndarray | None = None,
    share: np.ndarray | None = None,
) -> tuple[float, np.ndarray]:
    """Compute the concordance of a score with survival, and each row's influence on it.

    The concordance is the share of comparable pairs in which the row with the higher score fails
    first. A pair is comparable if one row has the event at a time at which the other is at risk
    and survives it: at equal times a censored row survives an event, and two events are not
    comparable. Equal scores count one half. Pairs are within strata and have weight w_i w_j. The
    definition is that of R's ``survival::concordance`` with its default time weights.

    Parameters
    ----------
    score : (n,) array
        Higher is riskier.
    time, event : (n,) arrays
        Event is 0 or 1.
    entry : (n,) array, optional
        At risk on (entry, time].
    strata : (n,) int array, optional
    weight : (n,) array, optional
    share : (n,) array, optional
        A further weight of each pair, given for the row with its event; see `censoring_share`.

    Returns
    -------
    concordance : float
    influence : (n,) array
        w_i times the derivative with respect to w_i. The sum of squares, or of squared sums over
        clusters, is the variance of the infinitesimal jackknife. ``share`` is treated as fixed.

    Raises
    ------
    DataError
        No pair is comparable.

    References
    ----------
    Harrell, Califf, Pryor, Lee and Rosati (1982), JAMA 247:2543. Therneau and Watson (2015), The
    concordance statistic and the Cox model, Mayo Clinic technical report 85.
    """
    n = len(time)
    weight = np.ones(n) if weight is None else weight
    share = np.ones(n) if share is None else share
    strata = np.zeros(n, np.int64) if strata is None else strata
    partners = np.zeros((n, 3))
    by = np.argsort(strata, kind="stable")
    edges = np.append(np.flatnonzero(np.diff(strata[by], prepend=strata.min() - 1)), n)
    for a, b in zip(edges[:-1], edges[1:], strict=True):
        i = by[a:b]
        if event[i].any() and b - a > 1:
            start = None if entry is None else entry[i]
            partners[i] = _partners(score[i], time[i], event[i] == 1, start, weight[i], share[i])
    counts = weight @ partners / 2  # each pair is counted with both of its rows
    pairs = counts.sum()
    if not pairs > 0:
        raise DataError("There are no comparable pairs: no one outlives an event.")
    concordance = (counts[0] + counts[2] / 2) / pairs
    own = partners[:, 0] + partners[:, 2] / 2 - concordance * partners.sum(axis=1)
    return float(concordance), weight * own / pairs


def concordance_index(
    score: np.ndarray,
    time: np.ndarray,
    event: np.ndarray,
    entry: np.ndarray | None = None,
    strata: np.ndarray | None = None,
    weight: np.ndarray | None = None,
    share: np.ndarray | None = None,
) -> float:
    """Compute the concordance alone; see `concordance_influence`."""
    return concordance_influence(score, time, event, entry, strata, weight, share)[0]


def censoring_share(
    time: np.ndarray,
    event: np.ndarray,
    strata: np.ndarray | None,
    weight: np.ndarray,
    ipcw: bool,
    tau: float | None,
) -> np.ndarray:
    """Compute weights of pairs by the time of their event.

    The weight is 1/Ĝ(T−)² with ``ipcw`` and otherwise 1; it is zero from ``tau`` on. Ĝ is the
    weighted Kaplan–Meier curve of censoring in each stratum. With these weights the concordance of
    events before τ does not depend on the distribution of censoring (Uno and others).

    References
    ----------
    Uno, Cai, Pencina, D'Agostino and Wei (2011), Statistics in Medicine 30:1105–1117.
    """
    share = np.ones(len(time))
    if ipcw:
        rows = np.flatnonzero(weight > 0)
        code = np.zeros(len(rows), np.int64) if strata is None else strata[rows]
        by = np.argsort(code, kind="stable")
        for i in np.split(rows[by], np.flatnonzero(np.diff(code[by])) + 1):
            if event[i].any():
                share[i] = CensoringWeights(time[i], event[i], weight[i]).before ** -2.0
    if tau is not None:
        share[time >= tau] = 0.0
    return share


def _partners(
    score: np.ndarray,
    time: np.ndarray,
    event: np.ndarray,
    entry: np.ndarray | None,
    weight: np.ndarray,
    share: np.ndarray,
) -> np.ndarray:
    """Sum the weights of each row's partners in concordant, discordant and tied pairs, (n, 3)."""
    values, rank = np.unique(score, return_inverse=True)
    groups = np.unique(time[event])[::-1]  # from late to early
    # Rows join the risk set at their own time; a row with the event joins after its own group.
    key = np.searchsorted(-groups, -time, side="left") + event
    joins = np.argsort(key, kind="stable")
    number = np.arange(len(groups))
    join_end = np.searchsorted(key[joins], number, side="right")
    leaves = np.empty(0, np.int64)
    leave_end = np.zeros(len(groups), np.int64)
    if entry is not None:
        gone = np.searchsorted(-groups, -entry, side="left")
        gone = np.maximum(gone, key)  # a row does not leave before it joins
        leaves = np.argsort(gone, kind="stable")
        leave_end = np.searchsorted(gone[leaves], number, side="right")
    events = np.flatnonzero(event)
    place = np.searchsorted(-groups, -time[events], side="left")
    order = np.argsort(place, kind="stable")
    event_end = np.searchsorted(place[order], number, side="right")
    out = np.zeros((len(time), 3))
    count_pairs(
        rank, weight, share, joins, join_end, leaves, leave_end, events[order], event_end,
        len(values), out,
    )  # fmt: skip
    return out
