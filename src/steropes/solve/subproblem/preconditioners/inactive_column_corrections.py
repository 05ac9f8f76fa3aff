"""Corrections for replicates in which some eliminated columns are inactive.

With A_cc = LL', the inverse over the columns c without some g is L⁻ᵀ(I − QQ')L⁻¹, where the columns
of Q are an orthonormal basis of L⁻¹E_g. The part of the other columns that only the columns g
explained, W = A_rc L⁻ᵀ Q, is unexplained again: D becomes D + WW'. All replicates share the columns
of L⁻¹, and those of the last rows are short.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ...work_sizes import SIZES
from ..subproblem_constants import PreconditionerPolicy
from .tiled_cholesky import Cholesky

__all__ = ["InactiveColumns", "InactiveColumnsCache"]


Block = tuple[int, np.ndarray]  # Columns as their first row and the rows from there on.


class InactiveColumns:
    """The correction for replicates in which the same columns are inactive.

    Parameters
    ----------
    starts : (g,) int array
        Rows above which the columns of V are zero, descending.
    V : (m − starts.min(), g) array
        Columns of L⁻¹, from the first nonzero row on. It is overwritten.
    L : (n, m) array
        The factor, including rows of columns that were not eliminated.
    """

    def __init__(self, starts: np.ndarray, V: np.ndarray, L: np.ndarray) -> None:
        m = L.shape[1]
        self.blocks: list[Block] = []
        for i in range(0, len(starts), SIZES.inverse_columns):
            first = int(starts[i : i + SIZES.inverse_columns].min())
            Q = V[len(V) - (m - first) :, i : i + SIZES.inverse_columns]
            # Repeated, because one pass is inaccurate for nearly dependent columns.
            for _ in range(2):
                for start, P in self.blocks:
                    part = Q[start - first :]
                    part -= P @ (P.T @ part)
                Q = linalg.qr(Q, mode="economic", check_finite=False)[0]
            self.blocks.append((first, Q))
        self.W = np.zeros((0, len(starts)), np.float32)
        self.follow(L)
        self._kernel: tuple[bytes, np.ndarray] = b"", np.zeros((0, 0))

    def follow(self, L: np.ndarray) -> None:
        """Extend W to rows that were appended to L."""
        new = L[L.shape[1] + len(self.W) :]
        if len(new):
            W = [new[:, first:] @ Q for first, Q in self.blocks]
            self.W = np.concatenate([self.W, np.concatenate(W, axis=1)])

    def project_out(self, w: np.ndarray) -> None:
        """Project the inactive columns out of L⁻¹r (m,), in place."""
        for first, Q in self.blocks:
            part = w[first:]
            part -= Q @ (Q.T @ part)

    def rest(self, z: np.ndarray, there: np.ndarray, D: np.ndarray) -> None:
        """Multiply z by (D + WW')⁻¹ on the columns ``there`` (n − m,), in place; zero elsewhere."""
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
    """Bases for replicates that lack some columns, made when first requested."""

    def __init__(self, factor: Cholesky, policy: PreconditionerPolicy | None = None) -> None:
        self.factor, self.policy = factor, PreconditionerPolicy() if policy is None else policy
        # The block that contains each stored column of L⁻¹, and the column's position in it.
        self._units: dict[int, tuple[Block, int]] = {}
        self._known: dict[bytes, InactiveColumns] = {}

    def of(self, there: np.ndarray, most: float) -> list[InactiveColumns | None]:
        """Return the corrections of replicates that have the columns ``there`` (m, B).

        None for a replicate that has all columns or lacks more than ``most``; one without any
        columns has nothing to solve.
        """
        lacking = there.shape[0] - np.count_nonzero(there, axis=0)
        wanted = np.flatnonzero((lacking > 0) & (lacking <= most)).tolist()
        keys = {b: np.packbits(there[:, b]).tobytes() for b in wanted}
        gone = {keys[b]: np.flatnonzero(~there[:, b]) for b in wanted}
        new = [key for key in gone if key not in self._known]
        if new:
            self._compute_inverse_columns(np.unique(np.concatenate([gone[key] for key in new])))
            made = self.factor.pool.map(self._correction_for, [(gone[key],) for key in new])
            self._known |= dict(zip(new, made, strict=True))
        used = {key: self._known[key] for key in gone}
        for correction in used.values():
            correction.follow(self.factor.L)
        # The latest are last, since finished replicates may return.
        known = {key: x for key, x in self._known.items() if key not in used} | used
        self._known = dict(list(known.items())[-max(self.policy.kept_corrections, len(used)) :])
        return [self._known[keys[b]] if b in keys else None for b in range(there.shape[1])]

    def _compute_inverse_columns(self, at: np.ndarray) -> None:
        """Compute and store the columns ``at`` of L⁻¹ that are missing.

        If too many would be stored, all others are discarded first.
        """
        missing = np.array([j for j in at.tolist() if j not in self._units], np.intp)
        if not len(missing):
            return
        most = self.policy.kept_unit_share * self.factor.m + len(at)
        if len(self._units) + len(missing) > most:
            self._units, missing = {}, at
        block = self.factor.units(missing)
        self._units |= {int(j): (block, i) for i, j in enumerate(missing)}

    def _correction_for(self, gone: np.ndarray) -> InactiveColumns:
        """Make the correction for the inactive columns ``gone``."""
        last_first = gone[::-1]
        first = int(gone[0])
        V = np.zeros((self.factor.m - first, len(gone)), np.float32)
        for i, j in enumerate(last_first.tolist()):
            (start, E), at = self._units[j]
            V[j - first :, i] = E[j - start :, at]
        return InactiveColumns(last_first, V, self.factor.L)
