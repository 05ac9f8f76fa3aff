"""The censoring distribution over all sites, for Fine–Gray models with a common baseline.

G(t) = Π_{s ≤ t} (1 − c(s) / n(s)), where c(s) is the weight censored at s, and n(s) the weight that
leaves later or is censored at s, as in `steropes.likelihoods.censoring_distribution`. Each site
sends the weights that leave and that are censored at each time; the lead adds them up and sends G
to all sites. Each fold of a cross-validation has the G of its training rows, and another one of its
own rows for their score. With late entry, sites also send the weights that enter, and G is the
estimate of `steropes.likelihoods.observation_distribution`. They then send the weights with the
event of interest too, which determine the last spell of observation in which weights are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..errors import DataError
from .answer_layout import Totals
from .federated_constants import EVALUATION
from .federated_plan import FederatedPlan
from .site_rows import SiteRows

__all__ = ["PooledCensoring", "censoring_counts", "leaving_times", "pooled_censoring"]

# The names of a site's contributions; the last two exist only with late entry.
COUNTS = ("leave", "censored", "enter", "cases")


@dataclass(frozen=True)
class PooledCensoring:
    """The censoring distribution of all rows and, for each fold, of its training and own rows.

    Attributes
    ----------
    times : (L,) array
        Times at which a row leaves or enters, ascending.
    G : (1 + 2 folds, L) array
        G up to and including each time: of all rows, and for fold f of the other rows in row
        1 + 2 f and of its own rows in row 2 + 2 f.
    """

    times: np.ndarray
    G: np.ndarray

    def before(self, t: np.ndarray, which: int) -> np.ndarray:
        """Evaluate G(t−) of row ``which``."""
        at = np.searchsorted(self.times, t, side="left")
        return np.concatenate([[1.0], self.G[which]])[at]


def leaving_times(rows: SiteRows) -> np.ndarray:
    """Return the times at which a row of a site leaves or enters, ascending."""
    there = rows.problem.weights > 0
    entries = np.empty(0) if rows.entry is None else rows.entry[there & np.isfinite(rows.entry)]
    return np.unique(np.concatenate([rows.y[there], entries]))


def censoring_counts(rows: SiteRows, times: np.ndarray) -> dict[str, np.ndarray]:
    """Compute a site's contributions to the censoring distribution.

    Parameters
    ----------
    times : (L,) array
        Times that include all those at which a row leaves or enters.

    Returns
    -------
    dict
        ``leave`` and ``censored``, the weights that leave and that are censored at each time,
        (1 + folds, L), of all rows and of the rows that each fold leaves out. With late entry also
        ``enter``, the weights that enter, and ``cases``, the weights that leave with the event of
        interest.

    Raises
    ------
    DataError
        A row leaves or enters at another time.
    """
    w = rows.problem.weights
    assert rows.codes is not None
    if not np.isin(leaving_times(rows), times).all():
        raise DataError("the request's times leave out times at which rows of this site leave")
    weights = [w] if rows.held_out is None else [w, *(w * out for out in rows.held_out.T)]
    there = w > 0

    def each(t: np.ndarray, some: np.ndarray) -> np.ndarray:
        at = np.searchsorted(times, t[some])
        return np.array([np.bincount(at, x[some], minlength=len(times)) for x in weights])

    out = {"leave": each(rows.y, there)}
    out["censored"] = each(rows.y, there & (rows.codes == 0))
    if rows.entry is None:
        return out
    assert rows.event is not None
    came = there & np.isfinite(rows.entry)
    return out | {"enter": each(rows.entry, came), "cases": each(rows.y, there & rows.event)}


def pooled_censoring(plan: FederatedPlan, times: np.ndarray, totals: Totals) -> PooledCensoring:
    """Compute G from the totals of all sites at some times."""
    names = COUNTS[:2] if plan.entry is None else COUNTS
    counts = np.array([totals[name] for name in names])
    some = (counts[0, 0] > 0) if plan.entry is None else (counts[[0, 2], 0] > 0).any(axis=0)
    times, counts = times[some], counts[:, :, some]
    if plan.entry is None:
        G = np.array([_distribution(*x) for x in _by_rows(counts, plan.folds)])
        return PooledCensoring(times, G)
    first = np.nextafter(times[:1], -np.inf)  # before anyone leaves G is not 1 in every spell
    G = np.array([_observation(*x) for x in _by_rows(counts, plan.folds)])
    return PooledCensoring(np.concatenate([first, times]), G)


def _by_rows(counts: np.ndarray, folds: int) -> Iterator[np.ndarray]:
    """Yield counts (·, L) of all rows, then of the other rows and of the own rows of each fold.

    The counts without a fold are the sum over the other folds of the same repeat, which is exactly
    zero if these have none. The difference of all rows and the fold would not be.
    """
    yield counts[:, 0]
    for k in range(1, counts.shape[1]):
        start = k - (k - 1) % folds
        others = [j for j in range(start, start + folds) if j != k]
        yield counts[:, others].sum(axis=1)
        yield counts[:, k]


def _distribution(leave: np.ndarray, censored: np.ndarray) -> np.ndarray:
    """Compute G without late entry, up to each time, (L,)."""
    later = np.append(np.cumsum(leave[::-1])[::-1][1:], 0.0)
    n = later + censored
    with np.errstate(divide="ignore"):
        return np.exp(np.cumsum(np.log(np.where(n > 0, later, 1.0) / np.where(n > 0, n, 1.0))))


def _observation(
    leave: np.ndarray, censored: np.ndarray, enter: np.ndarray, cases: np.ndarray
) -> np.ndarray:
    """Compute G with late entry, before the first time and up to each, (1 + L,).

    G is zero in all spells of observation before the last one with events of interest, because the
    weights of competing events there are unknown. Later spells need no weights.
    """
    total = float(leave.sum())
    early = total - float(enter.sum())  # before all times
    early = early if early > EVALUATION.weight_rounding * total else 0.0
    came = np.cumsum(np.append(early, enter))[:-1]  # before each time
    stay = came - np.cumsum(leave)
    stay = np.where(stay > EVALUATION.weight_rounding * came, stay, 0.0)
    before, after = stay + censored, stay + enter
    known = (before > 0) & (after > 0)
    log = np.log(np.where(known, after, 1.0)) - np.log(np.where(known, before, 1.0))
    spell = np.append(0, np.cumsum((before <= 0) & (enter > 0)))
    eventful = np.flatnonzero(cases > 0)
    last = spell[eventful[-1]] if len(eventful) else 0  # the spell just before that time
    total_log = np.append(0.0, np.cumsum(log))
    return np.where(spell >= last, np.exp(total_log - total_log.max()), 0.0)
