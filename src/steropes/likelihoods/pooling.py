"""Event times pooled into some hundred bins, for a Hessian that is only good enough for steps."""

from __future__ import annotations

import numpy as np

__all__ = ["BINS", "pool", "pool_hazards"]

BINS = 300
A_STRATUM = 3  # bins, as long as there are many more rows than bins
ROWS_A_BIN = 100


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


def pool_hazards(h, S, squares, start: np.ndarray, n: int) -> np.ndarray:
    """Hazards D_g / S_g of event times, (m, 1), pooled so that the Hessian stays about the same.

    The variance over a risk set of rows that are alike is theirs times κ_g = 1 − Σ r² / S_g²,
    the chance that two rows drawn from it differ: none where one row is all there is. So a
    bin's middle stands for Σ_g D_g κ_g.

    Parameters
    ----------
    h, S, squares : (m, 1) arrays
        Hazards, and sums of r and r² over the risk sets.
    start : (S + 1,) int array
        Where the strata begin and end among the event times.
    n : int
        Rows.

    Returns
    -------
    (m,) array
    """
    filled = np.where(S > 0, S, 1.0)
    kappa = np.maximum(1.0 - squares / filled / filled, 0.0)[:, 0]
    kappa[kappa < 1e-10] = 0.0
    bins = max(BINS, min(A_STRATUM * (len(start) - 1), n // ROWS_A_BIN))
    mass = pool((h * S)[:, 0] * kappa, start, bins)
    used = mass > 0
    return np.where(used, mass / np.where(used, kappa * filled[:, 0], 1.0), 0.0)
