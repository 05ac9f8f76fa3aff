"""A factor for the supports of several replicates: exact for the columns that all have.

Supports of folds under a lasso have about half of their columns in common. Those are eliminated
once, A_cc = LL', and of the Schur complement S = A_rr − A_rc A_cc⁻¹ A_cr of the others only the
diagonal is made: with what all have explained, the others are nearly uncorrelated, and a few more
conjugate gradients cost much less than a factor of each replicate's own part of S.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

import numpy as np

from ...backends.tall import column_any, row_any
from .inactive_columns import InactiveColumns, InactiveColumnsCache
from .partial_cholesky import Cholesky
from .reduced_matrix import MatrixEntries
from .shared_matrix import as_precision

__all__ = ["FactorPreconditioner"]

MOST = 20_000  # columns in a factor: those with the most curvature, the others by their diagonal
JITTER = 1e-5  # added to the factor's unit diagonal: nested columns may be equal
ROUNDING = 1e-7  # of a column's own curvature: less is none in single precision
LIKELY = 0.1  # share of the columns that all have, with the smallest coefficients: they may leave
SPARE = 0.1  # columns that there is room for, for each that there is
SAME = 1e-3  # relative change of a diagonal: more is another matrix's, and nothing can be let in
LACKS = 0.15  # share of the columns that all had which one may lack
LEAST = 1e-3  # of a column that the others may explain: what rounding leaves is no measure
EXACT = 0.8  # share of a support by itself that is eliminated
FEW = 16  # columns that one may lack in any case, or a quarter of them


class System(NamedTuple):
    """Which of a factor's columns each replicate has, (n, B), and what those lack who lack some."""

    there: np.ndarray
    absences: list[InactiveColumns | None]


class FactorPreconditioner:
    """A factor of the shared matrix over the columns of some supports.

    Parameters
    ----------
    shared : MatrixEntries
    support : (k, B) bool array
    size : (k,) array
        Of the coefficients, any measure: those that all have and that are small may soon leave.
    ridge : (k,) array

    Attributes
    ----------
    at : (n,) int array
        The columns, first those that are eliminated.
    m : int
        How many those are.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where rounding leaves the matrix of the columns that all have indefinite.
    """

    def __init__(
        self, shared: MatrixEntries, support: np.ndarray, size: np.ndarray, ridge: np.ndarray
    ) -> None:
        some = row_any(support)
        # What the elimination left of a column may be rounding alone, and no unit of anything.
        some &= shared.diagonal + ridge > ROUNDING * shared.whole
        if np.count_nonzero(some) > MOST:
            h = np.where(some, shared.diagonal, -np.inf)
            some[np.argpartition(-h, MOST)[MOST:]] = False
        core = np.flatnonzero(some & support.all(axis=1))
        core = core[np.argsort(-size[core], kind="stable")]
        likely = LIKELY if support.shape[1] > 1 else 0.0  # one by itself has all
        core = core[: len(core) - int(likely * len(core))]
        some[core] = False
        self.at, self.m = np.concatenate([core, np.flatnonzero(some)]), len(core)
        n, m = len(self.at), self.m
        self._room = np.zeros((n + int(SPARE * n) + 1, m), np.float32)
        self._size = np.sqrt(shared.diagonal + ridge)[self.at]
        A = self._room[:n]
        shared.lower_part(self.at, self._size, A)
        A[np.arange(m), np.arange(m)] = 1.0 + JITTER
        self.factor = Cholesky(A, shared.pool)
        self._rest = _unexplained(A[m:])
        self._absences = InactiveColumnsCache(self.factor)
        self._lent = False  # whether others work with the same matrix

    @classmethod
    def of(
        cls, shared: MatrixEntries, support: np.ndarray, size: np.ndarray, ridge: np.ndarray
    ) -> FactorPreconditioner | None:
        """A factor, or None where rounding leaves the matrix indefinite."""
        try:
            return cls(shared, support, size, ridge)
        except np.linalg.LinAlgError:
            return None

    def fork(self) -> FactorPreconditioner:
        """The same for somebody else, who may let columns in without this one's seeing it."""
        out = copy.copy(self)
        out._absences = InactiveColumnsCache(out.factor)
        out._lent = self._lent = True
        return out

    def serves(
        self, shared: MatrixEntries, support: np.ndarray, ridge: np.ndarray, alone: bool = False
    ) -> bool:
        """Whether it is a factor of these supports; columns that it lacks are let in.

        To one that is ``alone`` it must be exact but for a few columns.
        """
        core, live = self.at[: self.m], column_any(support)
        if alone and self.m < EXACT * np.count_nonzero(support):
            return False
        lacking = (~support[core][:, live]).sum(axis=0).max(initial=0)
        if lacking > self._most_lacking:
            return False
        missing = row_any(support)
        missing[self.at] = False
        new = np.flatnonzero(missing)
        new = new[shared.diagonal[new] + ridge[new] > ROUNDING * shared.whole[new]]
        if len(new) == 0 or len(self.at) == MOST:
            return True
        if len(self.at) + len(new) > min(len(self._room), MOST):
            return False
        if self.is_of(shared, ridge):
            self._extend(shared, new, ridge)
        return True

    def is_of(self, shared: MatrixEntries, ridge: np.ndarray) -> bool:
        """Whether it was made of this matrix, or one of the same diagonal."""
        h = (shared.diagonal + ridge)[self.at]
        return bool((np.abs(h - self._size**2) <= SAME * h).all())

    @property
    def _most_lacking(self) -> float:
        return max(LACKS * self.m, min(FEW, self.m // 4))

    def _extend(self, shared: MatrixEntries, new: np.ndarray, ridge: np.ndarray) -> None:
        first = len(self.at)
        if self._lent:
            self._room, self._lent = self._room.copy(), False
            self.factor = copy.copy(self.factor)
            self._absences = InactiveColumnsCache(self.factor)
        at, size = self.at, self._size
        self.at = np.concatenate([at, new])
        self._size = np.concatenate([size, np.sqrt(shared.diagonal + ridge)[new]])
        A = self._room[: len(self.at)]
        core = at[: self.m]
        A[first:] = shared.between(new, core, np.float32)
        A[first:] /= self._size[first:, None]
        A[first:] /= self._size[: self.m]
        self.factor.append(A, first)
        self._rest = np.append(self._rest, _unexplained(A[first:]))

    def system(self, there: np.ndarray) -> System:
        """What there is to solve of replicates that have the columns ``there`` (n, B) of ``at``.

        Until others are let in.
        """
        return System(there, self._absences.of(there[: self.m], self._most_lacking))

    def solve(self, R: np.ndarray, system: System) -> np.ndarray:
        """A⁻¹ R of each replicate's columns, (n, B) in the order of ``at``."""
        size = self._size[:, None]
        z, unit = as_precision(R / size, np.float32)
        (there, absences), factor, m = system, self.factor, self.m
        factor.forward(z)
        self._leave_out(z, absences)
        factor.down(z)
        for b, absence in enumerate(absences):
            if absence is not None:
                absence.rest(z[m:, b], there[m:, b], self._rest)
            else:
                z[m:, b] *= there[m:, b] / self._rest
        factor.up(z)
        self._leave_out(z, absences)
        factor.backward(z)
        z[:m] *= there[:m]  # zero, not nearly
        out: np.ndarray = z * unit / size
        return out

    def _leave_out(self, z: np.ndarray, absences: list[InactiveColumns | None]) -> None:
        for b, absence in enumerate(absences):
            if absence is not None:
                absence.leave_out(z[: self.m, b])


def _unexplained(L: np.ndarray) -> np.ndarray:
    """What is left of columns of unit size, of which the rows of L are what others explain."""
    rest: np.ndarray = 1.0 - np.einsum("ij,ij->i", L, L)
    return np.maximum(rest, LEAST)
