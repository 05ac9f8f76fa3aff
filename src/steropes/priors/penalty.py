"""Penalties: a weighted sum of |β_j| and β_j², and smooth terms that couple coefficients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

__all__ = ["INFINITE_PENALTY", "Penalty", "SmoothTerm"]

# This λ keeps a coefficient at zero for any data and unit.
INFINITE_PENALTY = 1e200


@dataclass(frozen=True)
class Penalty:
    """A separable penalty: weights λ_j of |β_j| and κ_j of β_j²/2.

    Attributes
    ----------
    l1, l2 : (p,) arrays
        λ and κ in X's units.
    """

    l1: np.ndarray
    l2: np.ndarray

    def value(self, beta: np.ndarray) -> float:
        """Compute Σ λ_j |β_j| + ½ Σ κ_j β_j²."""
        return float((self.l1 * abs(beta)).sum() + 0.5 * (self.l2 * beta**2).sum())


class SmoothTerm(Protocol):
    """A differentiable term of the objective, which may couple coefficients.

    Coefficients are in X's units, (p, B) for B replicates, and the term may differ between
    replicates.
    """

    def value(self, beta: np.ndarray) -> np.ndarray:
        """Compute the term for each replicate, (B,)."""

    def gradient(self, beta: np.ndarray) -> np.ndarray:
        """Compute the derivative, (p, B). It must be exact, because the certificate uses it."""

    def hessian(self, beta: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Compute the contribution to the Hessian of one replicate, (k, k), at β (p,).

        The result covers ``columns``. It may omit a part of the second derivative, or all of it;
        the solver then converges more slowly. Negative eigenvalues, which a term that is not convex
        has in places, are modified for steps. Standard errors use the result as it is.
        """
