"""Merging of event times into a few hundred bins, for Hessians that only guide steps."""

from __future__ import annotations

import numpy as np

from ..backends.cpu.likelihoods.event_merging import merge_events
from .likelihood_constants import HAZARD_BINS

__all__ = ["merge", "merge_hazards"]


def merge(mass: np.ndarray, start: np.ndarray, bins: int = HAZARD_BINS.min_bins) -> np.ndarray:
    """Move the weight of event times to the middle event time of each bin, within strata.

    The Hessian of a partial likelihood is Σ_g mass_g Var_g(x) over the event times' risk sets.
    Neighbouring risk sets have nearly the same variance, so one of them can represent its bin. The
    result is a sum of variances and thus positive semidefinite.

    Parameters
    ----------
    mass : (m,) array
        Nonnegative weight of each event time.
    start : (S + 1,) int array
        Boundaries of the strata among the event times.
    bins : int
        Number of bins of equal mass over all strata; each stratum with events has at least one.

    Returns
    -------
    (m,) array
        Weights with the same sum in each stratum, zero except at the middle of each bin.
    """
    out = np.zeros(len(mass))
    merge_events(mass, start, bins, out)
    return out


def merge_hazards(
    h: np.ndarray, S: np.ndarray, squares: np.ndarray, start: np.ndarray, n: int
) -> np.ndarray:
    """Merge the hazards D_g / S_g of event times so that the Hessian changes little.

    For exchangeable rows, the variance over a risk set is proportional to κ_g = 1 − Σ r² / S_g²,
    the probability that two rows drawn from it differ, which is zero for a single row. The middle
    of a bin therefore receives the weight Σ_g D_g κ_g.

    Parameters
    ----------
    h, S, squares : (m, 1) arrays
        Hazards, and sums of r and r² over the risk sets.
    start : (S + 1,) int array
        Boundaries of the strata among the event times.
    n : int
        Number of rows.

    Returns
    -------
    (m,) array
        Merged hazards.
    """
    filled = np.where(S > 0, S, 1.0)
    kappa = squares / filled
    kappa /= filled
    np.subtract(1.0, kappa, out=kappa)
    kappa[kappa < 1e-10] = 0.0
    mass = h * S
    mass *= kappa
    kappa *= filled
    bins = max(
        HAZARD_BINS.min_bins,
        min(HAZARD_BINS.bins_per_stratum * (len(start) - 1), n // HAZARD_BINS.rows_per_bin),
    )
    merged = merge(mass[:, 0], start, bins)
    return np.divide(merged, kappa[:, 0], out=merged, where=merged > 0)
