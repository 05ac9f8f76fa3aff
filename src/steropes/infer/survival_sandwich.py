"""Robust covariances of survival models: the sandwich of the rows' influence functions.

The scores of a partial likelihood's rows do not add up to terms of single rows; each row's part
is w ∫ (x − x̄(t)) dM(t) (Lin and Wei 1989), which the likelihood computes for any columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .baseline import fitted_state

__all__ = ["robust_covariance", "scores_of_rows"]

COLUMNS = 64  # worked on together
MOST = 2e9  # bytes of scores that are held at once


def scores_of_rows(
    problem: Any, beta: np.ndarray, unit: np.ndarray | None = None
) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function from column numbers to scores of rows or clusters, (units, L).

    Parameters
    ----------
    problem : steropes.fit.Problem
    beta : (p,) array
        Coefficients in X's units.
    unit : (n,) int array, optional
        Code of each row's cluster; None is each row its own.
    """
    likelihood, design = problem.likelihood, problem.design
    backend, order = likelihood.backend, likelihood.order
    eta, weights = fitted_state(problem, beta)
    n = design.n
    to = likelihood.row_of_x if unit is None else unit[likelihood.row_of_x]
    size = n if unit is None else int(unit.max()) + 1
    by = np.argsort(to, kind="stable")
    present, begin = np.unique(to[by], return_index=True)

    def scores(columns: np.ndarray) -> np.ndarray:
        D = np.zeros((design.p, backend.lanes(len(columns))))
        D[columns, np.arange(len(columns))] = design.scale[columns]
        Z = design.matmul(D, backend)
        Z = Z if order is None else Z[order]
        U = backend.to_host(likelihood.score_residuals(eta, weights, Z))[:, : len(columns)]
        out = np.zeros((size, len(columns)))
        out[present] = np.add.reduceat(U[by], begin)
        return out

    return scores


def robust_covariance(
    problem: Any, beta: np.ndarray, model: np.ndarray, cluster: np.ndarray | None = None
) -> np.ndarray:
    """V B V with the model's covariance V and B the sum of outer products of the scores, (p, p).

    Parameters
    ----------
    problem : steropes.fit.Problem
    beta : (p,) array
        Coefficients in X's units.
    model : (p, p) array
        Inverse information, in X's units.
    cluster : (n,) int array, optional
        Codes; scores are added up within clusters first.
    """
    p = len(beta)
    scores = scores_of_rows(problem, beta, cluster)
    units = problem.design.n if cluster is None else int(cluster.max()) + 1
    blocks = [np.arange(a, min(a + COLUMNS, p)) for a in range(0, p, COLUMNS)]
    held: dict[int, np.ndarray] = {}

    def block(i: int) -> np.ndarray:
        if i not in held:
            U = scores(blocks[i])
            if 8.0 * units * COLUMNS * (len(held) + 1) > MOST:
                return U
            held[i] = U
        return held[i]

    B = np.zeros((p, p))
    for i, at in enumerate(blocks):
        U = block(i)
        for j in range(i + 1):
            part = U.T @ (U if j == i else block(j))
            B[np.ix_(at, blocks[j])] = part
            B[np.ix_(blocks[j], at)] = part.T
    V = model @ B @ model
    return 0.5 * (V + V.T)
