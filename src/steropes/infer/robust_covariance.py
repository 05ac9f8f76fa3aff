"""Robust covariances: the inverse information around the sum of outer products of the scores.

HC0 of unconditional models (White 1980; Huber 1967), by clusters where there are some (Liang and
Zeger 1986). The scores of a partial likelihood's rows do not add up to terms of single rows; each
row's part is w ∫ (x − x̄(t)) dM(t) (Lin and Wei 1989), which the likelihood computes for any
columns. So it is where a likelihood conditions on strata: w (x − x̄) times the row's residual, of
which a cluster of whole strata needs no x̄, as a stratum's residuals add up to zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError
from ..likelihoods.curvature import GroupedCurvature
from ..solve.hessian import hessian
from .bootstrap_draws import rows_across_clusters
from .score_contributions import UnitScores

__all__ = ["refuse_single_unit", "robust_covariance", "score_products"]

COLUMNS = 64  # worked on together
MOST = 2e9  # bytes of scores that are held at once


def robust_covariance(
    problem: Any, beta: np.ndarray, inverse: np.ndarray, cluster: np.ndarray | None = None
) -> np.ndarray:
    """A'BA with A the inverse information and B the sum of outer products of the scores.

    Parameters
    ----------
    problem : steropes.fit.Problem
    beta : (p,) array
        Coefficients in X's units.
    inverse : (p, P) array
        Inverse information in the scaled columns, times what turns coefficients of those into
        the ones wanted: see `Information.influence`.
    cluster : (n,) int array, optional
        Codes; scores are added up within clusters first.

    Returns
    -------
    (P, P) array
    """
    V = inverse.T @ score_products(problem, beta, cluster) @ inverse
    return 0.5 * (V + V.T)


def refuse_single_unit(unit: np.ndarray, weights: np.ndarray, order: np.ndarray | None) -> None:
    """Refuse clusters or strata of which only one says anything.

    The scores of all add up to zero at the optimum, so that those of one are nothing but rounding.

    Parameters
    ----------
    unit : (n,) int array
        Codes.
    weights : (n,) array
    order : array or None
        Rows that the model is of, None for all.
    """
    rows = np.arange(len(unit)) if order is None else np.unique(order)
    if len(np.unique(unit[rows[weights[rows] > 0]])) < 2:
        raise DataError(
            "Robust errors are made of how the scores of clusters, or of strata, differ from each "
            "other, and there is only one that says anything about the coefficients: they would "
            "be zero. Use kind='model', or other clusters."
        )


def score_products(problem: Any, beta: np.ndarray, cluster: np.ndarray | None = None) -> np.ndarray:
    """Σ U_i U_i' over rows or clusters, in the scaled columns, (p, p)."""
    scores = UnitScores(problem, beta, cluster)
    strata = problem.fold_together
    whole = (
        strata is None
        or cluster is None
        or not len(rows_across_clusters(strata, cluster, problem.weights))
    )
    if problem.likelihood.additive and problem.design.plain and whole:
        return _by_rows(problem, scores)
    return _by_blocks(problem, scores)


def _by_rows(problem: Any, scores: UnitScores) -> np.ndarray:
    """X' diag(r²) X, or with clusters Σ_c (Σ_{i in c} r_i x_i)(…)': a Hessian's form."""
    likelihood, design = problem.likelihood, problem.design
    backend = likelihood.backend
    _, r = likelihood.evaluate(scores.eta, scores.weights)
    rows = design.by_rows(np.arange(design.p), likelihood.order, backend)
    if scores.unit is None:
        return backend.to_host(hessian(rows, GroupedCurvature((r * r)[:, 0])))
    runs = np.append(scores.begin, len(scores.by))
    c = np.zeros(len(scores.by))
    c[runs[1:] - 1] = -1.0  # terms are taken out
    u = r[backend.asarray(scores.by), 0]
    curvature = GroupedCurvature(0.0 * r[:, 0], u, runs, c, scores.by)
    return backend.to_host(hessian(rows, curvature))


def _by_blocks(problem: Any, scores: UnitScores) -> np.ndarray:
    """Products of some columns' scores at a time."""
    p = problem.design.p
    blocks = [np.arange(a, min(a + COLUMNS, p)) for a in range(0, p, COLUMNS)]
    held: dict[int, np.ndarray] = {}

    def block(i: int) -> np.ndarray:
        if i not in held:
            D = np.zeros((p, len(blocks[i])))
            D[blocks[i], np.arange(len(blocks[i]))] = 1.0
            U = scores.along(D)
            if 8.0 * scores.size * COLUMNS * (len(held) + 1) > MOST:
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
    return B
