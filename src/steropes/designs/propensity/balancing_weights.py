"""Balancing weights of two or more arms by their propensity scores, and their derivatives.

With scores e_k of K arms, a person in arm a has the weight h(e) / e_a, where the tilting function h
states how much people with such scores count in the population of the estimand (Li and Li 2019).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

__all__ = ["balancing_weights", "log_weight_slopes"]


def balancing_weights(
    scores: NDArray, arm: NDArray, estimand: str, focal: int | None = None
) -> NDArray:
    """Compute h(e) / e_a for each person, (n,).

    Parameters
    ----------
    scores : ndarray, shape (n, K)
        Probabilities of the arms; those of a person add up to one.
    arm : ndarray of int, shape (n,)
        Position of each person's arm.
    estimand : {"ate", "att", "atu", "ato", "atm", "entropy"}
        h is 1, e of the arm ``focal`` under "att" and "atu", 1 / Σ 1/e_k, min e_k, and
        −Σ e_k log e_k.
    """
    own = scores[np.arange(len(arm)), arm]
    with np.errstate(divide="ignore", invalid="ignore"):
        if estimand == "ate":
            return np.asarray(1.0 / own)
        if estimand in ("att", "atu"):
            return np.where(arm == focal, 1.0, scores[:, focal] / own)
        if estimand == "ato":
            if scores.shape[1] == 2:
                return np.asarray(scores[np.arange(len(arm)), 1 - arm])
            return np.asarray(1.0 / (own[:, None] / scores).sum(axis=1))
        if estimand == "atm":
            return np.asarray(scores.min(axis=1) / own)
        return np.asarray(-xlogy(scores, scores).sum(axis=1) / own)


def log_weight_slopes(
    scores: NDArray, arm: NDArray, estimand: str, focal: int | None = None
) -> NDArray:
    """Compute the derivatives of log weights in the linear predictors of the arms, (n, K).

    The scores are exp η_k / Σ exp η, so that ∂ log e_j / ∂η_k = 1(j = k) − e_k.
    """
    K = scores.shape[1]
    own = np.eye(K)[arm]
    if estimand == "ate":
        tilt = np.zeros_like(scores)
    elif estimand in ("att", "atu"):
        tilt = np.eye(K)[np.full(len(arm), focal)] - scores
    elif estimand == "ato":
        inverse = 1.0 / scores
        tilt = inverse / inverse.sum(axis=1, keepdims=True) - scores
    elif estimand == "atm":
        tilt = np.eye(K)[scores.argmin(axis=1)] - scores
    else:
        parts = -xlogy(scores, scores)
        tilt = parts / parts.sum(axis=1, keepdims=True) - scores
    return np.asarray(tilt - (own - scores))
