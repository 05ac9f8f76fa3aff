"""The mean of several outcomes' curvatures, of which the Hessian that they share is made.

The mean is nobody's own, so that what sampling adds to its error matters little: where the rows are
more than enough to tell the columns of one outcome apart, the matrix is of a sample of them, drawn
systematically with chances as their curvature. Its diagonal is put right, and columns that hardly
any row of the sample has keep little more than that.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..likelihoods import Likelihood
from ..likelihoods.curvature import GroupedCurvature
from ..solve.data_term import WorkingColumns
from ..solve.data_term.local_term import LocalCurvature
from ..solve.hessian import diagonal, hessian

__all__ = ["MeanCurvature"]

ENOUGH = 24  # rows of a sample for each column that may matter to one outcome
LESS = 0.5  # share of the rows above which a sample saves nothing
TOLD = 16.0  # rows of the sample that tell a column's correlations


class MeanCurvature(LocalCurvature):
    """A diagonal in η, less its level where η may be shifted.

    Parameters
    ----------
    likelihood : Likelihood
    v : (n,) array
        The diagonal, in the order of X's rows.
    active : WorkingColumns
    columns : int
        How many columns may matter to one outcome, at most.
    """

    def __init__(
        self, likelihood: Likelihood, v: np.ndarray, active: WorkingColumns, columns: int
    ) -> None:
        self.likelihood, self.rows_enough = likelihood, ENOUGH * max(columns, 1)
        curvature = _diagonal(likelihood, v)
        super().__init__(active, curvature, curvature.v)

    def matrix(self, first: int = 0, rough: bool = False) -> np.ndarray:
        """See `CurvatureAt.matrix`."""
        rows, backend = self.active.rows, self.active.backend
        assert rows.layout == "rows"  # families that go side by side
        sparse = 2 * len(rows.sparse_at) > rows.k
        if not (backend.on_host and sparse and self.rows_enough < LESS * rows.n):
            return super().matrix(first, rough)
        at, v = systematic_sample(self.curvature.v, self.rows_enough)
        if not len(at):
            return super().matrix(first, rough)
        part, ones = rows.taken(at), np.ones((len(at), 1))
        H = hessian(part, _diagonal(self.likelihood, v), first, rough)
        exact, now = self.diagonal(), diagonal(part, _diagonal(self.likelihood, v))
        squares = part.diagonals(ones)[:, 0]
        told = part.rmatmul(ones)[:, 0] ** 2 / np.where(squares > 0, squares, 1.0)  # of 0/1: rows
        told[rows.dense_at] = len(at)
        known = (now > 0) & (exact > 0)
        size = np.sqrt(np.where(known, exact, 0.0) / np.where(known, now, 1.0))
        size *= np.sqrt(np.minimum(1.0, told / TOLD))
        H[first:] *= size.astype(H.dtype)
        H[first:] *= size[first:].astype(H.dtype)[:, None]
        new = np.arange(first, len(H))
        H[new, new] = exact[first:]
        return H


def systematic_sample(v: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows drawn at even steps of the running sum of v ≥ 0, about m, and what they stand for.

    A row's chance is as its v, so that all stand for the same, a step of the sum, or as many of
    them as fall into it. (Madow 1949, Annals of Mathematical Statistics 20:333.)
    """
    steps = np.floor(np.cumsum(v) * (m / v.sum()) + 0.5)
    count = np.diff(steps, prepend=0.0)
    at = np.flatnonzero(count)
    return at, count[at] * (v.sum() / m)


def _diagonal(likelihood: Likelihood, v: np.ndarray) -> GroupedCurvature:
    """v, less its level where η may be shifted."""
    backend, n = likelihood.backend, len(v)
    curvature = GroupedCurvature(backend.asarray(v))
    if not likelihood.shift_invariant:
        return curvature
    c: Any = np.zeros(n)
    c[-1] = 1.0 / v.sum()
    return GroupedCurvature(curvature.v, curvature.v, np.array([0, n]), backend.asarray(c))
