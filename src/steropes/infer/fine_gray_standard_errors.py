"""Standard errors of incidences predicted by Fine–Gray models, from the rows' influences.

A row's influence on the cumulative subdistribution hazard e^η Λ₀(t) of a person with columns x is
e^η [∫_0^t dM_i / S + ψ_i + (x Λ₀(t) − ∫_0^t x̄ dΛ₀)' V U_i], where U_i is its score and ψ_i its
contribution to the censoring weights: Fine and Gray (1999), JASA 94:496, §4.
"""

from __future__ import annotations

import numpy as np

from ..fit import Problem
from ..likelihoods.fine_gray_likelihood import FineGrayLikelihood
from .baseline_hazard import fitted_state
from .hazard_with_variance import HazardWithVariance, relative_hazard
from .inference_constants import BLOCKS
from .score_contributions import UnitScores

__all__ = ["IncidenceErrors"]


class IncidenceErrors:
    """Cumulative subdistribution hazards of people, with their standard errors.

    Parameters
    ----------
    problem : steropes.fit.Problem
        The problem of a Fine–Gray model.
    beta : (p,) array
        Coefficients in X's units.
    V : (p, p) array
        Inverse information.
    unit : (n,) int array, optional
        Code of each row's cluster; None if each row is its own cluster.
    """

    def __init__(
        self,
        problem: Problem,
        beta: np.ndarray,
        V: np.ndarray,
        state: HazardWithVariance,
        unit: np.ndarray | None = None,
    ) -> None:
        self.problem, self.V, self.state = problem, V, state
        self.eta, self.weights = fitted_state(problem, beta)
        self.scores = UnitScores(problem, beta, unit)
        self.unit = unit

    def of(
        self, Z: np.ndarray, eta: np.ndarray, stratum: int, times: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute cumulative hazards in a stratum and their standard errors, (n, T) each.

        Parameters
        ----------
        Z : (n, p) array
            Columns minus their centres.
        eta : (n,) array
            Linear predictors of Z, including the offset.
        times : (T,) array
        """
        state, T = self.state, len(times)
        total, se = np.zeros((len(Z), T)), np.zeros((len(Z), T))
        runs = np.flatnonzero(state.stratum == stratum)
        if len(runs) == 0:  # the stratum has no event of interest
            return total, se
        run = int(runs[0])
        hazard, _ = state.until(run, times)
        means = state.integrated_until(run, times)
        base = self._baseline(run, times)
        scale = self.problem.design.scale
        step = max(1, BLOCKS.fine_gray_entries // max(1, T * len(base)))
        for a in range(0, len(Z), step):
            z = Z[a : a + step]
            d = z[:, None, :] * hazard[:, None] - means  # (rows, T, p)
            D = scale[:, None] * (self.V @ d.reshape(len(z) * T, d.shape[2]).T)
            influence = self.scores.along(D).reshape(len(base), len(z), T) + base[:, None, :]
            factor = relative_hazard(eta[a : a + step], state.shift[run])[:, None]
            total[a : a + step] = factor * hazard
            se[a : a + step] = factor * np.sqrt((influence**2).sum(axis=0))
        return total, se

    def joint_covariance(self, C: np.ndarray, B: np.ndarray) -> np.ndarray:
        """Compute covariances of linear functions of the hazard's steps and β̂, (T, K, K).

        Parameters
        ----------
        C : (m, T, K) array
            Coefficients of K functions on the steps' errors at each of T times.
        B : (p, T, K) array
            Coefficients on the error of β̂.
        """
        (m, T, K), p = C.shape, len(B)
        covariance = np.empty((T, K, K))
        step = max(1, BLOCKS.fine_gray_entries // max(1, K * self.scores.size))
        for a in range(0, T, step):
            c, b = (x[:, a : a + step] for x in (C, B))
            D = self.problem.design.scale[:, None] * (self.V @ b.reshape(p, -1))
            influence = self.scores.along(D) + self._of_steps(c.reshape(m, -1))
            at_time = influence.reshape(self.scores.size, -1, K).transpose(1, 2, 0)
            covariance[a : a + step] = at_time @ at_time.swapaxes(1, 2)
        return covariance

    def _baseline(self, run: int, times: np.ndarray) -> np.ndarray:
        """Compute the influences on Λ₀ with β fixed, (units, T)."""
        state = self.state
        at = state.events_of(run)
        steps = np.zeros((len(state.time), len(times)))
        steps[at] = state.time[at, None] <= times
        return self._of_steps(steps)

    def _of_steps(self, C: np.ndarray) -> np.ndarray:
        """Compute the influences on Σ_u C(u) h(u) with β fixed, (units, F), for C (m, F)."""
        state, likelihood = self.state, self.problem.likelihood
        assert isinstance(likelihood, FineGrayLikelihood)
        factor = (C * state.hazard[:, None])[state.in_order_of_model]
        U = likelihood.backend.to_host(likelihood.hazard_influence(self.eta, self.weights, factor))
        row = likelihood.row_of_x if self.unit is None else self.unit[likelihood.row_of_x]
        out = np.zeros((self.scores.size, C.shape[1]))
        np.add.at(out, row, U)
        return out
