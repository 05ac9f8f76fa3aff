"""Likelihoods with parameters of their own beside η, which every fit estimates along.

The thresholds of an ordinal model, or a baseline, are as many as the distinct outcomes, and none
of them is a column of X. With α for them the loss is L(α, η). Where the replicates are, so are
their α; a step of the coefficients takes the α along, and what the solver sees is L with α
eliminated from its quadratic model: with g = ∂L/∂α, T = ∂²L/∂α² and C = ∂²L/∂α∂η

    gradient in η  ∂L/∂η − C'T⁻¹g,    Hessian in η  ∂²L/∂η² − C'T⁻¹C,
    step of α for a step d of η  −T⁻¹(g + C d),

the step of Newton's method for both together. At an optimum g is zero, and the first is the
gradient of the profile likelihood. How far α is from its optimum given η is its Newton decrement,
which the certificate counts with the violations of the other conditions. α may be bounded (the
thresholds increase): a step goes along a path that stays inside.

All of it is of one replicate: α differ in number between replicates, since an outcome whose rows
all have no weight has no threshold.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from .base import Likelihood
from .curvature import AnyCurvature, ProfiledCurvature
from .sharded_thresholds import LevelExchange

__all__ = ["Nuisance", "NuisanceLikelihood", "NuisancePoint", "gone", "profiled"]

SETTLED = 1e-11  # decrement with which nuisance parameters are at their optimum given η
STEPS = 100
HALVINGS = 60
ROUNDING = 2e-14  # relative noise of a sum over rows
FLAT = 1e4  # of the loss and the weight: no step gains more


def gone(fall: float, loss: float, weight: float) -> bool:
    """Whether no curvature worth the name is left: α's Newton step promises more than there is.

    Parameters
    ----------
    fall : float
        g'T⁻¹g.
    loss : float
        Of which no more than all can be gained.
    weight : float
        Of all rows.
    """
    return not fall <= FLAT * (loss + weight)


class NuisancePoint(ABC):
    """One replicate's likelihood at α and η.

    Attributes
    ----------
    nuisance : Nuisance
        α.
    loss : float
    """

    nuisance: Nuisance
    loss: float

    @abstractmethod
    def gradient(self) -> np.ndarray:
        """Derivative of the loss in η with α eliminated, ∂L/∂η − C'T⁻¹g, (n,)."""

    @property
    @abstractmethod
    def fall(self) -> float:
        """g'T⁻¹g: the slope of the loss along the step that α alone would take."""

    @property
    def unsettled(self) -> float:
        """√(g'T⁻¹g / K): how far any function of α is from its optimum given η.

        In its own standard errors, for all K together.
        """
        return float(np.sqrt(max(self.fall, 0.0) / max(self.nuisance.K, 1)))

    @property
    def usable(self) -> bool:
        """Whether a step may end here: so far out that no curvature is left, none can go on."""
        return True

    @abstractmethod
    def direction(self, d_eta: np.ndarray) -> Any:
        """The step of α that goes with a step (n,) of η, for `Nuisance.moved`."""

    @abstractmethod
    def curvature(
        self, coarse: bool = False, positive: bool = False, magnitude: bool = False
    ) -> ProfiledCurvature:
        """The curvature in η with α eliminated.

        Parameters
        ----------
        coarse : bool
            Whether an approximation will do that is good enough for a step.
        positive : bool
            Of a loss that is not convex: one that is not negative in any row.
        magnitude : bool
            Of such a loss: with the curvature's absolute value, which no row is without.
        """


class Nuisance(ABC):
    """Nuisance parameters α of one replicate; never changed, only replaced."""

    @property
    @abstractmethod
    def K(self) -> int:
        """How many there are."""

    @abstractmethod
    def at(self, eta: np.ndarray) -> NuisancePoint:
        """Evaluate at linear predictors (n,) in the likelihood's order of the rows."""

    @abstractmethod
    def moved(self, direction: Any, t: float) -> Nuisance:
        """Go t along a direction of `NuisancePoint.direction`; bounds are kept."""

    def settled(self) -> Nuisance:
        """Where a step has ended here: without what has run into its bound for good."""
        return self

    def readmitted(self, eta: np.ndarray, tol: float) -> Nuisance | None:
        """With what had left but would lower the loss, at η; None where nothing would."""
        return None

    @abstractmethod
    def score_residuals(self, eta: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """The rows' parts of the score along columns Z (n, L) of η, α's eliminated: (n, L).

        −∂ℓ_i/∂η z_i + (T⁻¹ C Z)'∂ℓ_i/∂α for the loss ℓ_i of row i: what it adds to the
        profile likelihood's derivative.
        """

    @abstractmethod
    def score(self, eta: np.ndarray, weights: np.ndarray) -> float:
        """Log-likelihood of rows by weights (n,) of their own, α being what it is."""


class NuisanceLikelihood(Likelihood):
    """A likelihood with nuisance parameters.

    What other likelihoods are asked (`evaluate`, `loss`, `curvature`) is here of the profile
    likelihood: α is fitted to the η given.
    """

    additive = False

    @abstractmethod
    def begin(self, eta: np.ndarray, w: np.ndarray, like: Nuisance | None = None) -> Nuisance:
        """α to start from, for linear predictors and row weights (n,) of one replicate.

        ``like`` is another replicate's, at an optimum that is expected to be near.
        """

    def thresholds_around(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The thresholds below and above what each row says, (n,) each, where α are thresholds.

        −1 and K where there is none. The likelihood rises for ever along directions that order
        the rows by them, and no others; None where it always has a maximum.
        """
        return None

    def by_level(self, cuts: np.ndarray, columns: int) -> LevelExchange | None:
        """How blocks of rows of X, between cuts, make a step by sums for each of α.

        None where that is not so, or these are more numbers than there are rows.
        """
        return None

    def evaluate(self, eta: Any, weights: Any) -> tuple[Any, Any]:
        """Return the profiled loss, (B,), and its derivative in η, (n, B)."""
        points = self._profiled(eta, weights)
        losses = np.array([point.loss for point in points])
        return losses, np.stack([point.gradient() for point in points], axis=1)

    def loss(self, eta: Any, weights: Any) -> Any:
        """Return the profiled loss alone, (B,)."""
        return np.array([point.loss for point in self._profiled(eta, weights)])

    def curvature(self, eta: Any, weights: Any, exact: bool = False) -> AnyCurvature:
        """Return the curvature of one replicate with α fitted to eta (n, 1)."""
        return self._profiled(eta, weights)[0].curvature()

    def score_residuals(self, eta: Any, weights: Any, Z: Any) -> Any:
        """See `Likelihood.score_residuals`; of the profile likelihood."""
        nuisance = self._profiled(eta, weights)[0].nuisance
        return nuisance.score_residuals(np.ascontiguousarray(eta[:, 0]), Z)

    def _profiled(self, eta: Any, weights: Any) -> list[NuisancePoint]:
        def one(b: int) -> NuisancePoint:
            e, w = (np.ascontiguousarray(x[:, b]) for x in (eta, weights))
            return profiled(self.begin(e, w).at(e), e)

        return self.backend.pool.map(one, [(b,) for b in range(eta.shape[1])])


def profiled(point: NuisancePoint, eta: np.ndarray) -> NuisancePoint:
    """The point with α at its optimum given η (n,), by Newton's method."""
    still = np.zeros(len(eta))
    for _ in range(STEPS):
        if not np.isfinite(point.loss) or point.unsettled <= SETTLED:
            break
        direction, t = point.direction(still), 1.0
        slack = ROUNDING * abs(point.loss)
        for _ in range(HALVINGS):
            new = point.nuisance.moved(direction, t).at(eta)
            if new.loss <= point.loss + slack:
                break
            t *= 0.5
        else:
            break
        done = new.loss >= point.loss - slack and new.unsettled >= 0.5 * point.unsettled
        point = new
        if done:  # from here on rounding decides
            break
    return point
