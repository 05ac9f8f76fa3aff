"""Cumulative hazards of given people with standard errors, as in R's `survfit.coxph`.

The cumulative hazard Σ_q e^{η_q} Λ_q(t) of a person has the variance
Σ_q e^{2η_q} Var M_q(t) + d'Vd with d = Σ_q e^{η_q} (x_q Λ_q(t) − ∫ x̄ dΛ_q), over the intervals q of
time (one, without effects that change): Tsiatis (1981); Therneau and Grambsch (2000, §10.2.3).
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from .hazard_with_variance import MAX_LOG_HAZARD, HazardWithVariance, relative_hazard
from .inference_constants import BLOCKS

__all__ = [
    "cumulative_hazards",
    "hazards_at_own_times",
    "incidence_limits",
    "log_hazards",
    "log_log_limits",
    "time_grid",
]


def time_grid(state: HazardWithVariance, stratum: int) -> np.ndarray:
    """Return the times of events with weight in a stratum, ascending."""
    runs = [int(r) for r in np.flatnonzero(state.stratum == stratum)]
    some = [state.time[at][state.weighted[at]] for at in map(state.events_of, runs)]
    return np.unique(np.concatenate(some)) if some else np.empty(0)


def cumulative_hazards(
    state: HazardWithVariance,
    V: np.ndarray,
    Z: np.ndarray,
    acts: np.ndarray,
    eta: np.ndarray,
    stratum: int,
    times: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute cumulative hazards in a stratum and their standard errors, (n, T) each.

    Hazards are capped where survival is zero anyway; the arguments are those of `log_hazards`.
    """
    log_hazard, share = log_hazards(state, V, Z, acts, eta, stratum, times)
    total = np.exp(np.minimum(log_hazard, MAX_LOG_HAZARD))
    return total, share * total


def log_hazards(
    state: HazardWithVariance,
    V: np.ndarray,
    Z: np.ndarray,
    acts: np.ndarray,
    eta: np.ndarray,
    stratum: int,
    times: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute log cumulative hazards in a stratum and their standard errors, (n, T) each.

    The errors are on the log scale, that is relative to the hazard. Far from the data they remain
    representable while the square of a hazard such as e^-400 does not.

    Parameters
    ----------
    V : (p, p) array
        Covariance of the coefficients.
    Z : (n, p) array
        Columns minus their centres, one per coefficient.
    acts : (p, Q) bool array
        Whether each coefficient acts in each interval of time.
    eta : (n, Q) array
        Linear predictors of Z, including the offset.
    times : (T,) array
    """
    n, p, T = len(Z), Z.shape[1], len(times)
    log_hazard, error = np.full((n, T), -np.inf), np.zeros((n, T))
    runs = [int(r) for r in np.flatnonzero(state.stratum == stratum)]
    logs, parts = [], []
    for r in runs:
        hazard, spread = state.until(r, times)
        some = np.where(hazard > 0, hazard, 1.0)
        with np.errstate(divide="ignore"):  # before the first event
            logs.append(np.log(hazard) + state.shift[r])
        parts.append((spread / some**2, state.integrated_until(r, times) / some[:, None]))
    step = max(1, BLOCKS.survival_entries // max(1, T * p))
    for a in range(0, n if runs else 0, step):
        at = slice(a, a + step)
        d, variance = np.zeros((len(Z[at]), T, p)), np.zeros((len(Z[at]), T))
        size = [eta[at, state.interval[r], None] + log for r, log in zip(runs, logs, strict=True)]
        whole = np.logaddexp.reduce(size, axis=0)
        some = np.where(np.isfinite(whole), whole, 0.0)
        for r, own, (spread, means) in zip(runs, size, parts, strict=True):
            share = np.exp(own - some)
            variance += share**2 * spread
            z = Z[at] * acts[:, state.interval[r]]
            d += share[:, :, None] * (z[:, None, :] - means)
        variance += np.einsum("itj,jk,itk->it", d, V, d, optimize=True)
        log_hazard[at], error[at] = whole, np.sqrt(np.maximum(variance, 0.0))
    return log_hazard, error


def hazards_at_own_times(
    state: HazardWithVariance,
    V: np.ndarray,
    Z: np.ndarray,
    acts: np.ndarray,
    eta: np.ndarray,
    codes: np.ndarray,
    start: np.ndarray,
    stop: np.ndarray,
) -> np.ndarray:
    """Compute the standard error of each person's hazard over its own time at risk, (n,).

    The other arguments are those of `log_hazards`.

    Parameters
    ----------
    codes : (n,) int array
        Strata.
    start, stop : (n,) arrays
        The time at risk is (start, stop].
    """
    d, variance = np.zeros(Z.shape), np.zeros(len(Z))
    for r in range(len(state.stratum)):
        rows = np.flatnonzero(codes == state.stratum[r])
        if not len(rows):
            continue
        q = int(state.interval[r])
        risk = relative_hazard(eta[rows, q], float(state.shift[r]))
        (h1, v1), (h0, v0) = (state.until(r, t[rows]) for t in (stop, start))
        means = state.integrated_until(r, stop[rows]) - state.integrated_until(r, start[rows])
        variance[rows] += risk**2 * (v1 - v0)
        d[rows] += risk[:, None] * (Z[rows] * acts[:, q] * (h1 - h0)[:, None] - means)
    variance += np.einsum("ij,jk,ik->i", d, V, d, optimize=True)
    return np.sqrt(np.maximum(variance, 0.0))


def log_log_limits(
    survival: np.ndarray, se: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Compute limits of probabilities on the log(−log) scale; 0 and 1 are their own limits."""
    inside = (survival > 0) & (survival < 1)
    s = np.where(inside, survival, 0.5)
    width = float(ndtri(0.5 + level / 2)) * np.where(inside, se, 0.0) / (s * np.abs(np.log(s)))
    with np.errstate(over="ignore"):  # the interval is then from 0 to 1
        lower = np.where(inside, s ** np.exp(width), survival)
    upper = np.where(inside, s ** np.exp(-width), survival)
    return lower, upper


def incidence_limits(
    incidence: np.ndarray, se: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray]:
    """Compute limits of incidences on the log(−log) scale of one minus the incidence.

    They are those of `log_log_limits`, without cancellation for incidences near zero.
    """
    inside = (incidence > 0) & (incidence < 1)
    f = np.where(inside, incidence, 0.5)
    hazard = -np.log1p(-f)
    width = float(ndtri(0.5 + level / 2)) * np.where(inside, se, 0.0) / ((1.0 - f) * hazard)
    with np.errstate(over="ignore"):  # the interval is then from 0 to 1
        lower, upper = (-np.expm1(-hazard * np.exp(x)) for x in (-width, width))
    return np.where(inside, lower, incidence), np.where(inside, upper, incidence)
