"""Covariances that allow for unequal variances, HC0 to HC3, in models with independent rows.

All are A B A with the inverse information A and B = Σ f_i r_i² x_i x_i', where r_i is the
derivative of row i's log-likelihood in η, times its weight. They differ in f_i, which corrects for
the fact that residuals of a fit are smaller than errors. With the leverage h_i = w_i v_i x_i' A
x_i, n rows with weight and k coefficients it is 1 (HC0), n / (n − k) (HC1), 1 / (1 − h_i) (HC2) or
1 / (1 − h_i)² (HC3), as in R's ``sandwich::vcovHC``.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import linalg

from ..errors import DataError
from ..fit import Problem
from ..likelihoods.hessian_structures import GroupedCurvature
from ..solve.hessian import hessian
from .baseline_hazard import fitted_state
from .inference_constants import BLOCKS, IDENTIFICATION
from .information_matrix import Information

__all__ = ["HC_KINDS", "hc1_factor", "heteroscedasticity_covariance", "leverages"]

# Kinds of covariances, as literal types for type checkers.
HC_KINDS: tuple[Literal["HC0"], Literal["HC1"], Literal["HC2"], Literal["HC3"]] = (
    "HC0",
    "HC1",
    "HC2",
    "HC3",
)


def heteroscedasticity_covariance(problem: Problem, beta: np.ndarray, kind: str) -> np.ndarray:
    """Compute HC0 to HC3 of all coefficients in X's units, (p, p).

    Parameters
    ----------
    problem : steropes.fit.Problem
        A problem without penalties, with a likelihood of independent rows.
    beta : (p,) array
        Coefficients in X's units.
    kind : {"HC0", "HC1", "HC2", "HC3"}

    Raises
    ------
    DataError
        With "HC2" or "HC3" if a row has a leverage of one; with "HC1" if there are no more rows
        than coefficients.

    References
    ----------
    White (1980), Econometrica 48:817–838. MacKinnon and White (1985), Journal of Econometrics
    29:305–325. Zeileis (2004), Journal of Statistical Software 11(10); (2006) 16(9).
    """
    likelihood, design = problem.likelihood, problem.design
    backend = likelihood.backend
    zero = np.zeros(design.p)
    information = Information(problem, beta, zero, zero)
    eta, weights = fitted_state(problem, beta)
    squares = backend.to_host(likelihood.evaluate(eta, weights)[1])[:, 0] ** 2
    used = problem.weights > 0
    if kind == "HC1":
        squares = squares * hc1_factor(problem, None)
    elif kind in ("HC2", "HC3"):
        h = leverages(problem, information)
        if (h[used] > IDENTIFICATION.whole_leverage).any():
            row = int(np.flatnonzero(used & (h > IDENTIFICATION.whole_leverage))[0])
            raise DataError(
                f"Row {row} alone determines a coefficient (its leverage is one), so that {kind} "
                "is not defined. Leave out the row and the column that only it has, or use HC1."
            )
        left = np.where(used, 1.0 - h, 1.0)
        squares = squares / (left if kind == "HC2" else left**2)
    rows = design.by_rows(np.arange(design.p), likelihood.order, backend)
    B = backend.to_host(hessian(rows, GroupedCurvature(backend.asarray(squares))))
    influence = information.influence()
    V = influence.T @ B @ influence
    return np.asarray(0.5 * (V + V.T))


def hc1_factor(problem: Problem, unit: np.ndarray | None) -> float:
    """Compute n / (n − k), or by units G / (G − 1) · (n − 1) / (n − k), of robust covariances.

    Parameters
    ----------
    unit : (n,) int array or None
        Codes of clusters or strata; None for rows.

    Raises
    ------
    DataError
        If there are no more rows with weight than coefficients.

    References
    ----------
    Zeileis, Köll and Graham (2020), Journal of Statistical Software 95(1), for clusters.
    """
    used = problem.weights > 0
    n, k = int(used.sum()), problem.design.p
    if n <= k:
        raise DataError(f"HC1 needs more rows with weight ({n}) than coefficients ({k}).")
    if unit is None:
        return n / (n - k)
    G = len(np.unique(unit[used]))
    return G / (G - 1) * (n - 1) / (n - k)


def leverages(problem: Problem, information: Information) -> np.ndarray:
    """Compute the leverage of each row, w v x' A x, (n,).

    They add up to the number of coefficients.

    Parameters
    ----------
    information : Information
        That of all columns.
    """
    likelihood, design = problem.likelihood, problem.design
    backend = likelihood.backend
    H = np.asarray(information.H)
    size = np.sqrt(np.diag(H))
    try:
        L = linalg.cholesky(H / size / size[:, None], lower=True)
    except linalg.LinAlgError:
        raise DataError(
            "There are no leverages, because the information matrix is singular. Remove collinear "
            "columns."
        ) from None
    root = linalg.solve_triangular(L, np.eye(len(H)), lower=True).T / size[:, None]
    total = np.zeros(design.n)
    for a in range(0, len(H), BLOCKS.columns):
        part = root[:, a : a + BLOCKS.columns]
        D = np.zeros((design.p, backend.lanes(part.shape[1])))
        D[:, : part.shape[1]] = part
        total += (backend.to_host(design.matmul(D, backend)) ** 2).sum(axis=1)
    v = likelihood.curvature(information.eta, information.weights, exact=True).v
    return total * backend.to_host(v)
