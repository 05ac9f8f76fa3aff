"""Cumulative hazards of given people with standard errors, as in R's `survfit.coxph`.

The cumulative hazard Σ_q e^{η_q} Λ_q(t) of a person has the variance
Σ_q e^{2η_q} Var M_q(t) + d'Vd with d = Σ_q e^{η_q} (x_q Λ_q(t) − ∫ x̄ dΛ_q), over the intervals q of
time (one, without effects that change): Tsiatis (1981); Therneau and Grambsch (2000, §10.2.3).
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from .baseline_hazard_variance import MAX_LOG_HAZARD, HazardWithVariance, relative_hazard
from .inference_constants import BLOCKS

__all__ = ["HazardErrors", "incidence_limits", "log_log_limits", "time_grid"]


def time_grid(state: HazardWithVariance, stratum: int) -> np.ndarray:
    """Return the times of events with weight in a stratum, ascending."""
    runs = [int(r) for r in np.flatnonzero(state.stratum == stratum)]
    some = [state.time[at][state.weighted[at]] for at in map(state.events_of, runs)]
    return np.unique(np.concatenate(some)) if some else np.empty(0)


class HazardErrors:
    """Cumulative hazards of people, with the standard errors of the model.

    Parameters
    ----------
    state : HazardWithVariance
        The baseline.
    V : (p, p) array
        Covariance of the coefficients.
    """

    def __init__(self, state: HazardWithVariance, V: np.ndarray) -> None:
        self.state, self.V = state, V

    def cumulative_hazards(
        self,
        Z: np.ndarray,
        acts: np.ndarray,
        eta: np.ndarray,
        stratum: int,
        times: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute cumulative hazards in a stratum and their standard errors, (n, T) each.

        Hazards are capped where survival is zero anyway; the arguments are those of `log_hazards`.
        """
        log_hazard, share = self.log_hazards(Z, acts, eta, stratum, times)
        total = np.exp(np.minimum(log_hazard, MAX_LOG_HAZARD))
        return total, share * total

    def log_hazards(
        self,
        Z: np.ndarray,
        acts: np.ndarray,
        eta: np.ndarray,
        stratum: int,
        times: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute log cumulative hazards in a stratum and their standard errors, (n, T) each.

        The errors are on the log scale, that is relative to the hazard. Far from the data they
        remain representable while the square of a hazard such as e^-400 does not.

        Parameters
        ----------
        Z : (n, p) array
            Columns minus their centres, one per coefficient.
        acts : (p, Q) bool array
            Whether each coefficient acts in each interval of time.
        eta : (n, Q) array
            Linear predictors of Z, including the offset.
        times : (T,) array
        """
        state, n, p, T = self.state, len(Z), Z.shape[1], len(times)
        log_hazard, error = np.full((n, T), -np.inf), np.zeros((n, T))
        runs = [int(r) for r in np.flatnonzero(state.stratum == stratum)]
        logs, parts, fixed = [], [], []
        for r in runs:
            hazard, _ = state.until(r, times)
            some = np.where(hazard > 0, hazard, 1.0)
            with np.errstate(divide="ignore"):  # before the first event
                logs.append(np.log(hazard) + state.shift[r])
            fixed.append(self._at_fixed_coefficients(r, times) / some)
            parts.append(state.integrated_until(r, times) / some[:, None])
        step = self._rows_at_a_time(T)
        for a in range(0, n if runs else 0, step):
            at = slice(a, a + step)
            d = np.zeros((len(Z[at]), T, p))
            size = [
                eta[at, state.interval[r], None] + log for r, log in zip(runs, logs, strict=True)
            ]
            whole = np.logaddexp.reduce(size, axis=0)
            some = np.where(np.isfinite(whole), whole, 0.0)
            shares = [np.exp(own - some) for own in size]
            for r, share, means in zip(runs, shares, parts, strict=True):
                z = Z[at] * acts[:, state.interval[r]]
                d += share[:, :, None] * (z[:, None, :] - means)
            variance = self._variances(d, shares, fixed)
            log_hazard[at], error[at] = whole, np.sqrt(np.maximum(variance, 0.0))
        return log_hazard, error

    def at_own_times(
        self,
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
        d, variance = self._hazards_of_own(Z, acts, eta, codes, start, stop)
        variance += np.einsum("ij,jk,ik->i", d, self.V, d, optimize=True)
        return np.sqrt(np.maximum(variance, 0.0))

    def joint_covariance(self, C: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Compute covariances of linear functions of the hazard's steps and β̂, (T, K, K).

        Steps are independent of each other and of β̂.

        Parameters
        ----------
        C : (m, T, K) array
            Coefficients of K functions on the steps' errors at each of T times.
        B : (p, T, K) array
            Coefficients on the error of β̂.
        """
        C, B = C.transpose(1, 2, 0), B.transpose(1, 2, 0)  # (T, K, m) and (T, K, p)
        own = (C * self.state.variance) @ C.swapaxes(1, 2)
        covariance = own + B @ self.V @ B.swapaxes(1, 2)
        return np.asarray(0.5 * (covariance + covariance.swapaxes(1, 2)))

    def _rows_at_a_time(self, times: int) -> int:
        """Return the number of people whose curves are computed at a time."""
        return max(1, BLOCKS.survival_entries // max(1, times * len(self.V)))

    def _at_fixed_coefficients(self, run: int, times: np.ndarray) -> np.ndarray:
        """Compute the error of a run's Λ₀ with β fixed, which `_variances` combines, (…, T)."""
        return np.sqrt(self.state.until(run, times)[1])

    def _variances(
        self, d: np.ndarray, shares: list[np.ndarray], fixed: list[np.ndarray]
    ) -> np.ndarray:
        """Compute variances of log hazards, (rows, T).

        Parameters
        ----------
        d : (rows, T, p) array
            Derivatives in β.
        shares : list of (rows, T) arrays
            The share of each run in the hazard.
        fixed : list of (…, T) arrays
            The result of `_at_fixed_coefficients`, relative to each run's hazard.
        """
        variance = np.einsum("itj,jk,itk->it", d, self.V, d, optimize=True)
        for share, own in zip(shares, fixed, strict=True):
            variance += share**2 * own**2
        return np.asarray(variance)

    def _hazards_of_own(
        self,
        Z: np.ndarray,
        acts: np.ndarray,
        eta: np.ndarray,
        codes: np.ndarray,
        start: np.ndarray,
        stop: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute derivatives in β (n, p), and variances with β fixed (n,); see `at_own_times`."""
        state = self.state
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
        return d, variance


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
