"""Event times pooled into some hundred bins, for a Hessian that is only good enough for steps."""

from __future__ import annotations

import numpy as np

__all__ = ["BINS", "pool"]

BINS = 300


def pool(mass: np.ndarray, start: np.ndarray, bins: int = BINS) -> np.ndarray:
    """Move the weight of event times to the middle one of each bin, within strata.

    The Hessian of a partial likelihood is Σ_g mass_g Var_g(x) over the event times' risk sets.
    Neighbouring risk sets have nearly the same variance, so one of them can stand for all of a
    bin; as a sum of variances the result stays positive semidefinite.

    Parameters
    ----------
    mass : (m,) array
        Weight of each event time, at least zero.
    start : (S + 1,) int array
        Where the strata begin and end among the event times.
    bins : int
        Bins of equal mass over all strata together; each stratum with events has at least one.

    Returns
    -------
    (m,) array
        The same sum for each stratum, zero outside the bins' middles.
    """
    out = np.zeros(len(mass))
    kept = np.flatnonzero(mass > 0)  # where there is no weight nobody may be at risk
    if len(kept) == 0:
        return out
    mass, start = mass[kept], np.searchsorted(kept, start)
    sizes = np.diff(start)
    stratum = np.repeat(np.arange(len(sizes)), sizes)
    done = np.cumsum(mass)
    edge = np.append(0.0, done)[start]
    base, total = edge[:-1], np.diff(edge)
    per = np.clip(np.ceil(bins * total / done[-1]), 1, np.maximum(sizes, 1)).astype(np.int64)
    share = (done - mass / 2 - base[stratum]) / total[stratum]
    within = np.clip((share * per[stratum]).astype(np.int64), 0, per[stratum] - 1)
    bin_ = np.concatenate([[0], np.cumsum(per)])[stratum] + within
    first = np.flatnonzero(np.diff(bin_, prepend=-1))
    middle = (first + np.append(first[1:], len(mass))) // 2  # of two, the larger risk set
    out[kept[middle]] = np.add.reduceat(mass, first)
    return out
