"""Cox's partial likelihood of the treatment alone, as a function of the counts at risk.

With one 0/1 covariate the data enter only through the weights at risk and of events in each arm at
each event time of each stratum. These are counted once; the log-likelihood at any number of log
hazard ratios is then a sum over event times, exact and cheap enough for a grid of hundreds of
outcomes. Under Efron's approximation a time with d events counts as d times, each with
an equal part of the events, before which 0, 1/d, 2/d … of the weight of those events has left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.data.distinct_values import rank_values

__all__ = ["Ties", "TwoGroupCox"]

Ties = Literal["efron", "breslow"]

LOG_OF_NOBODY = math.log(1e-300)  # The finite logarithm of an empty arm.
FARTHEST = 40.0  # The range around zero in which log hazard ratios are searched.
NEAR = 1e-9  # Gradient, as a share of the target's events, at which a search has arrived.
ROUNDING = 1e-12  # Relative error of sums of weights.


@dataclass(frozen=True)
class TwoGroupCox:
    """Counts at the event times of two arms.

    Attributes
    ----------
    target, comparator : ndarray, shape (m,)
        Weight at risk in each arm at each event time (of each stratum).
    events : ndarray, shape (m,)
        Weight of the events of both arms at each time.
    in_target : float
        Weight of all events of the target arm.
    time, stratum : ndarray, shape (m,)
        Event times and their strata (numbered from 0).
    target_events : ndarray, shape (m,)
        Weight of the events of the target arm.
    departed : ndarray, shape (m,)
        Share of the tied events that is no longer at risk: 0 everywhere under Breslow's ties.
    """

    target: NDArray
    comparator: NDArray
    events: NDArray
    in_target: float
    time: NDArray
    stratum: NDArray
    target_events: NDArray
    departed: NDArray

    @classmethod
    def of(
        cls,
        time: ArrayLike,
        event: ArrayLike,
        treated: ArrayLike,
        weight: ArrayLike | None = None,
        strata: ArrayLike | None = None,
        ties: Ties = "efron",
    ) -> TwoGroupCox:
        """Count the people at risk and the events at each event time.

        Parameters
        ----------
        time, event, treated : array_like, shape (n,)
        weight : array_like, shape (n,), optional
        strata : array_like of int, shape (n,), optional
        ties : {"efron", "breslow"}
            Therneau and Grambsch (2000), section 3.3.
        """
        t = np.asarray(time, dtype=float)
        of_stratum = np.zeros(len(t), dtype=np.int64)
        if strata is not None:
            of_stratum = rank_values(strata)[1]
        # Strata without an event, such as most matched pairs, do not affect the likelihood.
        eventful = np.bincount(of_stratum, np.asarray(event).astype(bool)) > 0
        rows = np.flatnonzero(eventful[of_stratum])
        order = rows[_latest_first(t[rows], of_stratum[rows])]
        t, stratum = t[order], of_stratum[order]
        died = np.asarray(event)[order].astype(bool)
        arm = np.asarray(treated)[order].astype(bool)
        w = np.ones(len(order)) if weight is None else np.asarray(weight, dtype=float)[order]
        new = np.ones(len(t), dtype=bool)
        new[1:] = (t[1:] != t[:-1]) | (stratum[1:] != stratum[:-1])
        group = np.cumsum(new) - 1
        m = int(group[-1]) + 1 if len(group) else 0
        sums = [np.bincount(group, w * part, minlength=m) for part in (arm, ~arm, died, died & arm)]
        at_risk = [_running(s, stratum[new]) for s in sums[:2]]
        in_target = float(sums[3].sum())
        tied = np.bincount(group[died & (w > 0)], minlength=m)  # events at each time
        parts = tied if ties == "efron" else np.minimum(tied, 1)
        row = np.repeat(np.arange(m), parts)  # one for each part of the events of a time
        share = 1 / parts[row]
        departed = (np.arange(len(row)) - np.searchsorted(row, row)) * share
        target, comparator, events, of_target, times, strata_of = (
            a[row] for a in (*at_risk, *sums[2:], t[new], stratum[new])
        )
        return cls(
            target - departed * of_target,
            comparator - departed * (events - of_target),
            events * share,
            in_target,
            times,
            strata_of,
            of_target * share,
            departed,
        )

    def log_likelihood(self, log_rr: ArrayLike) -> NDArray:
        """Compute the log partial likelihood at each log hazard ratio."""
        b = np.atleast_1d(np.asarray(log_rr, dtype=float))
        return b * self.in_target - self.events @ self._log_sum(b)

    def gradient(self, log_rr: ArrayLike) -> NDArray:
        """Compute its derivative at each log hazard ratio."""
        b = np.atleast_1d(np.asarray(log_rr, dtype=float))
        return self.in_target - self.events @ self._share(b, self._log_sum(b))

    def value_and_gradient(self, log_rr: ArrayLike) -> tuple[NDArray, NDArray]:
        """Compute the log partial likelihood and its derivative at each log hazard ratio."""
        b = np.atleast_1d(np.asarray(log_rr, dtype=float))
        log_sum = self._log_sum(b)
        value = b * self.in_target - self.events @ log_sum
        return value, self.in_target - self.events @ self._share(b, log_sum)

    def _log_sum(self, b: NDArray) -> NDArray:
        """Compute log(n1 e^b + n0), shape (m, B)."""
        target, comparator = self._logs
        return np.logaddexp(target[:, None] + b, comparator[:, None] + 0 * b)

    @cached_property
    def _logs(self) -> tuple[NDArray, NDArray]:
        """The logarithms of the weights at risk in both arms, which all evaluations share."""
        with np.errstate(divide="ignore"):
            return np.log(self.target), np.log(self.comparator)

    def _share(self, b: NDArray, log_sum: NDArray) -> NDArray:
        """Compute the target arm's share of the hazard, shape (m, B), from `_log_sum`."""
        target = np.maximum(self._logs[0], LOG_OF_NOBODY)
        return np.exp(target[:, None] + b - log_sum)

    def share(self, log_rr: float) -> NDArray:
        """Compute the target arm's share of the hazard at each event time, shape (m,)."""
        b = np.array([log_rr])
        return self._share(b, self._log_sum(b))[:, 0]

    def maximum(self, near: float | None = None) -> float:
        """Find the log hazard ratio of largest likelihood; infinite if only one arm has events.

        NaN if no event occurs while both arms are at risk.

        Parameters
        ----------
        near : float, optional
            A value close to it, from which Newton steps save most of the search.
        """
        if near is not None:
            found = self._polished(near)
            if abs(found) < FARTHEST and abs(float(self.gradient(found)[0])) <= NEAR * (
                self.in_target
            ):
                return found
        return self._maximum

    @cached_property
    def _maximum(self) -> float:
        """The log hazard ratio of largest likelihood, for repeated use."""
        both = (self.target > 0) & (self.comparator > 0)
        if not both.any():
            return math.nan
        low, high = (float(self.gradient(b)[0]) for b in (-FARTHEST, FARTHEST))
        rounding = ROUNDING * float(self.events.sum())  # Sums of weights are not exact.
        if high >= -rounding or low <= rounding:  # One arm has no event while both are at risk.
            return math.inf if high >= -rounding else -math.inf
        from scipy.optimize import brentq

        start = brentq(lambda b: float(self.gradient(b)[0]), -FARTHEST, FARTHEST, xtol=1e-6)
        return self._polished(start)

    def _polished(self, b: float) -> float:
        """Refine a root of the gradient by Newton steps to the last digit."""
        for _ in range(5):
            share = self.share(b)
            information = float(self.events @ (share * (1 - share)))
            if not information > 0:
                break
            step = (self.in_target - float(self.events @ share)) / information
            b += step
            if abs(step) < 1e-14:
                break
        return b

    def information(self, log_rr: float) -> float:
        """Compute minus the second derivative."""
        share = self.share(log_rr)
        return float(self.events @ (share * (1 - share)))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return the limits of the profile likelihood interval; an open side is infinite."""
        from scipy.optimize import brentq
        from scipy.stats import chi2

        best = self.maximum()
        if math.isnan(best):
            return -math.inf, math.inf
        at = min(max(best, -FARTHEST), FARTHEST)
        floor = float(self.log_likelihood(at)[0]) - float(chi2.ppf(level, 1)) / 2

        def above(b: float) -> float:
            return float(self.log_likelihood(b)[0]) - floor

        ends = []
        for side in (-1.0, 1.0):
            far = side * FARTHEST
            if (math.isinf(best) and side == math.copysign(1, best)) or above(far) > 0:
                ends.append(side * math.inf)
            else:
                ends.append(float(brentq(above, *sorted((at, far)), xtol=1e-13)))
        return ends[0], ends[1]


def _latest_first(time: NDArray, stratum: NDArray) -> NDArray:
    """Sort by stratum, then by descending time; equal rows keep their order."""
    if not stratum.any():  # Small whole numbers are sorted by their digits.
        distinct, place = rank_values(time)
        later = len(distinct) - 1 - place
        return np.argsort(later.astype(np.min_scalar_type(len(distinct))), kind="stable")
    return np.lexsort((-time, stratum))


def _running(values: NDArray, stratum: NDArray) -> NDArray:
    """Sum over this and all later times of a stratum, without cancellation."""
    return pd.Series(values).groupby(stratum).cumsum().to_numpy()
