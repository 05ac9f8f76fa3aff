"""BFGS updates of the shared Hessian from the steps of each replicate."""

from __future__ import annotations

import numpy as np

from ...backends.tall_reductions import column_sum
from ..solver_constants import DEFAULT, HessianPolicy
from ..subproblem import LowRank, QuadraticModel

__all__ = ["BfgsPairs"]

# Curvatures along a step below this have no finite reciprocal.
MIN_CURVATURE = 1e-300
# Below this share of the coordinates' own curvature, that along a step is rounding error.
CANCELLED_SHARE = 1e-10


class BfgsPairs:
    """BFGS pairs of each replicate, dropped when the Hessian that they update is replaced."""

    def __init__(self, policy: HessianPolicy = DEFAULT.hessian) -> None:
        self.policy = policy
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []  # Steps and changes of the gradient.
        self._terms: LowRank | None = None
        self._built = 0  # Number of pairs that the terms include.
        self._version = -1  # Of the working set.

    def _check(self, version: int) -> None:
        """Drop all pairs if they belong to another version of the Hessian."""
        if self._version != version:
            self._version = version
            self._drop(len(self.pairs))

    def _drop(self, count: int) -> None:
        """Drop the oldest pairs."""
        self.pairs = self.pairs[count:]
        self._terms, self._built = None, 0

    def terms(self, version: int, model: QuadraticModel, sigma: np.ndarray) -> LowRank:
        """Return the low-rank terms to add to a model, for replicates with factors σ (k, B)."""
        self._check(version)
        low = LowRank.none(*sigma.shape) if self._terms is None else self._terms
        for step, change in self.pairs[self._built :]:
            low = low + _bfgs(model, sigma, step, change, low)
        self._terms, self._built = low, len(self.pairs)
        return low

    def add(self, version: int, step: np.ndarray, change: np.ndarray, lanes: list[int]) -> None:
        """Add the steps (k, B) of some replicates with the changes of their gradients."""
        self._check(version)
        most = self.policy.max_bfgs_pairs
        if len(self.pairs) >= most:  # The oldest ones come from distant points.
            self._drop(most // 2)
        s, y = np.zeros(step.shape), np.zeros(step.shape)
        s[:, lanes], y[:, lanes] = step[:, lanes], change[:, lanes]
        self.pairs.append((s, y))


def _bfgs(
    model: QuadraticModel, sigma: np.ndarray, step: np.ndarray, change: np.ndarray, low: LowRank
) -> LowRank:
    """Return the two terms with which the Hessians reproduce the change of the gradients."""
    s, y = model.step(step, sigma), model.gradient(change, sigma)
    Hs = model.product(s, sigma) + low.product(s)
    sHs, sy = column_sum(s * Hs), column_sum(s * y)
    good = (sHs > MIN_CURVATURE) & (sy > np.maximum(1e-8 * sHs, MIN_CURVATURE))
    size = column_sum(s * s * np.abs(model.diagonal(sigma, low)))
    some = good & (sHs > CANCELLED_SHARE * size)  # Otherwise there is no curvature to remove.
    c = [1 / np.where(good, sy, np.inf), -1 / np.where(some, sHs, np.inf)]
    return LowRank(np.stack([y, Hs]), np.stack(c))
