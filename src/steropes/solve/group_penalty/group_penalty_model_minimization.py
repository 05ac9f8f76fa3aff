"""Minimisation of a quadratic model with norms of groups of coordinates.

Sweeps of block coordinate descent find which groups are zero. They alternate with Newton steps on
the others, where the objective is smooth and sweeps are slow.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from ...backends.cpu.descent.group_descent import group_sweeps
from ...priors import GroupPenalty
from ..solver_constants import DEFAULT, GroupPenaltyPolicy

__all__ = ["damped_step", "minimise_group_model"]

# This ridge, relative to a unit diagonal, makes a semidefinite matrix positive definite.
DEFINITE_RIDGE = 1e-13


# Eigenvalues of the group's block of the Hessian are accurate to the rounding error of the largest,
# which destroys those of columns in small units. A factor of the block, scaled to a unit diagonal,
# loses nothing.
# At this ratio of diagonal entries eigenvalues have lost half of their digits.
ILL_SCALED = 1e8


def is_ill_scaled(h: np.ndarray) -> bool:
    """Return whether the diagonal (m,) of a group's block is too uneven for eigenvalues."""
    return bool(h.min() > 0 and h.max() > ILL_SCALED * h.min())


def group_minimum(H: np.ndarray, s: np.ndarray, theta: np.ndarray, lam: float) -> np.ndarray:
    """Minimise the quadratic with slope s at θ and Hessian H, plus λ‖θ‖, over θ (m,).

    Where θ ≠ 0 it solves (H + λ/ρ) θ = −r, with r the slope at zero and ρ its norm. The ratio of
    the solution's norm to ρ decreases with ρ, which is found by bisection.
    """
    r = s - H @ theta
    size = float(np.linalg.norm(r))
    if size <= lam:
        return np.zeros(len(r))
    h = np.diag(H)

    def at(rho: float) -> np.ndarray:
        root = np.sqrt(h + lam / rho)
        M = H / root / root[:, None]
        M[np.diag_indices(len(r))] = 1.0
        return -linalg.cho_solve(linalg.cho_factor(M), r / root) / root

    try:
        # (size − λ) / trace ≤ ρ, as H's largest eigenvalue is below its trace
        low = np.log((size - lam) / h.sum())
        high = low + 1.0
        while np.linalg.norm(at(np.exp(high))) > np.exp(high):
            low, high = high, high + 2.0 * (high - low)
        for _ in range(200):  # It ends earlier if no double lies between.
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            if np.linalg.norm(at(np.exp(middle))) > np.exp(middle):
                low = middle
            else:
                high = middle
        return at(np.exp(high))
    except linalg.LinAlgError:
        return theta


def minimise_group_model(
    H: np.ndarray, g: np.ndarray, beta: np.ndarray, penalty: GroupPenalty, held: np.ndarray,
    unit: np.ndarray, tolerance: float, policy: GroupPenaltyPolicy = DEFAULT.group_penalty,
) -> np.ndarray:  # fmt: skip
    """Minimise g'd + ½ d'Hd + P(β + d) and return β + d, (k,).

    Parameters
    ----------
    H : (k, k) array
    g, beta : (k,) arrays
    penalty : GroupPenalty
        P, for these coefficients.
    held : (k,) bool array
        Coefficients fixed at zero; of a chain all or none.
    unit, tolerance
        Iterations stop at a violation of tolerance × unit in each coordinate.
    """
    A = penalty.in_steps(H)
    theta = penalty.steps(beta[:, None])[:, 0]
    start = theta.copy()
    s0 = penalty.slopes(g[:, None])[:, 0]
    c = s0 - A @ theta
    blocks = _Blocks(A, penalty, held)
    s = s0.copy()
    for _ in range(policy.max_rounds):
        group_sweeps(A, s, theta, *blocks.arrays, policy.sweeps)
        for x, lam in blocks.ill_scaled:
            theta[x] = group_minimum(A[np.ix_(x, x)], A[x] @ theta + c[x], theta[x], lam)
        s = A @ theta + c
        v = blocks.violations(s, theta)
        if not (v > tolerance * unit).any():
            break
        theta = _newton_step(A, c, theta, penalty, held, policy.max_halvings)
        s = A @ theta + c
        v = blocks.violations(s, theta)
        if not (v > tolerance * unit).any():
            break
    if not np.isfinite(theta).all():
        return penalty.coefficients(start[:, None])[:, 0]
    return penalty.coefficients(theta[:, None])[:, 0]


class _Blocks:
    """The groups in the form that the kernel takes, including those of one coordinate."""

    def __init__(self, A: np.ndarray, penalty: GroupPenalty, held: np.ndarray) -> None:
        alone = ~held
        groups = [x[~held[x]] for x in penalty.groups]
        for x in penalty.groups:
            alone[x] = False
        several = [x for x in groups if len(x) > 1]
        ill_scaled = [x for x in several if is_ill_scaled(A[x, x])]
        self.ill_scaled = [(x, float(penalty.l1[x[0]])) for x in ill_scaled]
        groups = [x for x in groups if not any(x is y for y in ill_scaled)]
        self.groups = [x for x in groups if len(x)] + [np.array([j]) for j in np.flatnonzero(alone)]
        self.lam = np.array([penalty.l1[x[0]] for x in self.groups])
        index = np.concatenate([*self.groups, np.empty(0, np.int64)]).astype(np.int64)
        size = np.array([len(x) for x in self.groups], np.int64)
        pointers = np.concatenate([[0], np.cumsum(size)])
        by_values = [x for x in self.groups if len(x) > 1]
        values, vectors = np.zeros(len(index)), []
        for i, x in enumerate(by_values):  # Groups come first.
            w, V = linalg.eigh(A[np.ix_(x, x)])
            values[pointers[i] : pointers[i + 1]] = np.maximum(w, 0.0)
            vectors.append(V.ravel())
        starts = np.concatenate([[0], np.cumsum(np.where(size > 1, size**2, 0))])
        flat = np.concatenate([*vectors, np.empty(0)])
        self.arrays = (index, pointers, values, flat, starts, self.lam)
        self.some = GroupPenalty(np.where(held, 0.0, penalty.l1), tuple(x for x in several))
        self.held = held

    def violations(self, s: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """Compute violations of the conditions in the steps; zero for fixed coefficients."""
        v = self.some.violations(np.where(self.held, 0.0, s)[:, None], theta[:, None])[:, 0]
        return np.where(self.held, 0.0, v)


def damped_step(M: np.ndarray, slope: np.ndarray) -> np.ndarray | None:
    """Solve M step = −slope with a small ridge on M, (k,); None if M is indefinite."""
    root = np.sqrt(np.where(np.diag(M) > 0, np.diag(M), 1.0))
    M = M / root / root[:, None]
    M[np.diag_indices(len(M))] += DEFINITE_RIDGE
    try:
        return -linalg.cho_solve(linalg.cho_factor(M), slope / root) / root
    except linalg.LinAlgError:
        return None


def _newton_step(
    A: np.ndarray, c: np.ndarray, theta: np.ndarray, penalty: GroupPenalty, held: np.ndarray,
    halvings: int,
) -> np.ndarray:  # fmt: skip
    """Take a Newton step on nonzero groups; single coefficients may not cross zero."""
    plain = GroupPenalty(penalty.l1, penalty.groups)
    size = plain.norms(theta[:, None])[:, 0]
    at = np.flatnonzero(((size > 0) | (plain.l1 == 0)) & ~held)
    if not len(at):
        return theta
    slope = A @ theta + c + plain.l1 * theta / np.where(size > 0, size, 1.0)
    M = A[np.ix_(at, at)] + plain.hessian(theta)[np.ix_(at, at)]
    step = damped_step(M, slope[at])
    if step is None:
        return theta
    single = np.ones(len(theta), bool)
    for x in penalty.groups:
        single[x] = False

    def value(x: np.ndarray) -> float:
        return float(0.5 * x @ (A @ x) + c @ x + plain.value(x[:, None])[0])

    before, t = value(theta), 1.0
    crossing = single[at] & (plain.l1[at] > 0)
    for _ in range(halvings):
        now = theta.copy()
        now[at] += t * step
        over = crossing & (now[at] * theta[at] < 0)
        now[at[over]] = 0.0
        if value(now) <= before:
            return now
        t *= 0.5
    return theta
