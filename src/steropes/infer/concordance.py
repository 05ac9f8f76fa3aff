"""Concordance of risk scores with survival, Harrell's and Uno's, with standard errors.

In O(n log n).
"""

from __future__ import annotations

import numpy as np

from ..backends.cpu.ranks import count_pairs
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
    """Share of comparable pairs in which the one with the higher score fails first.

    A pair is comparable where one row has the event at a time at which the other is at risk and
    outlives it: at equal times a censored row outlives an event, and two events are no pair.
    Equal scores count one half. Pairs are within strata and weigh w_i w_j. As R's
    ``survival::concordance`` with its default weights of times.

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
        What each pair counts besides, by the row with its event; see `censoring_share`.

    Returns
    -------
    concordance : float
    influence : (n,) array
        w_i times its derivative by w_i; the sum of squares (of sums over clusters) is the
        infinitesimal jackknife's variance. ``share`` is taken as given.

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
    """The concordance alone; see `concordance_influence`."""
    return concordance_influence(score, time, event, entry, strata, weight, share)[0]


def censoring_share(
    time: np.ndarray,
    event: np.ndarray,
    strata: np.ndarray | None,
    weight: np.ndarray,
    ipcw: bool,
    tau: float | None,
) -> np.ndarray:
    """What pairs count by the time of their event: 1/Ĝ(T−)² with ``ipcw``, nothing from tau on.

    Ĝ is the weighted Kaplan–Meier curve of censoring, of each stratum its own. With these weights
    the concordance of events before τ does not depend on who is censored when (Uno and others).

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
    """Weights of each row's partners in concordant, discordant and tied pairs, (n, 3)."""
    values, rank = np.unique(score, return_inverse=True)
    groups = np.unique(time[event])[::-1]  # from late to early
    # Everyone joins at their time, those with the event after the group of their own time.
    key = np.searchsorted(-groups, -time, side="left") + event
    joins = np.argsort(key, kind="stable")
    number = np.arange(len(groups))
    join_end = np.searchsorted(key[joins], number, side="right")
    leaves = np.empty(0, np.int64)
    leave_end = np.zeros(len(groups), np.int64)
    if entry is not None:
        gone = np.searchsorted(-groups, -entry, side="left")
        gone = np.maximum(gone, key)  # nobody leaves before joining
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
