"""The censoring distribution of all sites, for Fine and Gray's model with one baseline.

G(t) = Π_{s ≤ t} (1 − c(s) / n(s)), with c(s) the weight censored at s and n(s) that which leaves
later or is censored at s, as in `steropes.likelihoods.censoring_distribution`. A site tells how
much leaves and how much is censored at each of its times; the lead adds up and sends G to all.
Each fold of a cross-validation has the G of its training rows, and that of its own for their score.
Where people enter late a site tells how much enters too, and G is the estimate of
`steropes.likelihoods.observation_distribution`.
It then also tells how much has the event of interest, as that says which spell of observation is
the last that weights are needed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..errors import DataError
from .contents import Totals
from .plan import FederatedPlan
from .rows import SiteRows

__all__ = ["CensoringOfAll", "leaving", "leaving_times", "pooled_censoring"]

ROUNDING = 1e-12  # of the weight at a time
COUNTS = ("leave", "censored", "enter", "cases")


@dataclass(frozen=True)
class CensoringOfAll:
    """G of all rows, and for each fold f without its rows, 1 + 2 f, and of them alone, 2 + 2 f.

    Attributes
    ----------
    times : (L,) array
        At which someone leaves or enters, ascending.
    G : (1 + 2 folds, L) array
        Up to and including each time.
    """

    times: np.ndarray
    G: np.ndarray

    def before(self, t: np.ndarray, which: int) -> np.ndarray:
        """G(t−)."""
        at = np.searchsorted(self.times, t, side="left")
        return np.concatenate([[1.0], self.G[which]])[at]


def leaving_times(rows: SiteRows) -> np.ndarray:
    """The times at which a row of a site leaves or enters, ascending."""
    there = rows.problem.weights > 0
    entries = np.empty(0) if rows.entry is None else rows.entry[there & np.isfinite(rows.entry)]
    return np.unique(np.concatenate([rows.y[there], entries]))


def leaving(rows: SiteRows, times: np.ndarray) -> dict[str, np.ndarray]:
    """A site's contributions to the censoring distribution.

    Parameters
    ----------
    times : (L,) array
        Every time at which a row leaves or enters is among them.

    Returns
    -------
    dict
        ``leave`` and ``censored``, the weights that leave and that are censored at each time,
        (1 + folds, L), of all rows and of those that each fold leaves out. With late entry also
        ``enter``, the weights that enter, and ``cases``, those that leave with the event of
        interest.
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


def pooled_censoring(plan: FederatedPlan, times: np.ndarray, told: Totals) -> CensoringOfAll:
    """G of all sites from their totals at some times."""
    names = COUNTS[:2] if plan.entry is None else COUNTS
    counts = np.array([told[name] for name in names])
    some = (counts[0, 0] > 0) if plan.entry is None else (counts[[0, 2], 0] > 0).any(axis=0)
    times, counts = times[some], counts[:, :, some]
    if plan.entry is None:
        G = np.array([_distribution(*x) for x in _by_rows(counts, plan.folds)])
        return CensoringOfAll(times, G)
    first = np.nextafter(times[:1], -np.inf)  # at which nobody has left: not 1 in every spell
    G = np.array([_observation(*x) for x in _by_rows(counts, plan.folds)])
    return CensoringOfAll(np.concatenate([first, times]), G)


def _by_rows(counts: np.ndarray, folds: int) -> Iterator[np.ndarray]:
    """Counts (·, L) of all rows; then of those without each fold, and of the fold's.

    What is without a fold is the sum of a cut's other folds: zero where these have nothing, which
    a difference of all rows and the fold is not.
    """
    yield counts[:, 0]
    for k in range(1, counts.shape[1]):
        start = k - (k - 1) % folds
        others = [j for j in range(start, start + folds) if j != k]
        yield counts[:, others].sum(axis=1)
        yield counts[:, k]


def _distribution(leave: np.ndarray, censored: np.ndarray) -> np.ndarray:
    later = np.append(np.cumsum(leave[::-1])[::-1][1:], 0.0)
    n = later + censored
    with np.errstate(divide="ignore"):
        return np.exp(np.cumsum(np.log(np.where(n > 0, later, 1.0) / np.where(n > 0, n, 1.0))))


def _observation(
    leave: np.ndarray, censored: np.ndarray, enter: np.ndarray, cases: np.ndarray
) -> np.ndarray:
    """What G is with late entry, before the first time and up to each, (1 + L,).

    It is zero in all spells of observation before the last that has events of interest: no
    competing event there has a weight that is known, and spells after it need none.
    """
    total = float(leave.sum())
    early = total - float(enter.sum())  # before all times
    early = early if early > ROUNDING * total else 0.0
    came = np.cumsum(np.append(early, enter))[:-1]  # before each time
    stay = came - np.cumsum(leave)
    stay = np.where(stay > ROUNDING * came, stay, 0.0)
    before, after = stay + censored, stay + enter
    known = (before > 0) & (after > 0)
    log = np.log(np.where(known, after, 1.0)) - np.log(np.where(known, before, 1.0))
    spell = np.append(0, np.cumsum((before <= 0) & (enter > 0)))
    eventful = np.flatnonzero(cases > 0)
    last = spell[eventful[-1]] if len(eventful) else 0  # of what is before that time
    total_log = np.append(0.0, np.cumsum(log))
    return np.where(spell >= last, np.exp(total_log - total_log.max()), 0.0)
