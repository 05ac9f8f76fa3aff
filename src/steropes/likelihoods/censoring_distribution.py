"""The Kaplan–Meier estimate of the censoring distribution for a batch of row weights.

G(t) = Π_{s ≤ t} (1 − c(s) / n(s)), where c(s) is the weight censored at s and n(s) the weight that
is censored at s or has a later time. At equal times events precede censorings, as in R's
`survival::finegray`; without such ties the estimate equals that of `cmprsk::crr`.
`observation_distribution` extends it to late entry.
"""

from __future__ import annotations

import numpy as np

from ..backends.backend_interface import Array, Backend

__all__ = ["CensoringDistribution", "as_column", "ends_of_strata"]


class CensoringDistribution:
    """The censoring distribution of rows with given times and strata, for any row weights.

    Parameters
    ----------
    time : (n,) array
        Sorted from late to early within each stratum.
    censored : (n,) bool array
    stratum : (n,) int array
        0, 1, … in order.

    Attributes
    ----------
    moment : (n,) int array
        The number of the distinct time (moment) of each row; the moments of a stratum run from
        late to early.
    strata_start : (S + 1,) int array
        Boundaries of the strata among the moments.
    latest, earliest : (m,) bool arrays
        Whether a moment is the first or the last of its stratum in this order.
    """

    def __init__(
        self, time: np.ndarray, censored: np.ndarray, stratum: np.ndarray, backend: Backend
    ) -> None:
        new = np.ones(len(time), bool)
        new[1:] = (time[1:] != time[:-1]) | (stratum[1:] != stratum[:-1])
        first = np.flatnonzero(new)
        self.backend, self.moment, self.m = backend, np.cumsum(new) - 1, len(first)
        self.censored = as_column(censored, backend)
        self.strata_start, self.latest, self.earliest = ends_of_strata(stratum[first])
        self.start = np.append(first, len(time))

    def counts(self, w: Array) -> tuple[Array, Array]:
        """Compute the weight censored at each moment and the weight with a later time, (m, B)."""
        xp, bk = self.backend.xp, self.backend
        c = bk.segment_sum(w * self.censored, self.start)
        later = xp.zeros_like(c)
        later[1:] = bk.scan(bk.segment_sum(w, self.start), self.strata_start)[:-1]
        later[self.latest] = 0.0
        return c, later

    def before(self, w: Array) -> Array:
        """Compute G(t−) at each moment for row weights w (n, B), (m, B)."""
        return self.curve(w)[0]

    def curve(self, w: Array) -> tuple[Array, Array | None]:
        """Compute G(t−); the second value, the spells of `ObservationDistribution`, is None."""
        xp = self.backend.xp
        c, later = self.counts(w)
        n = c + later
        with np.errstate(divide="ignore"):
            factor = xp.log(xp.where(n > 0, later, 1.0) / xp.where(n > 0, n, 1.0))
        return xp.exp(self.earlier(factor)), None

    def influence(self, q: Array, w: Array) -> Array:
        """Compute ∫ q(u)/π(u) dM_i^c(u) of each row, (n, L), for q at the moments and w (n, 1)."""
        xp = self.backend.xp
        c, later = self.counts(w)
        n = xp.where(c + later > 0, c + later, 1.0)
        jump = q / n
        drift = jump * c / n
        own = self.censored * (jump - drift)[self.moment]
        return w * (own - self.earlier(drift)[self.moment])

    def earlier(self, x: Array) -> Array:
        """Sum x (m, L) over the earlier moments of the stratum."""
        out = self.backend.xp.zeros_like(x)
        out[:-1] = self.backend.scan(x, self.strata_start, True)[1:]
        out[self.earliest] = 0.0
        return out

    def until(self, x: Array, rows: np.ndarray) -> Array:
        """Sum x (c, L) over ascending ``rows`` with times up to and including each moment."""
        pointers = np.searchsorted(self.moment[rows], np.arange(self.m + 1))
        return self.backend.scan(self.backend.segment_sum(x, pointers), self.strata_start, True)

    def after(self, x: Array, rows: np.ndarray) -> Array:
        """Sum x (c, L) over ``rows``, at most one per moment, with times after each moment."""
        part = self.backend.xp.zeros((self.m, x.shape[1]))
        part[self.moment[rows]] = x
        out = self.backend.xp.zeros_like(part)
        out[1:] = self.backend.scan(part, self.strata_start)[:-1]
        out[self.latest] = 0.0
        return out


def as_column(censored: np.ndarray, backend: Backend) -> Array:
    """Convert the censoring indicator to a column of zeros and ones, (n, 1)."""
    return backend.asarray(censored[:, None].astype(np.float64))


def ends_of_strata(stratum: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the boundaries of strata, (S + 1,), and flag the first and last moment of each."""
    start = np.searchsorted(stratum, np.arange(stratum.max(initial=0) + 2))
    latest, earliest = np.zeros((2, len(stratum)), bool)
    latest[start[:-1]] = True
    earliest[start[1:] - 1] = True
    return start, latest, earliest
