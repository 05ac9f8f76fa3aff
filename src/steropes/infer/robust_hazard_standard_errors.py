"""Standard errors of predicted hazards from the influences of the rows of the fit.

A row's influence on the cumulative hazard e^η Λ₀(t) of a person with columns x is
e^η [∫_0^t dM_i / S + ψ_i + (x Λ₀(t) − ∫_0^t x̄ dΛ₀)' V U_i], where U_i is its score and ψ_i, in
Fine–Gray models, its contribution to the censoring weights: Fine and Gray (1999), JASA 94:496, §4;
Lin and Wei (1989), JASA 84:1074 (β in Cox models).
"""

from __future__ import annotations

import numpy as np

from ..fit import Problem
from .baseline_hazard import fitted_state
from .baseline_hazard_variance import HazardWithVariance, relative_hazard
from .inference_constants import BLOCKS
from .likelihood_types import cox_likelihood
from .score_contributions import UnitScores
from .survival_standard_errors import HazardErrors

__all__ = ["HazardInfluences"]


class HazardInfluences(HazardErrors):
    """Cumulative (subdistribution) hazards of people, with robust standard errors.

    Parameters
    ----------
    problem : steropes.fit.Problem
        The problem of a Cox or Fine–Gray model.
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
        super().__init__(state, V)
        self.problem = problem
        self.eta, self.weights = fitted_state(problem, beta)
        self.scores = UnitScores(problem, beta, unit)
        self.unit = unit

    def _rows_at_a_time(self, entries: int) -> int:
        """Bound the memory by the influences of all units."""
        return max(1, BLOCKS.hazard_influences // max(1, entries * self.scores.size))

    def _at_fixed_coefficients(self, run: int, times: np.ndarray) -> np.ndarray:
        """Compute the influences on Λ₀ with β fixed, (units, T)."""
        state = self.state
        at = state.events_of(run)
        steps = np.zeros((len(state.time), len(times)))
        steps[at] = state.time[at, None] <= times
        return self._of_steps(steps)

    def _variances(
        self, d: np.ndarray, shares: list[np.ndarray], fixed: list[np.ndarray]
    ) -> np.ndarray:
        """See `HazardErrors`: the sums of squared influences."""
        rows, T, p = d.shape
        influence = self._along(d.reshape(rows * T, p)).reshape(self.scores.size, rows, T)
        for share, own in zip(shares, fixed, strict=True):
            influence += share * own[:, None, :]
        return np.asarray((influence**2).sum(axis=0))

    def at_own_times(
        self,
        Z: np.ndarray,
        acts: np.ndarray,
        eta: np.ndarray,
        codes: np.ndarray,
        start: np.ndarray,
        stop: np.ndarray,
    ) -> np.ndarray:
        """See `HazardErrors.at_own_times`."""
        state, variance = self.state, np.empty(len(Z))
        d, _ = self._hazards_of_own(Z, acts, eta, codes, start, stop)
        step = self._rows_at_a_time(1)
        for a in range(0, len(Z), step):
            at = slice(a, a + step)
            C = np.zeros((len(state.time), len(Z[at])))
            for r in range(len(state.stratum)):
                u = state.time[state.events_of(r), None]
                inside = (u > start[at]) & (u <= stop[at]) & (codes[at] == state.stratum[r])
                risk = relative_hazard(eta[at, state.interval[r]], float(state.shift[r]))
                C[state.events_of(r)] = inside * risk
            variance[at] = ((self._along(d[at]) + self._of_steps(C)) ** 2).sum(axis=0)
        return np.sqrt(variance)

    def joint_covariance(
        self,
        C: np.ndarray,
        B: np.ndarray,
        rows: np.ndarray | None = None,
        own: np.ndarray | None = None,
    ) -> np.ndarray:
        """See `HazardErrors.joint_covariance`.

        ``own`` (n, T, K) is subtracted from the influences of the rows ``rows`` (n,) of the fit.
        """
        (m, T, K), p = C.shape, len(B)
        covariance = np.empty((T, K, K))
        step = self._rows_at_a_time(K)
        for a in range(0, T, step):
            c, b = (x[:, a : a + step] for x in (C, B))
            influence = self._along(b.reshape(p, -1).T) + self._of_steps(c.reshape(m, -1))
            by_unit = influence.reshape(self.scores.size, -1, K)
            if rows is not None and own is not None:
                unit = rows if self.unit is None else self.unit[rows]
                np.subtract.at(by_unit, unit, own[:, a : a + step])
            at_time = by_unit.transpose(1, 2, 0)
            covariance[a : a + step] = at_time @ at_time.swapaxes(1, 2)
        return covariance

    def _along(self, directions: np.ndarray) -> np.ndarray:
        """Compute the influences on b' β̂ of all units for directions b (F, p), (units, F)."""
        scale = self.problem.design.scale[:, None]
        return self.scores.along(scale * (self.V @ directions.T))

    def _of_steps(self, C: np.ndarray) -> np.ndarray:
        """Compute the influences on Σ_u C(u) h(u) with β fixed, (units, F), for C (m, F)."""
        state, likelihood = self.state, cox_likelihood(self.problem)
        factor = (C * state.hazard[:, None])[state.in_order_of_model]
        U = likelihood.backend.to_host(likelihood.hazard_influence(self.eta, self.weights, factor))
        row = likelihood.row_of_x if self.unit is None else self.unit[likelihood.row_of_x]
        out = np.zeros((self.scores.size, C.shape[1]))
        np.add.at(out, row, U)
        return out
