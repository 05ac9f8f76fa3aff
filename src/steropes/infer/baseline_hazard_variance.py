"""Baseline hazards with their variances and what else errors of survival curves require.

With Λ̂(t) = Σ_{u ≤ t} ĥ(u) at the columns' centres, Λ̂(t; β̂) − Λ(t) is about
M(t) − (∫_0^t x̄ dΛ)'(β̂ − β), where M has independent increments of variance v(u) and is
independent of β̂ (Tsiatis 1981, Ann Stat 9:93; Therneau and Grambsch 2000, §10.2.3).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..errors import DataError
from ..fit import Problem
from .baseline_hazard import fitted_state
from .inference_constants import BLOCKS
from .likelihood_types import cox_likelihood

__all__ = ["HazardWithVariance", "relative_hazard"]

# Log hazards are capped at this value, where survival is zero and squares are still finite.
MAX_LOG_HAZARD = 300.0
# The largest range of the logarithms of hazard steps whose squares can be added accurately.
MAX_LOG_RANGE = 250.0


def relative_hazard(eta: np.ndarray, shift: float) -> np.ndarray:
    """Compute exp(η + shift), capped where survival is zero anyway."""
    return np.exp(np.minimum(eta + shift, MAX_LOG_HAZARD))


class HazardWithVariance:
    """Steps of the baseline hazard of each run, at the columns' centres and offset 0.

    A run is a stratum, or an interval of time of a stratum. The hazards of a run are divided by
    exp(``shift``), so that its largest step is one and nothing overflows if X is far from zero.

    Parameters
    ----------
    beta : (p,) array
        Coefficients in X's units.

    Attributes
    ----------
    start : (C + 1,) int array
        Boundaries of the runs in the arrays over event times.
    interval, stratum, shift : (C,) arrays
        Interval of time, stratum code and log scale of each run.
    run : (m,) int array
        The run of each event time.
    time, hazard, variance : (m,) arrays
        Event times, ascending in each run, with the hazard's steps and their variances.
    weighted : (m,) bool array
        Whether some event at the time has weight; otherwise there is no step.
    center : (p,) array
        Centres of the columns.
    center_predictor : (Q,) array
        Linear predictor at the centres, in each interval of time.
    """

    def __init__(self, problem: Problem, beta: np.ndarray) -> None:
        likelihood = cox_likelihood(problem)
        host, risk = likelihood.backend.to_host, likelihood.risk
        self._problem = problem
        self._eta, self._weights = fitted_state(problem, beta)
        log_step = host(likelihood.log_baseline(self._eta, self._weights))
        spread = host(likelihood.hazard_spread(self._eta, self._weights))
        self.start = risk.groups_start
        sizes = np.diff(self.start)
        self.run = np.repeat(np.arange(len(sizes)), sizes)
        # The likelihood orders times from late to early within a run; reverse each run.
        self._flip = self.start[self.run] + self.start[self.run + 1] - 1 - np.arange(risk.m)
        self.interval, self.stratum = likelihood.interval_of, likelihood.stratum_of
        self.time = risk.group_time[self._flip]
        self.shift = np.zeros(len(sizes))
        log_step, some = log_step[self._flip], np.flatnonzero(sizes)
        top = np.maximum.reduceat(log_step, self.start[some])
        self.shift[some] = np.where(np.isfinite(top), top, 0.0)
        self.weighted = log_step > -np.inf
        least = np.minimum.reduceat(np.where(self.weighted, log_step, np.inf), self.start[some])
        if (top - least > MAX_LOG_RANGE).any():
            raise DataError(
                "Within a stratum the baseline hazard's steps differ by more than e^250, as with "
                "offsets of extreme size; standard errors of curves would be lost in rounding. "
                "Put such rows into a separate stratum. predict_survival and "
                "predict_cumulative_incidence compute curves without standard errors."
            )
        self.hazard = np.exp(log_step - self.shift[self.run])
        self.variance = spread[self._flip] * self.hazard**2
        self.center = np.asarray(problem.design.center, np.float64)
        self.center_predictor = np.asarray(problem.design.centers_at(beta), np.float64)

    @property
    def in_order_of_model(self) -> np.ndarray:
        """Positions of the event times in the likelihood's order, (m,)."""
        return self._flip

    def events_of(self, run: int) -> slice:
        """Return the slice of a run's event times."""
        return slice(self.start[run], self.start[run + 1])

    def integrated(self, C: np.ndarray) -> np.ndarray:
        """Compute Σ_u C(u) x̄(u) h(u) over all event times, (F, p), for C (m, F).

        x̄ is measured from the columns' centres.
        """
        H = C * self.hazard[:, None]
        return self._by_block(lambda mean: H.T @ mean, C.shape[1])

    def integrated_until(self, run: int, times: np.ndarray) -> np.ndarray:
        """Compute ∫ x̄ dΛ of a run up to each time, (T, p)."""
        at = self.events_of(run)
        upto = np.searchsorted(self.time[at], times, side="right")

        def part(mean: np.ndarray) -> np.ndarray:
            sums = np.cumsum(mean[at] * self.hazard[at, None], axis=0)
            return np.concatenate([np.zeros((1, mean.shape[1])), sums])[upto]

        return self._by_block(part, len(times))

    def until(self, run: int, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute a run's cumulative hazard and the variance of M at each time, (T,) each."""
        at = self.events_of(run)
        upto = np.searchsorted(self.time[at], times, side="right")
        sums = (np.append(0.0, np.cumsum(x[at]))[upto] for x in (self.hazard, self.variance))
        hazard, variance = sums
        return hazard, variance

    def _by_block(self, part: Callable[[np.ndarray], np.ndarray], rows: int) -> np.ndarray:
        """Collect rows of ``part``, called with the means of a block of columns, (m, L)."""
        problem = self._problem
        design, likelihood = problem.design, cox_likelihood(problem)
        backend, p = likelihood.backend, design.p
        out = np.empty((rows, p))
        for a in range(0, p, BLOCKS.columns):
            some = np.arange(a, min(a + BLOCKS.columns, p))
            D = np.zeros((p, backend.lanes(len(some))))
            D[some, np.arange(len(some))] = design.scale[some]
            Z = design.matmul(D, backend)
            Z = Z if likelihood.order is None else Z[likelihood.order]
            mean = backend.to_host(likelihood.hazard_means(self._eta, self._weights, Z))
            out[:, some] = part(mean[self._flip][:, : len(some)])
        return out
