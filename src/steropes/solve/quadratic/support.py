"""Newton's step on the replicates' supports: conjugate gradients with one factor for all.

Supports of folds and of neighbouring steps are nearly the same, so that one Cholesky factor of
the shared matrix over what most of them have serves each as a preconditioner: cut to a support,
its inverse differs from the support's own by a few ranks. Products and solves take all replicates
at once.
"""

from __future__ import annotations

import copy

import numpy as np

from .cholesky import Cholesky
from .low_rank import LowRank
from .shared import SharedMatrix, as_precision

__all__ = ["Preconditioner", "support_steps"]

MOST = 3000  # columns in a factor: those with the most curvature, the others by their diagonal
JITTER = 1e-5  # added to the factor's unit diagonal: nested columns may be equal
ROUNDING = 1e-7  # of a column's own curvature: less is none in single precision
ITERATIONS = 8
EXACT = 0.05  # of the residual: as far as a step is solved


class Preconditioner:
    """A factor of the shared matrix over some columns.

    Attributes
    ----------
    at : (m,) int array
        The columns.
    rows : (m,) int array
        Which of the factor's they are: some may not be wanted at present.
    meant : int array
        The columns that it was made for; those with little curvature are left to their diagonal.
    """

    def __init__(self, shared: SharedMatrix, at: np.ndarray, ridge: np.ndarray) -> None:
        self.meant = at
        # What the elimination left of a column may be rounding alone, and no unit of anything.
        whole = np.diagonal(shared.G)[at].astype(np.float64)
        at = at[shared.diagonal[at] + ridge[at] > ROUNDING * whole]
        if len(at) > MOST:
            most = np.argpartition(-shared.diagonal[at], MOST)[:MOST]
            at = np.sort(at[most])
        self.at, self.rows = at, np.arange(len(at))
        h = shared.diagonal[at]
        self.size = np.sqrt(h + ridge[at])
        A = shared.part(at, np.float32, self.size)
        A[np.diag_indices(len(at))] = 1.0 + JITTER
        self.factor = Cholesky(A, shared.pool)

    @classmethod
    def of(cls, shared: SharedMatrix, at: np.ndarray, ridge: np.ndarray) -> Preconditioner | None:
        """A factor, or None where rounding leaves the matrix indefinite."""
        try:
            return cls(shared, at, ridge)
        except np.linalg.LinAlgError:
            return None

    def within(self, at: np.ndarray) -> Preconditioner:
        """The same factor for a matrix of the places ``at`` (ascending) of its columns' space."""
        out = copy.copy(self)
        out.at, out.rows = _places(self.at, at, self.rows)
        out.meant, _ = _places(self.meant, at, None)
        return out

    def among(self, at: np.ndarray, k: int) -> Preconditioner:
        """The other way: its columns are places of ``at`` among k."""
        out = copy.copy(self)
        out.at, out.meant = at[self.at], at[self.meant]
        return out

    def covers(self, columns: np.ndarray, missing: float) -> bool:
        """Whether it was made for these columns, up to a share that it lacks or has beside."""
        common = len(np.intersect1d(columns, self.meant, assume_unique=True))
        return common >= (1 - missing) * max(len(columns), len(self.meant))

    def solve(self, R: np.ndarray) -> np.ndarray:
        """A⁻¹ R of its columns, (m, B)."""
        size = self.size[self.rows, None]
        z, unit = as_precision(R / size, np.float32)
        whole = np.zeros((len(self.size), R.shape[1]), np.float32)
        whole[self.rows] = z
        return self.factor.solve(whole)[self.rows] * unit / size


def _places(
    columns: np.ndarray, at: np.ndarray, rows: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Where columns are among ``at``, those that are there, and their rows."""
    if len(at) == 0:
        return at, at
    place = np.minimum(np.searchsorted(at, columns), len(at) - 1)
    there = at[place] == columns
    return place[there], (np.arange(len(columns)) if rows is None else rows)[there]


def support_steps(
    shared: SharedMatrix, low: LowRank, l2: np.ndarray, h: np.ndarray, support: np.ndarray,
    residual: np.ndarray, factor: Preconditioner | None,
) -> tuple[np.ndarray, int]:  # fmt: skip
    """Steps p with (A + low + diag(l2)) p = residual on each replicate's support, nearly.

    Parameters
    ----------
    h : (k, B) array
        Diagonal of the whole matrix, positive on the support.
    support : (k, B) bool array
    residual : (k, B) array

    Returns
    -------
    p : (k, B) array
        Zero outside of the support.
    iterations : int
    """

    def precondition(r: np.ndarray) -> np.ndarray:
        z = np.where(support, r / np.where(support, h, 1.0), 0.0)
        if factor is not None:
            z[factor.at] = factor.solve(r[factor.at])
            z *= support
        return z

    r = np.where(support, residual, 0.0)
    p = np.zeros(r.shape)
    z = precondition(r)
    v = z.copy()
    rz = (r * z).sum(axis=0)
    aim = EXACT**2 * rz
    iterations = 0
    for _ in range(ITERATIONS):
        if not (rz > aim).any():
            break
        iterations += 1
        q = (shared.times(v) + l2 * v + low.product(v)) * support
        curve = (v * q).sum(axis=0)
        go = (rz > aim) & (curve > 0)
        if not go.any():
            break
        a = np.where(go, rz / np.where(go, curve, 1.0), 0.0)
        p += a * v
        r -= a * q
        z = precondition(r)
        new = (r * z).sum(axis=0)
        v = z + np.where(go, new / np.where(rz > 0, rz, 1.0), 0.0) * v
        rz = np.where(go, new, 0.0)
    return p, iterations
