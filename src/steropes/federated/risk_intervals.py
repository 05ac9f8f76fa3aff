"""Sums over rows that are at risk from one time of a grid to another, without differences.

Where rows enter late, those at risk are those who leave later less those who enter later, and of
two large sums that nearly cancel few digits are left. So each row's times are cut into blocks of
1, 2, 4, … times, at most two of a size: what is at risk at a time is the sum over the blocks that
hold it, in which nothing is taken away.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

__all__ = ["RiskIntervals"]


class RiskIntervals:
    """Rows by the times that they are at risk at.

    Block 1 holds all times, block k the times of blocks 2 k and 2 k + 1; those of one time are
    the last ones.

    Parameters
    ----------
    first, last : (n,) int arrays
        Of each row, from 0; a row whose last comes before its first is never at risk.
    T : int
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
        """Σ of z (n, c) over the rows at risk at each time, (T, c)."""
        total = self._in @ z
        k = 1
        while k < self.size:
            total[2 * k : 4 * k] += np.repeat(total[k : 2 * k], 2, axis=0)
            k *= 2
        return np.asarray(total[self.size : self.size + self.T])

    def over_times(self, a: np.ndarray) -> np.ndarray:
        """Σ of a (T,) over the times that each row is at risk at, (n,)."""
        total = np.zeros(2 * self.size)
        total[self.size : self.size + self.T] = a
        k = self.size // 2
        while k:
            total[k : 2 * k] = total[2 * k : 4 * k : 2] + total[2 * k + 1 : 4 * k : 2]
            k //= 2
        return np.asarray(self._in.T @ total)
