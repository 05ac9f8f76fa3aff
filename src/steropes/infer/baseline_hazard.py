"""Cumulative baseline hazards of survival models, computed on the logarithmic scale.

The estimator matches the treatment of ties: Breslow's D_g / S_g or Efron's Σ_k w̄_g / S_k, as in
R's `survival::survfit.coxph` (Therneau and Grambsch 2000, §10.2.1).
"""

from __future__ import annotations

import numpy as np

from ..backends import host_backend
from ..backends.backend_interface import Array, Backend
from ..fit import Problem
from ..likelihoods.likelihood_interface import Bound
from ..solve.linear_predictor import bound_weights, linear_predictor
from .likelihood_types import cox_likelihood

__all__ = ["Baseline", "fitted_state"]


def fitted_state(problem: Problem, beta: np.ndarray) -> tuple[Array, Bound]:
    """Compute linear predictors (n_eta, 1) and bound weights at coefficients in X's units."""
    return linear_predictor(problem, beta * problem.design.scale), bound_weights(problem)


class Baseline:
    """Cumulative baseline hazards at X = 0 and offset 0, one for each stratum.

    Event times are stored in runs. A run is a stratum, or an interval of time of a stratum if
    effects are step functions of time.

    Attributes
    ----------
    start : (C + 1,) int array
        Boundaries of the runs in the arrays over event times.
    interval, stratum : (C,) int arrays
        Interval of time and code of the stratum of each run.
    time : (m,) array
        Event times, ascending in each run.
    log_hazard, log_cumulative : (m,) arrays
        Logarithms of the hazard's steps and of their running sums.
    """

    def __init__(self, problem: Problem, beta: np.ndarray) -> None:
        likelihood = cox_likelihood(problem)
        backend = likelihood.backend
        eta, weights = fitted_state(problem, beta)
        log_hazard = backend.to_host(likelihood.log_baseline(eta, weights))
        risk = likelihood.risk
        # The likelihood orders times from late to early within a run; reverse each run.
        self.start = risk.groups_start
        sizes = np.diff(self.start)
        run = np.repeat(np.arange(len(sizes)), sizes)
        flip = self.start[run] + self.start[run + 1] - 1 - np.arange(risk.m)
        self.time = risk.group_time[flip]
        self.interval, self.stratum = likelihood.interval_of, likelihood.stratum_of
        self.log_hazard = log_hazard[flip] + self._at_zero(problem, beta)[self.interval[run]]
        # Predictions may be made on a machine without the device, so the host's backend is kept.
        self._backend = host_backend(backend.pool.n_threads)
        self.log_cumulative = _log_running_sums(self.log_hazard, self.start, self._backend)

    @staticmethod
    def _at_zero(problem: Problem, beta: np.ndarray) -> np.ndarray:
        """Compute the shift of the log hazard from the columns' centres to X = 0, per interval."""
        return -problem.design.centers_at(beta)

    def steps(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Tabulate stratum, time, hazard step and cumulative hazard of each event time.

        Rows are sorted by stratum and time, without times at which no event has weight. The
        cumulative hazard continues across intervals of time.
        """
        stratum = np.repeat(self.stratum, np.diff(self.start))
        by = np.lexsort((self.time, stratum))
        by = by[self.log_hazard[by] > -np.inf]
        stratum = stratum[by]
        start = np.append(np.flatnonzero(np.diff(stratum, prepend=-1)), len(by))
        log_sums = _log_running_sums(self.log_hazard[by], start, self._backend)
        with np.errstate(over="ignore"):
            return stratum, self.time[by], np.exp(self.log_hazard[by]), np.exp(log_sums)

    def _at(
        self, times: np.ndarray, interval: int, wanted: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Evaluate log cumulative hazards in an interval of time.

        Returns the strata among those wanted, ascending, and their values at ``times``.
        """
        runs = np.flatnonzero((self.interval == interval) & np.isin(self.stratum, wanted))
        runs = runs[np.argsort(self.stratum[runs], kind="stable")]
        out = np.full((len(runs), len(times)), -np.inf)
        for i, c in enumerate(runs):
            a, b = self.start[c], self.start[c + 1]
            at = np.searchsorted(self.time[a:b], times, side="right")
            out[i] = np.append(-np.inf, self.log_cumulative[a:b])[at]
        return self.stratum[runs], out

    def log_cumulative_at(
        self, eta: np.ndarray, codes: np.ndarray, times: np.ndarray
    ) -> np.ndarray:
        """Compute the log cumulative hazard of each person at a time of its own, (n,).

        The arguments are those of `log_cumulative_of`, with one time for each person.
        """
        total = np.full(len(eta), -np.inf)
        for c, (q, s) in enumerate(zip(self.interval, self.stratum, strict=True)):
            rows = np.flatnonzero(codes == s)
            a, b = self.start[c], self.start[c + 1]
            at = np.searchsorted(self.time[a:b], times[rows], side="right")
            own = np.append(-np.inf, self.log_cumulative[a:b])[at] + eta[rows, q]
            total[rows] = np.logaddexp(total[rows], own)
        return total

    def log_cumulative_of(
        self, eta: np.ndarray, codes: np.ndarray, times: np.ndarray
    ) -> np.ndarray:
        """Compute the log cumulative hazards of given people.

        Parameters
        ----------
        eta : (n, Q) array
            Linear predictor in each interval of time.
        codes : (n,) int array
            Codes of their strata.
        times : (T,) array

        Returns
        -------
        (n, T) array
        """
        total = np.full((len(eta), len(times)), -np.inf)
        for q in range(eta.shape[1]):
            known, values = self._at(times, q, codes)
            place = np.minimum(np.searchsorted(known, codes), max(len(known) - 1, 0))
            if len(known) == 0:
                continue
            inside = np.flatnonzero(known[place] == codes)
            total[inside] = np.logaddexp(total[inside], values[place[inside]] + eta[inside][:, [q]])
        return total


def _log_running_sums(log_steps: np.ndarray, start: np.ndarray, backend: Backend) -> np.ndarray:
    """Compute the logarithms of running sums of exp(log_steps) within runs."""
    sizes = np.diff(start)
    some = np.flatnonzero(sizes)
    if len(some) == 0:
        return log_steps
    largest = np.maximum.reduceat(log_steps, start[some])
    largest = np.repeat(np.where(np.isfinite(largest), largest, 0.0), sizes[some])
    steps = backend.asarray(np.exp(log_steps - largest)[:, None])
    with np.errstate(divide="ignore"):
        return np.log(backend.to_host(backend.scan(steps, start))[:, 0]) + largest
