"""Each row's or cluster's part of the score at a fit, along any directions in the coefficients.

Directions are many at a time and the parts of one are a vector as long as the rows: no array of
rows by coefficients is ever made. From them come robust covariances, jackknife influences, and
residuals.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .baseline_hazard import fitted_state

__all__ = ["UnitScores"]


class UnitScores:
    """Parts of the score, in the scaled columns, of rows or of clusters of rows.

    Parameters
    ----------
    problem : steropes.fit.Problem
    beta : (p,) array
        Coefficients in X's units.
    unit : (n,) int array, optional
        Code of each row's cluster, 0 …; None is each row by itself.

    Attributes
    ----------
    by : (n_eta,) int array
        Rows of η by row of X or cluster.
    begin : int array
        Where each one that has any begins in ``by``.
    """

    def __init__(self, problem: Any, beta: np.ndarray, unit: np.ndarray | None = None) -> None:
        self.problem = problem
        likelihood = problem.likelihood
        self.eta, self.weights = fitted_state(problem, beta)
        self.unit = unit
        rows = likelihood.row_of_x
        to = rows if unit is None else unit[rows]
        self.size = problem.design.n if unit is None else int(unit.max()) + 1
        self.by = np.argsort(to, kind="stable")
        self._present, self.begin = np.unique(to[self.by], return_index=True)

    def along(self, D: np.ndarray) -> np.ndarray:
        """U D for directions D (p, L) in the scaled columns: (units, L)."""
        likelihood, design = self.problem.likelihood, self.problem.design
        backend, order, L = likelihood.backend, likelihood.order, D.shape[1]
        wide = np.zeros((design.p, backend.lanes(L)))
        wide[:, :L] = D
        Z = design.matmul(wide, backend)
        Z = Z if order is None else Z[order]
        U = backend.to_host(likelihood.score_residuals(self.eta, self.weights, Z))[:, :L]
        out = np.zeros((self.size, L))
        out[self._present] = np.add.reduceat(U[self.by], self.begin)
        return out
