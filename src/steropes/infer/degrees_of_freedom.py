"""Degrees of freedom of a penalised fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from ..priors import GroupPenalty
from .information_matrix import Information

__all__ = ["degrees_of_freedom"]


def degrees_of_freedom(problem: Any, beta: np.ndarray) -> float:
    """Effective number of coefficients at a fit under a problem's prior.

    The coefficients that are not zero and those without a prior (Zou, Hastie and Tibshirani 2007,
    Annals of Statistics 35:2173); where the prior has a smooth part over them, tr[(H + P)⁻¹ H] of
    the information H and that part's second derivative P. Of chains the steps that are not zero
    (Tibshirani and Taylor 2011, Annals of Statistics 39:1335).

    Parameters
    ----------
    problem : steropes.fit.Problem
        With the prior that was fitted under.
    beta : (p,) array
        In X's units, the intercept first where there is one.
    """
    prior = problem.prior
    l1, l2 = problem.penalties(prior)
    active = (beta != 0) | ((l1 == 0) & (l2 == 0))
    joined = problem.group_penalty(prior)
    if joined is not None:
        return _of_joined(problem, beta, joined, (l1, l2))
    if prior is None or prior.bounds_all or (prior.plain and not l2[active].any()):
        return float(active.sum())
    return _trace(*Information(problem, beta, l1, l2).parts())


def _of_joined(problem: Any, beta: np.ndarray, joined: GroupPenalty, penalties: Any) -> float:
    """The same in the steps that are not zero; of single ones it is their number."""
    theta = joined.steps(beta[:, None])[:, 0]
    at = np.flatnonzero((theta != 0) | (joined.l1 == 0))
    P = joined.hessian(theta)[np.ix_(at, at)]
    if not P.any():
        return float(len(at))
    information = Information(problem, beta, *penalties)
    k, scale = information.columns, information.scale[information.columns]
    whole = np.zeros((len(beta), len(beta)))
    whole[np.ix_(k, k)] = information.parts()[0] * scale * scale[:, None]
    return _trace(joined.in_steps(whole)[np.ix_(at, at)], P)


def _trace(H: np.ndarray, P: np.ndarray) -> float:
    """tr[(H + P)⁻¹ H]."""
    size = np.sqrt(np.diag(H) + np.diag(P))
    size = np.where(size > 0, size, 1.0)
    A = (H + P) / size / size[:, None]
    return float(np.trace(linalg.solve(A, H / size / size[:, None], assume_a="sym")))
