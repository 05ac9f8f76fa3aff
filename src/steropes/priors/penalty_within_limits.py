"""Elastic-net penalties of coefficients with lower and upper limits.

The penalty is Σ_j λ_j |β_j| + ½ κ_j β_j² for lower_j ≤ β_j ≤ upper_j. With the slope
s_j = g_j + κ_j β_j, where g is the gradient of the loss, the optimality (KKT) conditions are

    s_j + λ_j ∂⁺|β_j| ≥ 0  if β_j < upper_j,    s_j + λ_j ∂⁻|β_j| ≤ 0  if β_j > lower_j,

with the derivatives ∂⁺ and ∂⁻ of |β_j| from the right and from the left (Nocedal and Wright 2006,
section 16.7; Friedman, Hastie and Tibshirani 2010 for the penalty).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .group_and_fused_penalty import GroupPenalty

__all__ = ["LimitedPenalty"]


@dataclass(frozen=True)
class LimitedPenalty(GroupPenalty):
    """The penalty Σ_j λ_j |β_j| + ½ κ_j β_j² within limits, without groups or chains.

    Attributes
    ----------
    l2, lower, upper : (p,) arrays
        κ and the limits, which include zero.
    """

    l2: np.ndarray = field(kw_only=True)
    lower: np.ndarray = field(kw_only=True)
    upper: np.ndarray = field(kw_only=True)

    def shifted_by(self, n: int) -> LimitedPenalty:
        """Return the penalty with n coefficients without penalty and limits inserted in front."""
        none, never = np.zeros(n), np.full(n, np.inf)
        return LimitedPenalty(
            np.concatenate([none, self.l1]),
            l2=np.concatenate([none, self.l2]),
            lower=np.concatenate([-never, self.lower]),
            upper=np.concatenate([never, self.upper]),
        )

    def only(self, columns: np.ndarray) -> LimitedPenalty:
        """Return the penalty of some columns."""
        return LimitedPenalty(
            self.l1[columns],
            l2=self.l2[columns],
            lower=self.lower[columns],
            upper=self.upper[columns],
        )

    @property
    def limited(self) -> np.ndarray:
        """Whether each coefficient has a limit, (p,)."""
        return np.isfinite(self.lower) | np.isfinite(self.upper)

    def joins(self, columns: np.ndarray) -> bool:
        """Return whether one of the columns has a limit."""
        return bool(self.limited[columns].any())

    def within(self, beta: np.ndarray) -> np.ndarray:
        """Move coefficients, (p, B), to the nearest ones within the limits."""
        return np.clip(beta, self.lower[:, None], self.upper[:, None])

    def value(self, beta: np.ndarray) -> np.ndarray:
        """Compute Σ λ |β| + ½ Σ κ β², (B,)."""
        return (self.l1[:, None] * np.abs(beta) + 0.5 * self.l2[:, None] * beta * beta).sum(axis=0)

    def moves(self, theta: np.ndarray) -> np.ndarray:
        """Return which coefficients (p,) a small change of the data would change."""
        return super().moves(theta) & (self.lower < theta) & (theta < self.upper)

    def violations(self, g: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """Compute by how much the optimality conditions are violated, (p, B)."""
        lam, slope = self.l1[:, None], g + self.l2[:, None] * beta
        upwards = slope + np.where(beta >= 0, lam, -lam)
        downwards = slope + np.where(beta > 0, lam, -lam)
        too_low = np.where(beta < self.upper[:, None], -upwards, 0.0)
        too_high = np.where(beta > self.lower[:, None], downwards, 0.0)
        return np.maximum(np.maximum(too_low, too_high), 0.0)

    def hessian(self, theta: np.ndarray) -> np.ndarray:
        """Compute the second derivative diag(κ), (p, p)."""
        return np.diag(self.l2)
