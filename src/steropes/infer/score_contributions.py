"""Contributions of rows or clusters to the score of a fit, along directions in the coefficients.

Several directions are processed at a time, each with a vector over the rows, so that no array of
rows by coefficients is formed. Robust covariances, jackknife influences and residuals use them.
"""

from __future__ import annotations

import numpy as np

from ..fit import Problem
from .baseline_hazard import fitted_state
from .inference_constants import BLOCKS

__all__ = ["UnitScores"]

# Replicates that the host processes together.
LANES = 8


class UnitScores:
    """Contributions of rows, or of clusters of rows, to the score in the scaled columns.

    Parameters
    ----------
    beta : (p,) array
        Coefficients in X's units.
    unit : (n,) int array, optional
        Code of each row's cluster, from 0 on; None if each row is its own cluster.

    Attributes
    ----------
    by : (n_eta,) int array
        Rows of η sorted by row of X or cluster.
    begin : int array
        Position in ``by`` at which each row of X or cluster present there begins.
    """

    def __init__(self, problem: Problem, beta: np.ndarray, unit: np.ndarray | None = None) -> None:
        self.problem = problem
        likelihood = problem.likelihood
        self.eta, self.weights = fitted_state(problem, beta)
        self.unit = unit
        rows = likelihood.row_of_x
        to = rows if unit is None else unit[rows]
        self.size = problem.design.n if unit is None else int(unit.max()) + 1
        self.by = np.argsort(to, kind="stable")
        self._sorted = bool((self.by[1:] > self.by[:-1]).all())  # Then no copy is needed.
        self._present, self.begin = np.unique(to[self.by], return_index=True)

    def along(self, D: np.ndarray) -> np.ndarray:
        """Compute U D, (units, L), for directions D (p, L) in the scaled columns."""
        L = D.shape[1]
        fitting = BLOCKS.direction_bytes // (8 * max(1, len(self.by)))
        together = max(LANES, int(fitting) // LANES * LANES)
        out = np.zeros((self.size, L))
        for a in range(0, L, together):
            part = slice(a, min(a + together, L))
            out[self._present, part] = self._along_some(D[:, part])
        return out

    def _along_some(self, D: np.ndarray) -> np.ndarray:
        """Compute `along` for some directions in the units that are present."""
        likelihood, design = self.problem.likelihood, self.problem.design
        backend, order, L = likelihood.backend, likelihood.order, D.shape[1]
        wide = np.zeros((design.p, backend.lanes(L)))
        wide[:, :L] = D
        Z = design.matmul(wide, backend)
        Z = Z if order is None else Z[order]
        U = backend.to_host(likelihood.score_residuals(self.eta, self.weights, Z))[:, :L]
        return np.add.reduceat(U if self._sorted else U[self.by], self.begin)
