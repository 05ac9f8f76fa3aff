"""The Kaplan–Meier estimate of the censoring distribution for a batch of row weights.

G(t) = Π_{s ≤ t} (1 − c(s) / n(s)) with c(s) the weight censored at s and n(s) the weight still
watched: those with a later time, and those censored at s. An event comes before a censoring at
the same time, as in R's `survival::finegray`; without such ties this is also `cmprsk::crr`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.face import Backend

__all__ = ["CensoringDistribution"]


class CensoringDistribution:
    """Times and strata of the rows; the weights come later.

    Parameters
    ----------
    time : (n,) array
        Sorted from late to early within each stratum.
    censored : (n,) bool array
    stratum : (n,) int array
        0, 1, … in order.
    """

    def __init__(
        self, time: np.ndarray, censored: np.ndarray, stratum: np.ndarray, backend: Backend
    ) -> None:
        self.backend = backend
        new = np.ones(len(time), bool)
        new[1:] = (time[1:] != time[:-1]) | (stratum[1:] != stratum[:-1])
        first = np.flatnonzero(new)
        self.moment = np.cumsum(new) - 1  # the distinct time of each row
        self.start = np.append(first, len(time))
        self.strata_start = np.searchsorted(stratum[first], np.arange(stratum.max(initial=0) + 2))
        self.censored = backend.asarray(censored[:, None].astype(np.float64))
        self.latest = np.zeros(len(first), bool)
        self.latest[self.strata_start[:-1]] = True
        self.earliest = np.zeros(len(first), bool)
        self.earliest[self.strata_start[1:] - 1] = True

    def counts(self, w: Any) -> tuple[Any, Any]:
        """Weight censored at each distinct time, and weight with a later time, (m, B)."""
        xp, bk = self.backend.xp, self.backend
        c = bk.segment_sum(w * self.censored, self.start)
        later = xp.zeros_like(c)
        later[1:] = bk.scan(bk.segment_sum(w, self.start), self.strata_start)[:-1]
        later[self.latest] = 0.0
        return c, later

    def before(self, w: Any) -> Any:
        """G(t−) at each distinct time for row weights w (n, B): (m, B)."""
        xp, bk = self.backend.xp, self.backend
        c, later = self.counts(w)
        n = c + later
        with np.errstate(divide="ignore"):
            factor = xp.log(xp.where(n > 0, later, 1.0) / xp.where(n > 0, n, 1.0))
        log_G = bk.scan(factor, self.strata_start, True)  # up to and including t
        out = xp.zeros_like(log_G)
        out[:-1] = log_G[1:]
        out[self.earliest] = 0.0
        return xp.exp(out)
