"""Minimisation of a quadratic model with an elastic-net penalty and limits of the coordinates.

Sweeps of coordinate descent find which coordinates are zero or at a limit. They alternate with
projected Newton steps on the others (Bertsekas 1982, SIAM Journal on Control and Optimization
20:221–246).
"""

from __future__ import annotations

import numpy as np

from ...backends.cpu.descent.descent_within_limits import limited_sweeps
from ...priors import LimitedPenalty
from ..solver_constants import DEFAULT, GroupPenaltyPolicy
from .group_penalty_model import damped_step

__all__ = ["minimise_limited_model"]


def minimise_limited_model(
    H: np.ndarray, g: np.ndarray, beta: np.ndarray, penalty: LimitedPenalty, held: np.ndarray,
    unit: np.ndarray, tolerance: float, policy: GroupPenaltyPolicy = DEFAULT.group_penalty,
) -> np.ndarray:  # fmt: skip
    """Minimise g'd + ½ d'Hd + P(β + d) and return β + d, (k,).

    Parameters
    ----------
    H : (k, k) array
    g, beta : (k,) arrays
    penalty : LimitedPenalty
        P, for these coefficients.
    held : (k,) bool array
        Coefficients fixed at zero.
    unit, tolerance
        Iterations stop at a violation of tolerance × unit in each coordinate.
    """
    A = np.ascontiguousarray(H + np.diag(penalty.l2))
    theta = beta.copy()
    c = g + penalty.l2 * beta - A @ beta
    limits = penalty.l1, penalty.lower, penalty.upper
    for _ in range(policy.max_rounds):
        s = A @ theta + c
        limited_sweeps(A, s, theta, *limits, held, policy.sweeps)
        if _settled(A, c, theta, penalty, held, tolerance * unit):
            break
        theta = _newton_step(A, c, theta, penalty, held, policy.max_halvings)
        if _settled(A, c, theta, penalty, held, tolerance * unit):
            break
    return theta if np.isfinite(theta).all() else beta


def _settled(
    A: np.ndarray, c: np.ndarray, theta: np.ndarray, penalty: LimitedPenalty, held: np.ndarray,
    most: np.ndarray,
) -> bool:  # fmt: skip
    """Return whether the violations of the coordinates that may change are at most ``most``."""
    slope = A @ theta + c - penalty.l2 * theta
    v = penalty.violations(slope[:, None], theta[:, None])[:, 0]
    return not bool((v > most)[~held].any())


def _newton_step(
    A: np.ndarray, c: np.ndarray, theta: np.ndarray, penalty: LimitedPenalty, held: np.ndarray,
    halvings: int,
) -> np.ndarray:  # fmt: skip
    """Take a Newton step on coordinates that are neither zero nor at a limit, and project it.

    Coordinates that would cross zero or a limit stop there.
    """
    at = np.flatnonzero(penalty.moves(theta) & ~held)
    if not len(at):
        return theta
    slope = A @ theta + c + penalty.l1 * np.sign(theta)
    M = A[np.ix_(at, at)]
    step = damped_step(M, slope[at])
    if step is None:
        return theta

    def value(x: np.ndarray) -> float:
        return float(0.5 * x @ (A @ x) + c @ x + penalty.l1 @ np.abs(x))

    before, t = value(theta), 1.0
    for _ in range(halvings):
        now = theta.copy()
        now[at] += t * step
        now[(now * theta < 0) & (penalty.l1 > 0)] = 0.0
        now = penalty.within(now[:, None])[:, 0]
        if value(now) <= before:
            return now
        t *= 0.5
    return theta
