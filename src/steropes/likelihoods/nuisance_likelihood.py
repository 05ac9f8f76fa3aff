"""Likelihoods with nuisance parameters α in addition to η.

The thresholds of an ordinal model, or a baseline, are as numerous as the distinct outcomes and are
not columns of X. The loss is L(α, η). Each replicate has its own α, which moves with every step of
the coefficients. The solver works with L after α is eliminated from its quadratic model: with
g = ∂L/∂α, T = ∂²L/∂α² and C = ∂²L/∂α∂η,

    gradient in η  ∂L/∂η − C'T⁻¹g,    Hessian in η  ∂²L/∂η² − C'T⁻¹C,
    step of α for a step d of η  −T⁻¹(g + C d),

the joint Newton step. At an optimum g is zero, and the first is the gradient of the profile
likelihood. The Newton decrement of α measures its distance from the optimum given η; the
certificate includes it with the violations of the other conditions. α may be constrained (the
thresholds increase), so a step follows a path that satisfies the constraints.

Points belong to one replicate. The number of parameters differs between replicates, since an
outcome whose rows all have weight zero has no threshold.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ..backends.backend_interface import Array
from .hessian_structures import Curvature
from .likelihood_constants import NUISANCE
from .likelihood_interface import Bound, Likelihood
from .nuisance_interface import Nuisance, NuisancePoint
from .sharded_thresholds_interface import ShardedThresholds

__all__ = ["NuisanceLikelihood", "gone", "profiled"]


def gone(fall: float, loss: float, weight: float) -> bool:
    """Return whether the curvature is lost: α's Newton step predicts an impossible decrease.

    Parameters
    ----------
    fall : float
        g'T⁻¹g, the predicted decrease.
    loss : float
        The loss, an upper bound of the decrease.
    weight : float
        Total weight of the rows.
    """
    return not fall <= NUISANCE.max_decrease * (loss + weight)


class NuisanceLikelihood(Likelihood):
    """A likelihood with nuisance parameters.

    The methods of `Likelihood` (`evaluate`, `loss`, `curvature`) refer to the profile likelihood,
    with α fitted to the given η.
    """

    additive = False

    @abstractmethod
    def begin(self, eta: np.ndarray, w: np.ndarray, like: Nuisance | None = None) -> Nuisance:
        """Compute an initial α for linear predictors and row weights (n,) of one replicate.

        ``like`` holds the parameters of another replicate, whose optimum is expected to be close.
        """

    def thresholds_around(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the thresholds below and above the outcome of each row, (n,) each.

        −1 and K mean that there is none. The likelihood increases without bound along exactly
        those directions that order the rows by their thresholds. None if it always has a maximum.
        """
        return None

    def shard_thresholds(self, cuts: np.ndarray, columns: int) -> ShardedThresholds | None:
        """Return the exchange of sums by parameter for shards of the rows of X between ``cuts``.

        None if the likelihood has no such form or the sums are larger than the rows.
        """
        return None

    def evaluate(self, eta: Array, weights: Bound) -> tuple[Array, Array]:
        """Return the profiled loss, (B,), and its derivative in η, (n, B)."""
        points = self._profiled(eta, weights)
        losses = np.array([point.loss for point in points])
        return losses, np.stack([point.gradient() for point in points], axis=1)

    def loss(self, eta: Array, weights: Bound) -> Array:
        """Return the profiled loss alone, (B,)."""
        return np.array([point.loss for point in self._profiled(eta, weights)])

    def curvature(self, eta: Array, weights: Bound, exact: bool = False) -> Curvature:
        """Return the curvature of one replicate with α fitted to eta (n, 1)."""
        return self._profiled(eta, weights)[0].curvature()

    def score_residuals(self, eta: Array, weights: Bound, Z: Array) -> Array:
        """See `Likelihood.score_residuals`; for the profile likelihood."""
        nuisance = self._profiled(eta, weights)[0].nuisance
        return nuisance.score_residuals(np.ascontiguousarray(eta[:, 0]), Z)

    def _profiled(self, eta: Array, weights: Bound) -> list[NuisancePoint]:
        """Fit α to η for each replicate."""

        def one(b: int) -> NuisancePoint:
            e, w = (np.ascontiguousarray(x[:, b]) for x in (eta, weights))
            return profiled(self.begin(e, w).at(e), e)

        return self.backend.pool.map(one, [(b,) for b in range(eta.shape[1])])


def profiled(point: NuisancePoint, eta: np.ndarray) -> NuisancePoint:
    """Maximise the likelihood over α at fixed η (n,) by Newton's method."""
    still = np.zeros(len(eta))
    for _ in range(NUISANCE.max_steps):
        if not np.isfinite(point.loss) or point.unsettled <= NUISANCE.settled:
            break
        direction, t = point.direction(still), 1.0
        slack = NUISANCE.rounding * abs(point.loss)
        for _ in range(NUISANCE.max_halvings):
            new = point.nuisance.moved(direction, t).at(eta)
            if new.loss <= point.loss + slack:
                break
            t *= 0.5
        else:
            break
        done = new.loss >= point.loss - slack and new.unsettled >= 0.5 * point.unsettled
        point = new
        if done:  # further changes are rounding
            break
    return point
