"""Sums over the rows at risk at each time of a grid, computed without subtraction.

With late entry, the rows at risk are those that leave later minus those that enter later, and the
difference of two large sums loses digits. Each row's times are therefore divided into blocks of 1,
2, 4, … times, at most two of each size. The sum at risk at a time is the sum over the blocks that
contain it, without subtraction.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

__all__ = ["RiskIntervals"]


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
