"""Cox's likelihood of the treatment alone: a function of one number and of counts at risk.

With one 0/1 covariate the data enter only through the weight of each arm at risk, and of each arm's
events, at every event time of every stratum. Those are found once; the log-likelihood at any
number of log hazard ratios is then a sum over event times, exact and cheap enough for a grid of
hundreds of outcomes. Ties are Breslow's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

__all__ = ["TwoGroups"]

FARTHEST = 40.0  # log hazard ratios are looked for within this distance of zero


@dataclass(frozen=True)
class TwoGroups:
    """Event times of two arms.

    Attributes
    ----------
    target, comparator : ndarray, shape (m,)
        Weight at risk in each arm at each event time (of each stratum).
    events : ndarray, shape (m,)
        Weight of the events there, of both arms.
    in_target : float
        Weight of all events of the target arm.
    time, stratum : ndarray, shape (m,)
        When they are, and in which stratum (numbered from 0).
    target_events : ndarray, shape (m,)
        Weight of the events of the target arm.
    """

    target: NDArray
    comparator: NDArray
    events: NDArray
    in_target: float
    time: NDArray
    stratum: NDArray
    target_events: NDArray

    @classmethod
    def of(
        cls,
        time: ArrayLike,
        event: ArrayLike,
        treated: ArrayLike,
        weight: ArrayLike | None = None,
        strata: ArrayLike | None = None,
    ) -> TwoGroups:
        """Count who is at risk, and who has the event, at each event time.

        Parameters
        ----------
        time, event, treated : array_like, shape (n,)
        weight : array_like, shape (n,), optional
        strata : array_like of int, shape (n,), optional
        """
        t = np.asarray(time, dtype=float)
        of_stratum = np.zeros(len(t), dtype=np.int64)
        if strata is not None:
            of_stratum = np.unique(np.asarray(strata), return_inverse=True)[1].astype(np.int64)
        order = np.lexsort((-t, of_stratum))
        t, stratum = t[order], of_stratum[order]
        died = np.asarray(event)[order].astype(bool)
        arm = np.asarray(treated)[order].astype(bool)
        w = np.ones(len(t)) if weight is None else np.asarray(weight, dtype=float)[order]
        new = np.ones(len(t), dtype=bool)
        new[1:] = (t[1:] != t[:-1]) | (stratum[1:] != stratum[:-1])
        group = np.cumsum(new) - 1
        m = int(group[-1]) + 1 if len(group) else 0
        sums = [np.bincount(group, w * part, minlength=m) for part in (arm, ~arm, died, died & arm)]
        at_risk = [_running(s, stratum[new]) for s in sums[:2]]
        keep = sums[2] > 0
        return cls(
            at_risk[0][keep],
            at_risk[1][keep],
            sums[2][keep],
            float(sums[3].sum()),
            t[new][keep],
            stratum[new][keep],
            sums[3][keep],
        )

    def log_likelihood(self, log_rr: ArrayLike) -> NDArray:
        """Log partial likelihood at each log hazard ratio."""
        b = np.atleast_1d(np.asarray(log_rr, dtype=float))
        return b * self.in_target - self.events @ self._log_sum(b)

    def gradient(self, log_rr: ArrayLike) -> NDArray:
        """Its derivative."""
        b = np.atleast_1d(np.asarray(log_rr, dtype=float))
        return self.in_target - self.events @ self._share(b)

    def _log_sum(self, b: NDArray) -> NDArray:
        """log(n1 e^b + n0), (m, B)."""
        with np.errstate(divide="ignore"):
            return np.logaddexp(
                np.log(self.target)[:, None] + b, np.log(self.comparator)[:, None] + 0 * b
            )

    def _share(self, b: NDArray) -> NDArray:
        """Share of the hazard that the target arm has, (m, B)."""
        return np.exp(np.log(np.maximum(self.target, 1e-300))[:, None] + b - self._log_sum(b))

    def share(self, log_rr: float) -> NDArray:
        """Share of the hazard that the target arm has at each event time, (m,)."""
        return self._share(np.array([log_rr]))[:, 0]

    def maximum(self) -> float:
        """The log hazard ratio of largest likelihood; infinite if events tell only one side.

        NaN where no event has people of both arms at risk.
        """
        both = (self.target > 0) & (self.comparator > 0)
        if not both.any():
            return math.nan
        low, high = (float(self.gradient(b)[0]) for b in (-FARTHEST, FARTHEST))
        if high >= 0 or low <= 0:  # no event in one of the arms among those
            return math.inf if high >= 0 else -math.inf
        from scipy.optimize import brentq

        start = brentq(lambda b: float(self.gradient(b)[0]), -FARTHEST, FARTHEST, xtol=1e-6)
        return self._polished(start)

    def _polished(self, b: float) -> float:
        """Newton steps from next to the root of the gradient, to the last digit."""
        for _ in range(5):
            share = self._share(np.array([b]))[:, 0]
            step = float(self.gradient(b)[0]) / float(self.events @ (share * (1 - share)))
            b += step
            if abs(step) < 1e-14:
                break
        return b

    def information(self, log_rr: float) -> float:
        """Minus the second derivative."""
        share = self._share(np.array([log_rr]))[:, 0]
        return float(self.events @ (share * (1 - share)))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The log hazard ratios within the profile's interval; an open side is infinite."""
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


def _running(values: NDArray, stratum: NDArray) -> NDArray:
    """Sums over this and all later times of a stratum; none is a difference of larger ones."""
    return pd.Series(values).groupby(stratum).cumsum().to_numpy()
