"""Harrell's and Uno's concordance of risk scores with survival, in O(n log n)."""

from __future__ import annotations

import numpy as np

from ..backends.cpu.concordance_counts import count_pairs
from ..errors import DataError
from .time_dependent_auc import CensoringWeights

__all__ = [
    "censoring_share", "competing_concordance", "concordance_index", "concordance_influence",
]  # fmt: skip


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
    partners = np.zeros((n, 3))
    for i in _strata_rows(strata, n):
        if event[i].any() and len(i) > 1:
            start = None if entry is None else entry[i]
            partners[i] = _partners(score[i], time[i], event[i] == 1, start, weight[i], share[i])
    return _summarize_pairs(partners, weight)


def competing_concordance(
    score: np.ndarray,
    time: np.ndarray,
    event: np.ndarray,
    strata: np.ndarray | None,
    weight: np.ndarray,
    cause: int,
    tau: float | None = None,
) -> tuple[float, np.ndarray]:
    """Compute the concordance for one of several events with weights for censoring.

    The row i with the event of interest at T_i is compared with every row that is free of it at
    T_i: with those observed beyond, by the weight 1 / Ĝ(T_i−)², and with those that had a
    competing event at an earlier T_j, by 1 / (Ĝ(T_i−) Ĝ(T_j−)). The estimator is that of
    Wolbers and others, in which events precede censorings at equal times. Without competing
    events the result is Uno's concordance (`censoring_share`).

    Parameters
    ----------
    score : (n,) array
        Higher is riskier.
    time, event : (n,) arrays
        Event is 0 for censored rows and otherwise a cause.
    strata : (n,) int array, optional
        Pairs are formed, and Ĝ is estimated, within strata.
    weight : (n,) array
    tau : float, optional
        Only events of interest before this time count.

    Returns
    -------
    concordance : float
    influence : (n,) array
        See `concordance_influence`; Ĝ is treated as fixed.

    Raises
    ------
    DataError
        No pair is comparable.

    References
    ----------
    Wolbers, Blanche, Koller, Witteman and Gerds (2014), Biostatistics 15:526–539.
    """
    ours, other = event == cause, (event > 0) & (event != cause)
    partners = np.zeros((len(time), 3))
    for i in _strata_rows(strata, len(time), weight > 0):
        if not ours[i].any() or len(i) < 2:
            continue
        inverse = 1.0 / CensoringWeights(time[i], event[i], weight[i]).before
        if tau is not None:
            inverse = np.where(ours[i] & (time[i] >= tau), 0.0, inverse)
        later = _partners(score[i], time[i], ours[i], None, weight[i], inverse**2)
        k = np.flatnonzero(ours[i] | other[i])
        rows = i[k]
        # In reversed time a competing event is outlived by rows with later events of interest.
        order = np.unique(time[rows], return_inverse=True)[1]
        back = -2 * order - other[rows]
        weighted, one = weight[rows] * inverse[k], np.ones(len(k))
        earlier = _partners(score[rows], back, ours[rows], None, weighted, one, other[rows])
        later[k] += inverse[k, None] * earlier
        partners[i] = later
    return _summarize_pairs(partners, weight)


def _strata_rows(
    strata: np.ndarray | None, n: int, some: np.ndarray | None = None
) -> list[np.ndarray]:
    """Return the rows of each stratum, or those of them in the mask ``some``."""
    rows = np.arange(n) if some is None else np.flatnonzero(some)
    if strata is None:
        return [rows]
    by = np.argsort(strata[rows], kind="stable")
    return np.split(rows[by], np.flatnonzero(np.diff(strata[rows][by])) + 1)


def _summarize_pairs(partners: np.ndarray, weight: np.ndarray) -> tuple[float, np.ndarray]:
    """Compute the concordance and the rows' influence from the weights of partners (n, 3)."""
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
) -> float:
    """Compute the concordance alone; see `concordance_influence`."""
    return concordance_influence(score, time, event, entry, strata, weight)[0]


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
        for i in _strata_rows(strata, len(time), weight > 0):
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
    outliving: np.ndarray | None = None,
) -> np.ndarray:
    """Sum the weights of each row's partners in concordant, discordant and tied pairs, (n, 3).

    If a mask of ``outliving`` rows is given, events are compared with these alone.
    """
    values, rank = np.unique(score, return_inverse=True)
    groups = np.unique(time[event])[::-1]  # from late to early
    # Rows join the risk set at their own time; a row with the event joins after its own group.
    key = np.searchsorted(-groups, -time, side="left") + event
    joins = np.argsort(key, kind="stable")
    joins = joins if outliving is None else joins[outliving[joins]]
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
