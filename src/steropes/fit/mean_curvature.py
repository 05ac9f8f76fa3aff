"""Mean curvature of several outcomes, for their shared Hessian.

The mean is not exact for any of the outcomes, so the error added by sampling rows matters little.
With many more rows than one outcome needs to distinguish its columns, the matrix is
computed from a systematic sample of rows with probabilities proportional to their curvature. Its
diagonal is then replaced by the exact one. Off-diagonal elements of columns with few sampled rows
are shrunk towards zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..likelihoods import Likelihood
from ..likelihoods.curvature_kinds import GroupedCurvature
from ..solve.data_term import WorkingColumns
from ..solve.data_term.local_term import LocalCurvature
from ..solve.hessian import diagonal, hessian
from .multi_fit_constants import OUTCOMES

__all__ = ["MeanCurvature"]


class MeanCurvature(LocalCurvature):
    """A diagonal curvature in η, centred if the likelihood does not depend on the level of η.

    Parameters
    ----------
    v : (n,) array
        The diagonal, in the order of X's rows.
    columns : int
        The largest number of columns that may be nonzero in one outcome.
    """

    def __init__(
        self, likelihood: Likelihood, v: np.ndarray, active: WorkingColumns, columns: int
    ) -> None:
        self.likelihood, self.rows_enough = likelihood, OUTCOMES.rows_per_column * max(columns, 1)
        curvature = _as_curvature(likelihood, v)
        super().__init__(active, curvature, curvature.v)

    def matrix(self, first: int = 0, rough: bool = False) -> np.ndarray:
        """See `CurvatureAt.matrix`."""
        rows, backend = self.active.rows, self.active.backend
        assert rows.layout == "rows"  # as for all families with several outcomes
        sparse = 2 * len(rows.sparse_at) > rows.k
        if not (backend.on_host and sparse and self.rows_enough < OUTCOMES.max_row_share * rows.n):
            return super().matrix(first, rough)
        at, v = systematic_sample(self.curvature.v, self.rows_enough)
        if not len(at):
            return super().matrix(first, rough)
        part, ones = rows.taken(at), np.ones((len(at), 1))
        H = hessian(part, _as_curvature(self.likelihood, v), first, rough)
        exact, now = self.diagonal(), diagonal(part, _as_curvature(self.likelihood, v))
        squares = part.diagonals(ones)[:, 0]
        # For an indicator column this is its number of ones in the sample.
        informative_rows = part.rmatmul(ones)[:, 0] ** 2 / np.where(squares > 0, squares, 1.0)
        informative_rows[rows.dense_at] = len(at)
        known = (now > 0) & (exact > 0)
        size = np.sqrt(np.where(known, exact, 0.0) / np.where(known, now, 1.0))
        size *= np.sqrt(np.minimum(1.0, informative_rows / OUTCOMES.full_rows))
        H[first:] *= size.astype(H.dtype)
        H[first:] *= size[first:].astype(H.dtype)[:, None]
        new = np.arange(first, len(H))
        H[new, new] = exact[first:]
        return H


def systematic_sample(v: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw about m rows at equal steps of the running sum of v ≥ 0.

    The probability of a row is proportional to its v, so each step of the sum contributes equally;
    a row that contains several steps is counted as often (Madow 1949, Annals of Mathematical
    Statistics 20:333).

    Returns
    -------
    at : int array
        The sampled rows.
    v : array
        The values of v that they represent.
    """
    steps = np.floor(np.cumsum(v) * (m / v.sum()) + 0.5)
    count = np.diff(steps, prepend=0.0)
    at = np.flatnonzero(count)
    return at, count[at] * (v.sum() / m)


def _as_curvature(likelihood: Likelihood, v: np.ndarray) -> GroupedCurvature:
    """Create the curvature with diagonal v, centred if the likelihood is shift invariant."""
    backend, n = likelihood.backend, len(v)
    curvature = GroupedCurvature(backend.asarray(v))
    if not likelihood.shift_invariant:
        return curvature
    c: Any = np.zeros(n)
    c[-1] = 1.0 / v.sum()
    return GroupedCurvature(curvature.v, curvature.v, np.array([0, n]), backend.asarray(c))
