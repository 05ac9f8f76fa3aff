"""BFGS updates of the shared Hessian from the steps of each replicate."""

from __future__ import annotations

import numpy as np

from ...backends.tall_reductions import column_sum
from ..subproblem import LowRank, QuadraticModel

__all__ = ["BfgsPairs"]

# The number of updates that a replicate keeps.
MOST_PAIRS = 12
LEAST = 1e-300  # curvature along a step that has a reciprocal
NOTHING = 1e-10  # of the curvature along a step's coordinates, where these cancel one another


class BfgsPairs:
    """BFGS pairs of each replicate, dropped when the Hessian that they go with is replaced."""

    def __init__(self) -> None:
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []  # steps, changes of the gradient
        self._terms: LowRank | None = None
        self._built = 0  # pairs that are among the terms
        self._version = -1  # of the working set

    def _check(self, version: int) -> None:
        if self._version != version:
            self._version = version
            self._drop(len(self.pairs))

    def _drop(self, count: int) -> None:
        self.pairs = self.pairs[count:]
        self._terms, self._built = None, 0

    def terms(self, version: int, model: QuadraticModel, sigma: np.ndarray) -> LowRank:
        """Return the terms beside a model, for replicates with factors σ (k, B)."""
        self._check(version)
        low = LowRank.none(*sigma.shape) if self._terms is None else self._terms
        for step, change in self.pairs[self._built :]:
            low = low + _bfgs(model, sigma, step, change, low)
        self._terms, self._built = low, len(self.pairs)
        return low

    def add(self, version: int, step: np.ndarray, change: np.ndarray, lanes: list[int]) -> None:
        """Keep steps (k, B) of some replicates with the changes of their gradients."""
        self._check(version)
        if len(self.pairs) >= MOST_PAIRS:  # the oldest ones were of another point
            self._drop(MOST_PAIRS // 2)
        s, y = np.zeros(step.shape), np.zeros(step.shape)
        s[:, lanes], y[:, lanes] = step[:, lanes], change[:, lanes]
        self.pairs.append((s, y))


def _bfgs(
    model: QuadraticModel, sigma: np.ndarray, step: np.ndarray, change: np.ndarray, low: LowRank
) -> LowRank:
    """Terms that make the Hessians agree with the change of the gradients along a step."""
    s, y = model.step(step, sigma), model.gradient(change, sigma)
    Hs = model.product(s, sigma) + low.product(s)
    sHs, sy = column_sum(s * Hs), column_sum(s * y)
    good = (sHs > LEAST) & (sy > np.maximum(1e-8 * sHs, LEAST))
    size = column_sum(s * s * np.abs(model.diagonal(sigma, low)))
    some = good & (sHs > NOTHING * size)  # else it is rounding, and there is none to take out
    c = [1 / np.where(good, sy, np.inf), -1 / np.where(some, sHs, np.inf)]
    return LowRank(np.stack([y, Hs]), np.stack(c))
