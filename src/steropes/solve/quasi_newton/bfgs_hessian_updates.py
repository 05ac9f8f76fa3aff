"""Updates of a shared Hessian by BFGS pairs of the steps of each replicate."""

from __future__ import annotations

import numpy as np

from ...backends.array_namespace import array_namespace, to_host
from ...backends.backend_interface import Array
from ...backends.elementwise_row_blocks import map_rows
from ...backends.reductions_of_tall_arrays import column_sum
from ...backends.thread_pool import ThreadPool
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
        self.pairs: list[tuple[Array, Array]] = []  # Steps and changes of the gradient.
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

    def terms(self, version: int, model: QuadraticModel, sigma: Array) -> LowRank:
        """Return the low-rank terms to add to a model, for replicates with factors σ (k, B).

        They are where σ is.
        """
        self._check(version)
        none = LowRank.none(sigma.shape[0], sigma.shape[1], array_namespace(sigma))
        low = none if self._terms is None else self._terms
        for pair in self.pairs[self._built :]:
            step, change = map(to_host, pair) if isinstance(sigma, np.ndarray) else pair
            low = low + _bfgs(model, sigma, step, change, low)
        self._terms, self._built = low, len(self.pairs)
        return low

    def add(
        self, version: int, D: Array, t: np.ndarray, old: Array, new: Array,
        lanes: list[int], pool: ThreadPool | None = None,
    ) -> None:  # fmt: skip
        """Add the steps of some replicates with the changes of their gradients.

        Parameters
        ----------
        version : int
            Of the Hessian and the working set.
        D, t : (k, B) and (B,) arrays
            Directions and step lengths.
        old, new : (k, B) arrays
            Gradients before and after the steps.
        """
        self._check(version)
        most = self.policy.max_bfgs_pairs
        if len(self.pairs) >= most:  # The oldest ones come from distant points.
            self._drop(most // 2)
        xp = array_namespace(D)
        some, length = xp.asarray(np.isin(np.arange(D.shape[1]), lanes)), xp.asarray(t)

        def pair(D: Array, old: Array, new: Array) -> tuple[Array, Array]:
            return xp.where(some, length * D, 0.0), xp.where(some, new - old, 0.0)

        step, change = map_rows(pool, pair, D, old, new)
        self.pairs.append((step, change))


def _bfgs(model: QuadraticModel, sigma: Array, step: Array, change: Array, low: LowRank) -> LowRank:
    """Return the two terms with which the Hessians reproduce the change of the gradients."""
    s, y = model.step(step, sigma), model.gradient(change, sigma)
    pool = model.shared.pool
    Hs = model.product(s, sigma) + low.product(s, pool)

    def parts(s: Array, y: Array, Hs: Array, h: Array) -> tuple[Array, ...]:
        return s * Hs, s * y, s * s * abs(h)

    products = map_rows(pool, parts, s, y, Hs, model.diagonal(sigma, low))
    sHs, sy, size = (column_sum(x) for x in products)
    good = (sHs > MIN_CURVATURE) & (sy > np.maximum(1e-8 * sHs, MIN_CURVATURE))
    some = good & (sHs > CANCELLED_SHARE * size)  # Otherwise there is no curvature to remove.
    c = [1 / np.where(good, sy, np.inf), -1 / np.where(some, sHs, np.inf)]
    return LowRank(array_namespace(y).stack([y, Hs]), np.stack(c))
