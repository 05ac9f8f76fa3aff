"""Robust (sandwich) covariances: the inverse information around the scores' outer products.

For unconditional models this is HC0 (White 1980; Huber 1967), by clusters if these are given (Liang
and Zeger 1986). The score of a partial likelihood is not a sum of terms of single rows; the
contribution of a row is w ∫ (x − x̄(t)) dM(t) (Lin and Wei 1989), which the likelihood computes for
any columns. For a likelihood that conditions on strata it is w (x − x̄) times the row's residual.
Clusters of whole strata need no x̄, because the residuals of a stratum add up to zero.
"""

from __future__ import annotations

import numpy as np

from ..errors import DataError
from ..fit import Problem
from ..likelihoods.hessian_structures import GroupedCurvature
from ..solve.hessian import hessian
from .bootstrap_draws import rows_across_clusters
from .inference_constants import BLOCKS
from .score_contributions import UnitScores

__all__ = ["refuse_single_unit", "robust_covariance", "score_products"]


def robust_covariance(
    problem: Problem, beta: np.ndarray, inverse: np.ndarray, cluster: np.ndarray | None = None
) -> np.ndarray:
    """Compute A'BA with the inverse information A and the sum B of outer products of the scores.

    Parameters
    ----------
    beta : (p,) array
        Coefficients in X's units.
    inverse : (p, P) array
        Inverse information in the scaled columns, times the map from scaled coefficients to the
        P coefficients of interest; see `Information.influence`.
    cluster : (n,) int array, optional
        Codes of clusters, within which scores are summed first.

    Returns
    -------
    (P, P) array

    References
    ----------
    White (1980), Econometrica 48:817–838. Liang and Zeger (1986), Biometrika 73:13–22.
    Lin and Wei (1989), JASA 84:1074–1078.
    """
    V = inverse.T @ score_products(problem, beta, cluster) @ inverse
    return 0.5 * (V + V.T)


def refuse_single_unit(unit: np.ndarray, weights: np.ndarray, order: np.ndarray | None) -> None:
    """Reject clusters or strata if only one of them has rows with weight.

    The scores of all units add up to zero at the optimum, so the score of a single unit is only
    rounding error.

    Parameters
    ----------
    unit : (n,) int array
        Codes of clusters or strata.
    weights : (n,) array
    order : array or None
        Rows that the model uses; None for all.
    """
    rows: slice | np.ndarray = slice(None) if order is None else order
    units = unit[rows][weights[rows] > 0]
    if not (units != units[:1]).any():
        raise DataError(
            "Robust errors measure how the scores of clusters, or of strata, differ from each "
            "other, and only one of them informs the coefficients: the errors would be zero. Use "
            "kind='model', or other clusters."
        )


def score_products(
    problem: Problem, beta: np.ndarray, cluster: np.ndarray | None = None
) -> np.ndarray:
    """Compute Σ U_i U_i' over rows or clusters, in the scaled columns, (p, p)."""
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


def _by_rows(problem: Problem, scores: UnitScores) -> np.ndarray:
    """Compute X' diag(r²) X, or Σ_c (Σ_{i in c} r_i x_i)(…)' with clusters, like a Hessian."""
    likelihood, design = problem.likelihood, problem.design
    backend = likelihood.backend
    _, r = likelihood.evaluate(scores.eta, scores.weights)
    rows = design.by_rows(np.arange(design.p), likelihood.order, backend)
    if scores.unit is None:
        return backend.to_host(hessian(rows, GroupedCurvature((r * r)[:, 0])))
    runs = np.append(scores.begin, len(scores.by))
    c = np.zeros(len(scores.by))
    c[runs[1:] - 1] = -1.0  # a `GroupedCurvature` subtracts its rank-one terms
    u = r[backend.asarray(scores.by), 0]
    curvature = GroupedCurvature(0.0 * r[:, 0], u, runs, c, scores.by)
    return backend.to_host(hessian(rows, curvature))


def _by_blocks(problem: Problem, scores: UnitScores) -> np.ndarray:
    """Compute the products of scores for one block of columns at a time."""
    p = problem.design.p
    blocks = [np.arange(a, min(a + BLOCKS.columns, p)) for a in range(0, p, BLOCKS.columns)]
    held: dict[int, np.ndarray] = {}

    def block(i: int) -> np.ndarray:
        """Compute the scores of a block of columns, kept in memory if they fit."""
        if i not in held:
            D = np.zeros((p, len(blocks[i])))
            D[blocks[i], np.arange(len(blocks[i]))] = 1.0
            U = scores.along(D)
            if 8.0 * scores.size * BLOCKS.columns * (len(held) + 1) > BLOCKS.max_score_bytes:
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
