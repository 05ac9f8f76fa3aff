"""Survival curves of given people with standard errors, as R's `survfit.coxph`.

The cumulative hazard Σ_q e^{η_q} Λ_q(t) of a person has the variance
Σ_q e^{2η_q} Var M_q(t) + d'Vd with d = Σ_q e^{η_q} (x_q Λ_q(t) − ∫ x̄ dΛ_q), over the intervals q of
time (one, without effects that change): Tsiatis (1981); Therneau and Grambsch (2000, §10.2.3).
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from .hazard_state import HazardState, relative_hazard

__all__ = ["cumulative_hazards", "log_log_limits", "time_grid"]

ENTRIES = 5_000_000  # numbers worked on together


def time_grid(state: HazardState, stratum: int) -> np.ndarray:
    """The times of events with weight in a stratum, ascending."""
    runs = [int(r) for r in np.flatnonzero(state.stratum == stratum)]
    some = [state.time[at][state.weighted[at]] for at in map(state.events_of, runs)]
    return np.unique(np.concatenate(some)) if some else np.empty(0)


def cumulative_hazards(
    state: HazardState,
    V: np.ndarray,
    Z: np.ndarray,
    acts: np.ndarray,
    eta: np.ndarray,
    stratum: int,
    times: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Cumulative hazards of people of one stratum and their standard errors, (n, T) each.

    Parameters
    ----------
    state : HazardState
    V : (p, p) array
        Covariance of the coefficients.
    Z : (n, p) array
        Columns less their centres, one a coefficient.
    acts : (p, Q) bool array
        Whether a coefficient acts in an interval of time.
    eta : (n, Q) array
        Linear predictors of Z, offset included.
    stratum : int
    times : (T,) array
    """
    n, p, T = len(Z), Z.shape[1], len(times)
    total, se = np.zeros((n, T)), np.zeros((n, T))
    runs = [int(r) for r in np.flatnonzero(state.stratum == stratum)]
    parts = [(*state.until(r, times), state.integrated_until(r, times)) for r in runs]
    step = max(1, ENTRIES // max(1, T * p))
    for a in range(0, n, step):
        at = slice(a, a + step)
        d, variance = np.zeros((len(Z[at]), T, p)), np.zeros((len(Z[at]), T))
        for r, (hazard, spread, means) in zip(runs, parts, strict=True):
            q = state.interval[r]
            factor = relative_hazard(eta[at, q], state.shift[r])[:, None]
            total[at] += factor * hazard
            variance += factor**2 * spread
            z = Z[at] * acts[:, q]
            d += factor[:, :, None] * (z[:, None, :] * hazard[:, None] - means)
        variance += np.einsum("itj,jk,itk->it", d, V, d, optimize=True)
        se[at] = np.sqrt(np.maximum(variance, 0.0))
    return total, se


def log_log_limits(
    survival: np.ndarray, se: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Limits of probabilities on the log(−log) scale; where they are 0 or 1, themselves."""
    inside = (survival > 0) & (survival < 1)
    s = np.where(inside, survival, 0.5)
    width = float(ndtri(0.5 + level / 2)) * np.where(inside, se, 0.0) / (s * np.abs(np.log(s)))
    with np.errstate(over="ignore"):  # an interval from 0 to 1, where nothing is known
        lower = np.where(inside, s ** np.exp(width), survival)
    upper = np.where(inside, s ** np.exp(-width), survival)
    return lower, upper
