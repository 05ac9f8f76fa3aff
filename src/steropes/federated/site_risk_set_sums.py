"""A site's sums for shared risk sets, at each time of a grid."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ..errors import DataError
from ..likelihoods.fine_gray_likelihood import FAINT
from .federated_constants import EVALUATION
from .planned_models import INTERRUPTED
from .pooled_censoring import PooledCensoring
from .pooled_risk_sets import HeldOut, HessianWeights, RiskSums
from .site_rows import SiteRows
from .site_sums import linear_predictor

__all__ = ["SiteRiskSets", "event_times"]


# With late entry, the rows at risk are those that leave later minus those that enter later, and the
# difference of two large sums loses digits. Each row's times are therefore divided into blocks of
# 1, 2, 4, … times, at most two of each size. The sum at risk at a time is the sum over the blocks
# that contain it, without subtraction.


class RiskIntervals:
    """Rows indexed by the times at which they are at risk.

    Block 1 contains all times, and block k those of blocks 2 k and 2 k + 1; the last blocks contain
    one time each.

    Parameters
    ----------
    first, last : (n,) int arrays
        First and last time of each row, counted from 0; a row with last < first is never at risk.
    T : int
        Number of times.
    """

    def __init__(self, first: np.ndarray, last: np.ndarray, T: int) -> None:
        self.T, self.size = T, 1 << max(T - 1, 0).bit_length()
        rows = np.flatnonzero(last >= first)
        low, end = first[rows] + self.size, last[rows] + self.size + 1
        blocks, members = [], []
        while len(rows):
            for block, odd in ((low, low & 1), (end - 1, end & 1)):
                own = np.flatnonzero(odd)
                blocks.append(block[own])
                members.append(rows[own])
            low, end = (low + (low & 1)) >> 1, (end - (end & 1)) >> 1
            left = low < end
            rows, low, end = rows[left], low[left], end[left]
        at = np.concatenate([np.empty(0, np.int64), *blocks])
        row = np.concatenate([np.empty(0, np.int64), *members])
        shape = (2 * self.size, len(first))
        self._in = sparse.csr_array((np.ones(len(at)), (at, row)), shape=shape)

    def at_risk(self, z: np.ndarray) -> np.ndarray:
        """Sum z (n, c) over the rows at risk at each time, (T, c)."""
        total = self._in @ z
        k = 1
        while k < self.size:
            total[2 * k : 4 * k] += np.repeat(total[k : 2 * k], 2, axis=0)
            k *= 2
        return np.asarray(total[self.size : self.size + self.T])

    def over_times(self, a: np.ndarray) -> np.ndarray:
        """Sum a (T,) over the times at which each row is at risk, (n,)."""
        total = np.zeros(2 * self.size)
        total[self.size : self.size + self.T] = a
        k = self.size // 2
        while k:
            total[k : 2 * k] = total[2 * k : 4 * k : 2] + total[2 * k + 1 : 4 * k : 2]
            k //= 2
        return np.asarray(self._in.T @ total)


def event_times(rows: SiteRows) -> np.ndarray:
    """Return the times at which rows with positive weight have the event, ascending."""
    assert rows.event is not None
    return np.unique(rows.y[rows.event & (rows.problem.weights > 0)])


@dataclass(frozen=True)
class _Stay:
    """The weights with which rows with a competing event remain at risk.

    Attributes
    ----------
    after : (T, n) sparse array
        1/G just before the row's time, at the first time of the grid after it.
    G : (T,) array
        G just before each time of the grid.
    """

    after: sparse.csr_array
    G: np.ndarray


class SiteRiskSets:
    """A site's rows in the risk sets of a grid of times.

    Parameters
    ----------
    times : (T,) array
        The grid, ascending; each event is at one of its times.
    center : (p,) array
        Centres of the columns.
    censoring : PooledCensoring or None
        Censoring distribution, for Fine–Gray models.
    """

    def __init__(
        self, rows: SiteRows, times: np.ndarray, center: np.ndarray,
        censoring: PooledCensoring | None,
    ) -> None:  # fmt: skip
        n, T = len(rows.y), len(times)
        assert rows.event is not None
        self.rows, self.times, self.center, self.censoring = rows, times, center, censoring
        self.w = rows.problem.weights
        self.last = np.searchsorted(times, rows.y, side="right") - 1  # −1: never at risk
        self.first = np.zeros(n, np.int64)
        if rows.entry is not None:
            self.first = np.searchsorted(times, rows.entry, side="right")
        ever = (self.last >= self.first) & (self.w > 0)
        at = np.flatnonzero(ever)
        self.leave = _at_times(np.ones(len(at)), self.last[at], at, T, n)
        self.intervals: RiskIntervals | None = None
        if rows.entry is not None:
            self.intervals = RiskIntervals(self.first, np.where(ever, self.last, -1), T)
        self.case = np.flatnonzero(rows.event & ever)
        self.tied = _at_times(np.ones(len(self.case)), self.last[self.case], self.case, T, n)
        self.competing = np.empty(0, np.int64)
        if censoring is not None:
            assert rows.codes is not None
            self.competing = np.flatnonzero((rows.codes > 0) & ~rows.event & (self.w > 0))
            own = censoring.before(rows.y[self.competing], 0)
            if rows.entry is not None and (own <= FAINT).any():
                raise DataError(INTERRUPTED)

    def _stay(self, which: int) -> _Stay | None:
        """Compute the weights of competing events with row ``which`` of the distribution."""
        if self.censoring is None:
            return None
        at = self.competing
        own = self.censoring.before(self.rows.y[at], which)
        known = own > FAINT
        inverse = np.where(known, 1.0 / np.where(known, own, 1.0), 0.0)
        later = self.last[at] + 1 < len(self.times)
        after = _at_times(
            inverse[later], self.last[at[later]] + 1, at[later], len(self.times), len(self.w)
        )
        return _Stay(after, self.censoring.before(self.times, which))

    def _at_risk(self, z: np.ndarray, stay: _Stay | None) -> np.ndarray:
        """Sum z (n, c) over the rows at risk at each time, (T, c)."""
        if self.intervals is None:
            out = np.cumsum((self.leave @ z)[::-1], axis=0)[::-1]
        else:
            out = self.intervals.at_risk(z)
        if stay is not None:
            out = out + stay.G[:, None] * np.cumsum(stay.after @ z, axis=0)
        return out

    def sums(
        self, points: np.ndarray, shares: HessianWeights | None, columns: np.ndarray, fold: int = -1
    ) -> RiskSums:
        """Compute the sums at points (m, p).

        Parameters
        ----------
        points : (m, p) array
        shares : HessianWeights or None
            The weights for the Hessian's first sum over ``columns``.
        columns : (k,) int array
        fold : int
            The fold that is left out, −1 for none.
        """
        w = self.w
        if fold >= 0:
            assert self.rows.held_out is not None
            w = w * ~self.rows.held_out[:, fold]
        stay, weighted = self._stay(2 * fold + 1 if fold >= 0 else 0), self._of_cases(w)
        etas = [self._eta(beta) for beta in points]
        rates = [_rates(w, eta) for eta in etas]
        r = rates[0]
        p, T = self.rows.design.p, len(self.times)
        S1, E1, covariates = np.zeros((T, p)), np.zeros((T, p)), np.zeros(p)
        for a in range(0, p, EVALUATION.columns_at_once):
            at = np.arange(a, min(a + EVALUATION.columns_at_once, p))
            z = self._columns(at)
            S1[:, at], E1[:, at] = self._at_risk(r * z, stay), self.tied @ (r * z)
            covariates[at] = weighted @ z
        count, weight = self._events(w)
        S = np.array([self._at_risk(x, stay)[:, 0] for x in rates])
        E = np.array([(self.tied @ x)[:, 0] for x in rates])
        return RiskSums(
            S, E,
            np.array([float(weighted @ eta[:, 0]) for eta in etas]),
            S1, E1, covariates, count, weight,
            None if shares is None else self._second(r[:, 0], shares, columns, stay),
            self._held_out(etas[0], fold) if fold >= 0 else None,
        )  # fmt: skip

    def _held_out(self, eta: np.ndarray, fold: int) -> HeldOut:
        """Compute the sums over a fold's own rows."""
        assert self.rows.held_out is not None
        w = self.w * self.rows.held_out[:, fold]
        r = _rates(w, eta)
        S = self._at_risk(r, self._stay(2 * fold + 2))[:, 0]
        linear = np.array(self._of_cases(w) @ eta[:, 0])
        return HeldOut(S, (self.tied @ r)[:, 0], linear, *self._events(w))

    def _eta(self, beta: np.ndarray) -> np.ndarray:
        """Compute the linear predictor with the offset, (n, 1)."""
        eta, offset = linear_predictor(self.rows, beta, 0.0, self.center), self.rows.problem.offset
        return eta if offset is None else eta + offset[:, None]

    def _of_cases(self, w: np.ndarray) -> np.ndarray:
        """Return the weights of rows with an event, and zero for the others, (n,)."""
        out = np.zeros(len(w))
        out[self.case] = w[self.case]
        return out

    def _events(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the number and the weight of the events at each time, (T,) each."""
        at, T = self.last[self.case], len(self.times)
        counted = (w[self.case] > 0).astype(float)
        return np.bincount(at, counted, minlength=T), np.bincount(at, w[self.case], minlength=T)

    def _columns(self, at: np.ndarray) -> np.ndarray:
        """Return columns minus the lead's centres, (n, k)."""
        design, backend = self.rows.design, self.rows.problem.likelihood.backend
        D = np.zeros((design.p, backend.lanes(len(at))))
        D[at, np.arange(len(at))] = design.scale[at]
        X = np.asarray(backend.to_host(design.matmul(D, backend)))[:, : len(at)]
        return X + (design.center - self.center)[at]

    def _second(
        self, r: np.ndarray, shares: HessianWeights, columns: np.ndarray, stay: _Stay | None
    ) -> np.ndarray:
        """Compute the Hessian's first sum over some columns, (k, k); see `pooled_risk_sets`."""
        if self.intervals is not None:
            v = self.intervals.over_times(shares.a)
        else:
            v = np.concatenate([[0.0], np.cumsum(shares.a)])[self.last + 1]
        v[self.case] -= shares.b[self.last[self.case]]
        if stay is not None:
            later = np.cumsum((stay.G * shares.a)[::-1])[::-1]  # sums from each time onward
            v += stay.after.T @ later
        z = self._columns(columns)
        return np.asarray(z.T @ ((r * v)[:, None] * z))


def _rates(w: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """Compute w exp η, (n, 1); zero for rows without weight even if exp η overflows."""
    return w[:, None] * np.exp(np.where(w[:, None] > 0, eta, 0.0))


def _at_times(x: np.ndarray, time: np.ndarray, row: np.ndarray, T: int, n: int) -> sparse.csr_array:
    """Create the sparse (T, n) array with values x at (time, row)."""
    return sparse.csr_array((x, (time, row)), shape=(T, n))
