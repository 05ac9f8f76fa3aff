"""The probability of being under observation with late entry, for a batch of row weights.

With the censoring distribution G and the entry distribution H in reversed time (Geskus 2011,
eq. 5–6),

    G(t−) = Π_{u < t} (1 − c(u) / (Y(u) + c(u))),    H(t−) = Π_{u ≥ t} (1 − e(u) / (Y(u) + e(u))),

where c(u) is the weight censored at u, e(u) the weight that enters at u and Y(u) the weight of
those who enter before u and leave after it. At equal times events come first, then censorings,
then entries, as in R's `survival::finegray`. The weights of the Fine–Gray model require only a
ratio, in which the entries after both times cancel,

    G(t−) H(t−) / (G(s−) H(s−)) = Π_{s ≤ u < t} (Y(u) + e(u)) / (Y(u) + c(u)):

the weight under observation just after u divided by that just before u, without events. No time
therefore has to precede all entries, and splitting a row in two (a censoring and an entry) changes
nothing.

If no one is under observation just before an entry, the ratio is infinite: the data before the
entry provide no information about the *spell* of observation after it.
"""

from __future__ import annotations

import numpy as np

from ..backends.backend_interface import Array, Backend
from .censoring_distribution import CensoringDistribution, as_column, ends_of_strata
from .risk_sets import RiskGroups, RiskSets

__all__ = ["ObservationDistribution"]


class ObservationDistribution(CensoringDistribution):
    """The observation distribution of rows with given times, entries and strata.

    It is evaluated for any row weights. The moments are the distinct times and entries of each
    stratum.

    Parameters
    ----------
    time, entry : (n,) arrays
        At risk on (entry, time]; times from late to early within each stratum.
    censored : (n,) bool array
    stratum : (n,) int array
        0, 1, … in order.

    Attributes
    ----------
    time : (m,) array
        Times of the moments.
    """

    def __init__(
        self, time: np.ndarray, entry: np.ndarray, censored: np.ndarray, stratum: np.ndarray,
        backend: Backend,
    ) -> None:  # fmt: skip
        n = len(time)
        value, of = np.concatenate([time, entry]), np.concatenate([stratum, stratum])
        by = np.lexsort((-value, of))
        new = np.ones(2 * n, bool)
        new[1:] = (value[by[1:]] != value[by[:-1]]) | (of[by[1:]] != of[by[:-1]])
        moment = np.empty(2 * n, np.int64)
        moment[by] = np.cumsum(new) - 1
        at = by[new]
        self.time, self.entered = value[at], moment[n:]
        self.backend, self.moment, self.m = backend, moment[:n], len(at)
        self.censored = as_column(censored, backend)
        self.strata_start, self.latest, self.earliest = ends_of_strata(of[at])
        # All rows are treated as events, so that rows that leave at a moment are summed separately.
        rows = np.searchsorted(stratum, np.arange(len(self.strata_start)))
        groups = RiskGroups(self.time, of[at])
        self._sets = RiskSets(time, np.ones(n, np.int8), entry, rows, backend, groups)
        self._by_entry = np.argsort(self.entered, kind="stable")
        self._entries = np.searchsorted(self.entered[self._by_entry], np.arange(self.m + 1))
        self._stratum = of[at]

    def _flows(self, w: Array) -> tuple[Array, Array, Array]:
        """Compute c, e and Y at each moment, (m, B) each; see the module."""
        bk = self.backend
        c = self._sets.over_events(w * self.censored)
        e = bk.segment_sum(w[self._by_entry], self._entries)
        return c, e, self._sets.over_rows(w)

    def curve(self, w: Array) -> tuple[Array, Array]:
        """Compute G(t−)H(t−) at each moment, (m, B), and the number of each spell, from one.

        The first is divided by its largest value in the stratum. Values from different spells are
        not comparable.
        """
        xp = self.backend.xp
        c, e, Y = self._flows(w)
        before, after = Y + c, Y + e
        known = (before > 0) & (after > 0)
        factor = xp.log(xp.where(known, after, 1.0)) - xp.log(xp.where(known, before, 1.0))
        log = self.earlier(factor)
        log -= self.backend.segment_max(log, self.strata_start)[self._stratum]
        spells = self.earlier(((before <= 0) & (e > 0)).astype(np.float64))
        return xp.exp(log), spells

    def influence(self, q: Array, w: Array) -> Array:
        """Compute ∫ q/π^c dM_i^c − ∫ q/π^e dM_i^e of each row, (n, L).

        Here π^c = Y + c and π^e = Y + e. M^c is the martingale of censorings in time and M^e that
        of entries in reversed time; the weights decrease with the hazard of censoring and increase
        with that of entry.
        """
        xp = self.backend.xp
        c, e, Y = self._flows(w)
        out = xp.where(Y + c > 0, Y + c, 1.0)
        come = xp.where(Y + e > 0, Y + e, 1.0)
        drift_out, drift_in = q * c / out**2, q * e / come**2
        drift = drift_in - drift_out
        table, at = self._sets.over_groups(drift, xp.zeros_like(drift))
        left = self.censored * (q / out - drift_out)[self.moment]
        entered = (drift_in - q / come)[self.entered]
        return w * (table[at] + left + entered)
