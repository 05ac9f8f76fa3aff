"""Effective degrees of freedom of penalised fits."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ..fit import Problem
from ..priors import GroupPenalty, LimitedPenalty
from .information_matrix import Information

__all__ = ["degrees_of_freedom"]


def degrees_of_freedom(problem: Problem, beta: np.ndarray) -> float:
    """Compute the effective number of coefficients of a fit under the problem's prior.

    This is the number of coefficients that are nonzero or unpenalised (Zou, Hastie and Tibshirani
    2007, Annals of Statistics 35:2173) and not at a limit. If the prior has a smooth part over them
    it is tr[(H + P)⁻¹ H], with the information H and that part's second derivative P. For chains it
    is the number of nonzero steps (Tibshirani and Taylor 2011, Annals of Statistics 39:1335).

    Parameters
    ----------
    beta : (p,) array
        Coefficients in X's units, starting with the intercept, if any.
    """
    prior = problem.prior
    l1, l2 = problem.penalties(prior)
    active = (beta != 0) | ((l1 == 0) & (l2 == 0))
    joined = problem.group_penalty(prior)
    if joined is not None:
        return _of_group_penalty(problem, beta, joined, (l1, l2))
    if prior is None or prior.information_power or (prior.plain and not l2[active].any()):
        return float(active.sum())
    return _trace(*Information(problem, beta, l1, l2).hessian_parts())


def _of_group_penalty(
    problem: Problem,
    beta: np.ndarray,
    joined: GroupPenalty,
    penalties: tuple[np.ndarray, np.ndarray],
) -> float:
    """Compute the degrees of freedom under a group penalty, over the nonzero steps.

    If no group has several steps it is their number.
    """
    theta = joined.steps(beta[:, None])[:, 0]
    at = np.flatnonzero(joined.moves(theta))
    if isinstance(joined, LimitedPenalty):
        P = np.diag(joined.l2[at])
    else:
        P = joined.hessian(theta)[np.ix_(at, at)]
    if not P.any():
        return float(len(at))
    information = Information(problem, beta, *penalties)
    k, scale = information.columns, information.scale[information.columns]
    whole = np.zeros((len(beta), len(beta)))
    whole[np.ix_(k, k)] = information.hessian_parts()[0] * scale * scale[:, None]
    return _trace(joined.in_steps(whole)[np.ix_(at, at)], P)


def _trace(H: np.ndarray, P: np.ndarray) -> float:
    """Compute tr[(H + P)⁻¹ H]."""
    size = np.sqrt(np.diag(H) + np.diag(P))
    size = np.where(size > 0, size, 1.0)
    A = (H + P) / size / size[:, None]
    return float(np.trace(linalg.solve(A, H / size / size[:, None], assume_a="sym")))
