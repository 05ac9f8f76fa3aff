"""What a replicate's support adds to the columns that all have: its part of a Schur complement.

Of a support that differs from an earlier one by few columns the factor is not made again: with
S_bb = LL' of the earlier ones, columns ``new`` and ``gone`` border it,

    S_bb    S_bn   E_g
    S_nb    S_nn   0       and what is left of the last two rows is a small matrix K.
    E_g'    0      0
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import linalg

from ...backends.cpu.triangular import solve_factored
from ...backends.threads import ThreadPool
from .cholesky import Cholesky

__all__ = ["OwnPart"]

MORE = (0.0, 1e-4, 1e-3, 1e-2)  # added where rounding leaves a part indefinite
CHANGES = 0.08  # share of the columns from which on a new factor costs no more


class OwnPart:
    """The inverse of a part of a symmetric matrix S of which the lower triangle is known.

    Parameters
    ----------
    S : (q, q) array
        With a diagonal of about one or less, in single precision.
    has : (q,) bool array
        Its columns that are in the part.
    pool : ThreadPool
    """

    def __init__(self, S: np.ndarray, has: np.ndarray, pool: ThreadPool) -> None:
        self.base = np.flatnonzero(has)
        self.factor: Cholesky | None = None
        self.new = self.gone = np.empty(0, np.intp)  # numbers of columns; places in the base
        self._border = self._solved = np.empty((len(self.base), 0), np.float32)
        self._K: np.ndarray | None = None  # its inverse
        for more in MORE:
            part = np.take(S[self.base], self.base, axis=1)
            part[np.diag_indices(len(part))] += np.float32(more)
            if not len(part):
                return
            try:  # SciPy's own would hold the lock, and replicates factor side by side
                self.factor = Cholesky(part, pool)
                return
            except linalg.LinAlgError:
                continue

    @classmethod
    def near(
        cls, S: np.ndarray, has: np.ndarray, others: Sequence[OwnPart], pool: ThreadPool
    ) -> OwnPart:
        """The part, by way of the nearest of some others where that is worth it."""
        changes = [(part.changes(has), i) for i, part in enumerate(others) if part.usable]
        if changes:
            count, i = min(changes)
            if count <= CHANGES * len(others[i].base):
                out = others[i]._bordered(S, has)
                if out is not None:
                    return out
        return cls(S, has, pool)

    @property
    def usable(self) -> bool:
        """Whether others can be made of it."""
        return self.factor is not None

    def changes(self, has: np.ndarray) -> int:
        """Columns by which its base differs from others."""
        common = int(np.count_nonzero(has[self.base]))
        return len(self.base) + int(np.count_nonzero(has)) - 2 * common

    def _bordered(self, S: np.ndarray, has: np.ndarray) -> OwnPart | None:
        assert self.factor is not None
        out = object.__new__(OwnPart)
        out.base, out.factor = self.base, self.factor
        inside = np.zeros(len(has), bool)
        inside[self.base] = True
        out.new, out.gone = np.flatnonzero(has & ~inside), np.flatnonzero(~has[self.base])
        n, m = len(out.new), len(out.new) + len(out.gone)
        out._border = np.zeros((len(self.base), m), np.float32)
        out._border[:, :n] = _entries(S, self.base, out.new)
        out._border[out.gone, np.arange(n, m)] = 1.0
        out._K = None
        out._solved = self.factor.solve(out._border)
        if m:
            K = np.zeros((m, m))
            K[:n, :n] = _entries(S, out.new, out.new)
            K -= out._border.T @ out._solved
            try:
                out._K = linalg.inv(0.5 * (K + K.T), check_finite=False)
            except linalg.LinAlgError:
                return None
            if not np.isfinite(out._K).all():
                return None
        return out

    def solve(self, z: np.ndarray) -> None:
        """From R to S⁻¹R in place, (q,); zero at columns that it does not have."""
        x = z[self.base]
        if self.factor is not None:
            solve_factored(self.factor.L, x)
        w = np.empty(0)
        if self._K is not None:
            right = np.concatenate([z[self.new], np.zeros(len(self.gone))])
            w = self._K @ (right - self._border.T @ x)
            x = x - self._solved @ w
            x[self.gone] = 0.0
        z[:] = 0.0
        z[self.base] = x
        z[self.new] = w[: len(self.new)]


def _entries(S: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return S[np.maximum.outer(rows, columns), np.minimum.outer(rows, columns)]
