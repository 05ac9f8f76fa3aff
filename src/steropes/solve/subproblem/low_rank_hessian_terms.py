"""Low-rank terms of the replicates' Hessians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...backends.array_namespace import array_namespace, to_host
from ...backends.backend_interface import Array
from ...backends.elementwise_row_blocks import map_rows
from ...backends.reductions_of_tall_arrays import columns
from ...backends.thread_pool import ThreadPool

__all__ = ["LowRank"]


@dataclass
class LowRank:
    """Σ_m c_m u_m u_m' of each replicate.

    Attributes
    ----------
    U : (M, k, B) array
        On the host or on a device.
    c : (M, B) array of the host
        Zero where a replicate has no such term.
    """

    U: Array
    c: np.ndarray

    @classmethod
    def none(cls, k: int, B: int, xp: Any = np) -> LowRank:
        """Return an empty sum for arrays of ``xp``."""
        return cls(xp.zeros((0, k, B)), np.empty((0, B)))

    def lanes(self, at: np.ndarray | list[int]) -> LowRank:
        """Return the terms of some replicates, without those that none of them has."""
        c = self.c[:, at]
        used = c.any(axis=1)
        U = self.U if used.all() else self.U[used]
        return LowRank(columns(U, np.arange(U.shape[2])[at]), c[used])

    def on_host(self) -> LowRank:
        """Return the terms as arrays of the host."""
        return LowRank(to_host(self.U), self.c)

    def only(self, at: np.ndarray) -> LowRank:
        """Return the terms of some coordinates."""
        return LowRank(self.U[:, at], self.c)

    def scaled(self, sigma: Array, pool: ThreadPool | None = None) -> LowRank:
        """Return the terms in coordinates σ d, (k, B)."""
        if not len(self.U):
            return self
        return LowRank(map_rows(pool, lambda U, sigma: (U / sigma,), self.U, sigma)[0], self.c)

    def product(self, D: Array, pool: ThreadPool | None = None) -> Array:
        """Multiply each replicate's sum by its column of D (k, B)."""
        xp = array_namespace(D)
        if not len(self.U):
            return xp.zeros(D.shape)
        size = xp.asarray(self.c) * xp.einsum("mkb,kb->mb", self.U, D)
        return map_rows(pool, lambda U: (xp.einsum("mb,mkb->kb", size, U),), self.U)[0]

    def diagonal(self) -> Array | float:
        """Return the diagonals, (k, B), or zero."""
        xp = array_namespace(self.U)
        return xp.einsum("mb,mkb->kb", xp.asarray(self.c), self.U**2) if len(self.U) else 0.0

    def __add__(self, other: LowRank) -> LowRank:
        """Concatenate the terms of two sums."""
        U = array_namespace(self.U).concatenate([self.U, other.U])
        return LowRank(U, np.concatenate([self.c, other.c]))
