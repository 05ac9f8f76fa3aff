"""Event times merged into some hundred bins, for a Hessian that is only good enough for steps."""

from __future__ import annotations

import numpy as np

from ..backends.cpu.event_merging import merge_events

__all__ = ["BINS", "merge", "merge_hazards"]

BINS = 300
A_STRATUM = 3  # bins, as long as there are many more rows than bins
ROWS_A_BIN = 100


def merge(mass: np.ndarray, start: np.ndarray, bins: int = BINS) -> np.ndarray:
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
    merge_events(mass, start, bins, out)
    return out


def merge_hazards(
    h: np.ndarray, S: np.ndarray, squares: np.ndarray, start: np.ndarray, n: int
) -> np.ndarray:
    """Hazards D_g / S_g of event times, (m, 1), merged so that the Hessian stays about the same.

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
    kappa = squares / filled
    kappa /= filled
    np.subtract(1.0, kappa, out=kappa)
    kappa[kappa < 1e-10] = 0.0
    mass = h * S
    mass *= kappa
    kappa *= filled
    bins = max(BINS, min(A_STRATUM * (len(start) - 1), n // ROWS_A_BIN))
    merged = merge(mass[:, 0], start, bins)
    return np.divide(merged, kappa[:, 0], out=merged, where=merged > 0)
