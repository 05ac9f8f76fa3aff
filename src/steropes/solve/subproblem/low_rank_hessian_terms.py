"""Low-rank terms of the replicates' Hessians."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...backends.row_blocks import map_rows
from ...backends.thread_pool import ThreadPool

__all__ = ["LowRank"]


@dataclass
class LowRank:
    """Σ_m c_m u_m u_m' of each replicate.

    Attributes
    ----------
    U : (M, k, B) array
    c : (M, B) array
        Zero where a replicate has no such term.
    """

    U: np.ndarray
    c: np.ndarray

    @classmethod
    def none(cls, k: int, B: int) -> LowRank:
        """Return an empty sum."""
        return cls(np.empty((0, k, B)), np.empty((0, B)))

    def lanes(self, at: np.ndarray | list[int]) -> LowRank:
        """Return the terms of some replicates, without those that none of them has."""
        c = self.c[:, at]
        used = c.any(axis=1)
        U = self.U if used.all() else self.U[used]
        if c.shape[1] < U.shape[2]:  # Keeps rows contiguous; see `tall.columns`.
            U = np.take(U, np.arange(U.shape[2])[at], axis=2)
        return LowRank(U, c[used])

    def only(self, at: np.ndarray) -> LowRank:
        """Return the terms of some coordinates."""
        return LowRank(self.U[:, at], self.c)

    def scaled(self, sigma: np.ndarray, pool: ThreadPool | None = None) -> LowRank:
        """Return the terms in coordinates σ d, (k, B)."""
        if not len(self.U):
            return self
        return LowRank(map_rows(pool, lambda U, sigma: (U / sigma,), self.U, sigma)[0], self.c)

    def product(self, D: np.ndarray, pool: ThreadPool | None = None) -> np.ndarray:
        """Multiply each replicate's sum by its column of D (k, B)."""
        if not len(self.U):
            return np.zeros(D.shape)
        size = self.c * np.einsum("mkb,kb->mb", self.U, D)
        return map_rows(pool, lambda U: (np.einsum("mb,mkb->kb", size, U),), self.U)[0]

    def diagonal(self) -> np.ndarray | float:
        """Return the diagonals, (k, B), or zero."""
        return np.einsum("mb,mkb->kb", self.c, self.U**2) if len(self.U) else 0.0

    def __add__(self, other: LowRank) -> LowRank:
        """Concatenate the terms of two sums."""
        return LowRank(np.concatenate([self.U, other.U]), np.concatenate([self.c, other.c]))
