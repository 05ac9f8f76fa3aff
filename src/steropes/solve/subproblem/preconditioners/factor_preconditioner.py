"""A preconditioner from a Cholesky factor of the columns that all replicates have.

Under a lasso, the supports of folds have about half of their columns in common. Those are
eliminated once, A_cc = LL'. Of the Schur complement S = A_rr − A_rc A_cc⁻¹ A_cr of the others only
the diagonal is computed: after elimination the others are nearly uncorrelated, and a few more
conjugate gradient iterations cost much less than factors of each replicate's part of S.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from ....backends.reductions_of_tall_arrays import column_any, row_any
from ..dense_reduced_hessian import as_precision
from ..reduced_hessian import SINGLE_ROUNDING, MatrixEntries
from .inactive_column_corrections import InactiveColumns, InactiveColumnsCache
from .tiled_cholesky import Cholesky

__all__ = ["FactorPreconditioner"]

# This is added to the factor's unit diagonal, because nested columns may be equal.
JITTER = 1e-5
# Below this unexplained share of a column, rounding dominates.
MIN_UNEXPLAINED = 1e-3


class System(NamedTuple):
    """The columns of a factor that each replicate has, (n, B), and bases of those that it lacks."""

    there: np.ndarray
    corrections: list[InactiveColumns | None]


class FactorPreconditioner:
    """A factor of the shared matrix over the columns of some supports.

    Parameters
    ----------
    support : (k, B) bool array
    size : (k,) array
        Size of the coefficients, in any unit: small ones of common columns may vanish soon.
    ridge : (k,) array

    Attributes
    ----------
    at : (n,) int array
        The columns, beginning with those that are eliminated.
    m : int
        Number of eliminated columns.

    Raises
    ------
    numpy.linalg.LinAlgError
        If rounding makes the matrix of the common columns indefinite.
    """

    def __init__(
        self, shared: MatrixEntries, support: np.ndarray, size: np.ndarray, ridge: np.ndarray
    ) -> None:
        self.policy = policy = shared.policy.preconditioner
        most = policy.max_factor_columns
        some = row_any(support)
        # The remainder of a column after elimination may be rounding error and is no usable unit.
        some &= shared.diagonal + ridge > SINGLE_ROUNDING * shared.whole
        if np.count_nonzero(some) > most:
            h = np.where(some, shared.diagonal, -np.inf)
            some[np.argpartition(-h, most)[most:]] = False
        core = np.flatnonzero(some & support.all(axis=1))
        core = core[np.argsort(-size[core], kind="stable")]
        # A single replicate has all columns of its support.
        doubtful = policy.doubtful_share if support.shape[1] > 1 else 0.0
        core = core[: len(core) - int(doubtful * len(core))]
        some[core] = False
        self.at, self.m = np.concatenate([core, np.flatnonzero(some)]), len(core)
        n, m = len(self.at), self.m
        self._room = np.zeros((n + int(policy.spare_share * n) + 1, m), np.float32)
        self._size = np.sqrt(shared.diagonal + ridge)[self.at]
        A = self._room[:n]
        shared.lower_part(self.at, self._size, A)
        A[np.arange(m), np.arange(m)] = 1.0 + JITTER
        self.factor = Cholesky(A, shared.pool)
        self._rest = _unexplained_share(A[m:])
        self._corrections = InactiveColumnsCache(self.factor, self.policy)
        self._arrays_shared = False  # Whether others use the same arrays.

    @classmethod
    def of(
        cls, shared: MatrixEntries, support: np.ndarray, size: np.ndarray, ridge: np.ndarray
    ) -> FactorPreconditioner | None:
        """Return a factor, or None if rounding makes the matrix indefinite."""
        try:
            return cls(shared, support, size, ridge)
        except np.linalg.LinAlgError:
            return None

    def fork(self) -> FactorPreconditioner:
        """Return a copy for another user, which can be extended independently."""
        out = copy.copy(self)
        out._corrections = InactiveColumnsCache(out.factor, out.policy)
        out._arrays_shared = self._arrays_shared = True
        return out

    def serves(
        self, shared: MatrixEntries, support: np.ndarray, ridge: np.ndarray, alone: bool = False
    ) -> bool:
        """Return whether the factor can be used for these supports, adding missing columns.

        With ``alone`` it must be exact except for a few columns.
        """
        core, live = self.at[: self.m], column_any(support)
        most = self.policy.max_factor_columns
        if alone and self.m < self.policy.min_exact_share * np.count_nonzero(support):
            return False
        lacking = (~support[core][:, live]).sum(axis=0).max(initial=0)
        if lacking > self._most_lacking:
            return False
        missing = row_any(support)
        missing[self.at] = False
        new = np.flatnonzero(missing)
        new = new[shared.diagonal[new] + ridge[new] > SINGLE_ROUNDING * shared.whole[new]]
        if len(new) == 0 or len(self.at) == most:
            return True
        if len(self.at) + len(new) > min(len(self._room), most):
            return False
        if self.was_made_of(shared, ridge):
            self._extend(shared, new, ridge)
        return True

    def was_made_of(self, shared: MatrixEntries, ridge: np.ndarray) -> bool:
        """Return whether the factor was made of this matrix, or of one with the same diagonal."""
        h = (shared.diagonal + ridge)[self.at]
        return bool((np.abs(h - self._size**2) <= self.policy.same_diagonal * h).all())

    @property
    def _most_lacking(self) -> float:
        """The largest number of eliminated columns that a replicate may lack."""
        least = min(self.policy.min_lacking, self.m // 4)
        return max(self.policy.max_lacking_share * self.m, least)

    def _extend(self, shared: MatrixEntries, new: np.ndarray, ridge: np.ndarray) -> None:
        """Add columns to those that are not eliminated."""
        first = len(self.at)
        if self._arrays_shared:
            self._room, self._arrays_shared = self._room.copy(), False
            self.factor = copy.copy(self.factor)
            self._corrections = InactiveColumnsCache(self.factor, self.policy)
        at, size = self.at, self._size
        self.at = np.concatenate([at, new])
        self._size = np.concatenate([size, np.sqrt(shared.diagonal + ridge)[new]])
        A = self._room[: len(self.at)]
        core = at[: self.m]
        A[first:] = shared.between(new, core, np.float32)
        A[first:] /= self._size[first:, None]
        A[first:] /= self._size[: self.m]
        self.factor.append(A, first)
        self._rest = np.append(self._rest, _unexplained_share(A[first:]))

    def system(self, there: np.ndarray) -> System:
        """Return the systems of replicates that have the columns ``there`` (n, B) of ``at``.

        They are valid until columns are added.
        """
        return System(there, self._corrections.of(there[: self.m], self._most_lacking))

    def solve(self, R: np.ndarray, system: System) -> np.ndarray:
        """Multiply R by A⁻¹ on each replicate's columns, (n, B) in the order of ``at``."""
        size = self._size[:, None]
        z, unit = as_precision(R / size, np.float32)
        (there, corrections), factor, m = system, self.factor, self.m
        factor.forward(z)
        self._project_out(z, corrections)
        factor.down(z)
        for b, correction in enumerate(corrections):
            if correction is not None:
                correction.rest(z[m:, b], there[m:, b], self._rest)
            else:
                z[m:, b] *= there[m:, b] / self._rest
        factor.up(z)
        self._project_out(z, corrections)
        factor.backward(z)
        z[:m] *= there[:m]  # Exactly zero.
        out: np.ndarray = z * unit / size
        return out

    def _project_out(self, z: np.ndarray, corrections: list[InactiveColumns | None]) -> None:
        """Project out the columns that each replicate lacks."""
        for b, correction in enumerate(corrections):
            if correction is not None:
                correction.project_out(z[: self.m, b])


def _unexplained_share(L: np.ndarray) -> np.ndarray:
    """Return the share of unit columns that the factor's rows L do not explain."""
    rest: np.ndarray = 1.0 - np.einsum("ij,ij->i", L, L)
    return np.maximum(rest, MIN_UNEXPLAINED)
