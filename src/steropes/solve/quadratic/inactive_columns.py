"""What replicates need that lack columns which were eliminated for all.

With A_cc = LL' the inverse over the columns c without some g is L⁻ᵀ(I − QQ')L⁻¹, where the
columns of Q are an orthonormal basis of L⁻¹E_g. What the columns g alone explained of the others,
W = A_rc L⁻ᵀ Q, is left of them again: D + WW' where there was D. The columns of L⁻¹ are
everyone's, and those of the last rows are short.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from .partial_cholesky import Cholesky

__all__ = ["InactiveColumns", "InactiveColumnsCache"]

KEPT = 24  # replicates' bases, and
UNITS = 0.25  # columns of L⁻¹ for each eliminated one, beside those that are in use
TOGETHER = 64  # columns of a basis that begin at the same row

Block = tuple[int, np.ndarray]  # columns: their first row, and the rows from there on


class InactiveColumns:
    """Of the replicates that lack the same columns.

    Parameters
    ----------
    starts : (g,) int array
        Rows above which the columns of V are zero, descending.
    V : (m − starts.min(), g) array
        Columns of L⁻¹, the rows from the first one that is not zero on. It is overwritten.
    L : (n, m) array
        The factor, with rows of columns that were not eliminated.
    """

    def __init__(self, starts: np.ndarray, V: np.ndarray, L: np.ndarray) -> None:
        m = L.shape[1]
        self.blocks: list[Block] = []
        for i in range(0, len(starts), TOGETHER):
            first = int(starts[i : i + TOGETHER].min())
            Q = V[len(V) - (m - first) :, i : i + TOGETHER]
            for _ in range(2):  # once would leave what rounding makes of nearly dependent columns
                for start, P in self.blocks:
                    part = Q[start - first :]
                    part -= P @ (P.T @ part)
                Q = linalg.qr(Q, mode="economic", check_finite=False)[0]
            self.blocks.append((first, Q))
        self.W = np.zeros((0, len(starts)), np.float32)
        self.follow(L)
        self._kernel: tuple[bytes, np.ndarray] = b"", np.zeros((0, 0))

    def follow(self, L: np.ndarray) -> None:
        """Explain the rows that L has got since too."""
        new = L[L.shape[1] + len(self.W) :]
        if len(new):
            W = [new[:, first:] @ Q for first, Q in self.blocks]
            self.W = np.concatenate([self.W, np.concatenate(W, axis=1)])

    def leave_out(self, w: np.ndarray) -> None:
        """Take the part of the columns that are gone out of L⁻¹r (m,), in place."""
        for first, Q in self.blocks:
            part = w[first:]
            part -= Q @ (Q.T @ part)

    def rest(self, z: np.ndarray, there: np.ndarray, D: np.ndarray) -> None:
        """(D + WW')⁻¹z of the columns ``there``, all (n − m,), in place; zero at the others."""
        z *= there
        z /= D
        key = np.packbits(there).tobytes()
        if self._kernel[0] != key or not len(self._kernel[1]):
            some = self.W[there]
            K = np.eye(self.W.shape[1]) + some.T @ (some / D[there, None])
            self._kernel = key, linalg.inv(K, overwrite_a=True, check_finite=False)
        correction = self.W @ (self._kernel[1] @ (self.W.T @ z)).astype(np.float32)
        z -= there * correction / D


class InactiveColumnsCache:
    """Bases for those replicates that lack some columns, made when they are first asked for.

    Parameters
    ----------
    factor : Cholesky
    """

    def __init__(self, factor: Cholesky) -> None:
        self.factor = factor
        self._units: dict[int, tuple[Block, int]] = {}  # of a column: where it is
        self._known: dict[bytes, InactiveColumns] = {}

    def of(self, there: np.ndarray, most: float) -> list[InactiveColumns | None]:
        """Of replicates that have the columns ``there`` (m, B).

        None who has all, and who lacks more than ``most``: one who has none has nothing to solve.
        """
        lacking = there.shape[0] - np.count_nonzero(there, axis=0)
        wanted = np.flatnonzero((lacking > 0) & (lacking <= most)).tolist()
        keys = {b: np.packbits(there[:, b]).tobytes() for b in wanted}
        gone = {keys[b]: np.flatnonzero(~there[:, b]) for b in wanted}
        new = [key for key in gone if key not in self._known]
        if new:
            self._solve(np.unique(np.concatenate([gone[key] for key in new])))
            made = self.factor.pool.map(self._absence, [(gone[key],) for key in new])
            self._known |= dict(zip(new, made, strict=True))
        used = {key: self._known[key] for key in gone}
        for absence in used.values():
            absence.follow(self.factor.L)
        # The latest last; those of replicates who are done for now may come back.
        known = {key: x for key, x in self._known.items() if key not in used} | used
        self._known = dict(list(known.items())[-max(KEPT, len(used)) :])
        return [self._known[keys[b]] if b in keys else None for b in range(there.shape[1])]

    def _solve(self, at: np.ndarray) -> None:
        """Have the columns ``at`` of L⁻¹."""
        missing = np.array([j for j in at.tolist() if j not in self._units], np.intp)
        if not len(missing):
            return
        if len(self._units) + len(missing) > UNITS * self.factor.m + len(at):
            self._units, missing = {}, at
        block = self.factor.units(missing)
        self._units |= {int(j): (block, i) for i, j in enumerate(missing)}

    def _absence(self, gone: np.ndarray) -> InactiveColumns:
        last_first = gone[::-1]
        first = int(gone[0])
        V = np.zeros((self.factor.m - first, len(gone)), np.float32)
        for i, j in enumerate(last_first.tolist()):
            (start, E), at = self._units[j]
            V[j - first :, i] = E[j - start :, at]
        return InactiveColumns(last_first, V, self.factor.L)
