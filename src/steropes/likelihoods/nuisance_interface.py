"""Interface of nuisance parameters α of one replicate, and of its likelihood at α and η."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from .hessian_structures import ProfiledCurvature

__all__ = ["Nuisance", "NuisancePoint"]


class NuisancePoint(ABC):
    """One replicate's likelihood at α and η.

    Attributes
    ----------
    nuisance : Nuisance
        The parameters α.
    loss : float
        Negative log-likelihood.
    """

    nuisance: Nuisance
    loss: float

    @abstractmethod
    def gradient(self) -> np.ndarray:
        """Compute the derivative of the loss in η with α eliminated, ∂L/∂η − C'T⁻¹g, (n,)."""

    @property
    @abstractmethod
    def fall(self) -> float:
        """Squared Newton decrement g'T⁻¹g of α, the decrease that a step of α alone predicts."""

    @property
    def unsettled(self) -> float:
        """Newton decrement √(g'T⁻¹g / K): the distance of α from its optimum given η.

        It is measured in standard errors, averaged over all K parameters.
        """
        return float(np.sqrt(max(self.fall, 0.0) / max(self.nuisance.K, 1)))

    @property
    def usable(self) -> bool:
        """Whether a step may end here; False if too little curvature is left to continue."""
        return True

    @abstractmethod
    def direction(self, d_eta: np.ndarray) -> Any:
        """Compute the step of α for a step (n,) of η, as an argument of `Nuisance.moved`."""

    @abstractmethod
    def curvature(
        self, coarse: bool = False, positive: bool = False, magnitude: bool = False
    ) -> ProfiledCurvature:
        """Compute the curvature in η with α eliminated.

        Parameters
        ----------
        coarse : bool
            Whether an approximation that is sufficient for a step may be returned.
        positive : bool
            For a loss that is not convex, replace negative curvatures of rows by zero.
        magnitude : bool
            For such a loss, use the absolute values of the rows' curvatures.
        """


class Nuisance(ABC):
    """Immutable nuisance parameters α of one replicate."""

    @property
    @abstractmethod
    def K(self) -> int:
        """Number of parameters."""

    @abstractmethod
    def at(self, eta: np.ndarray) -> NuisancePoint:
        """Evaluate at linear predictors (n,) in the likelihood's order of the rows."""

    @abstractmethod
    def moved(self, direction: Any, t: float) -> Nuisance:
        """Move a fraction t along a direction of `NuisancePoint.direction` within the bounds."""

    def settled(self) -> Nuisance:
        """Drop parameters that have reached their bound permanently, after an accepted step."""
        return self

    def readmitted(self, eta: np.ndarray, tol: float) -> Nuisance | None:
        """Restore dropped parameters that would lower the loss at η; None if none would."""
        return None

    @abstractmethod
    def score_residuals(self, eta: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """Compute each row's contribution to the profile score along columns Z (n, L), (n, L).

        It is −∂ℓ_i/∂η z_i + (T⁻¹ C Z)'∂ℓ_i/∂α for the loss ℓ_i of row i.
        """

    @abstractmethod
    def score(self, eta: np.ndarray, weights: np.ndarray) -> float:
        """Compute the log-likelihood of rows with other weights (n,) at this α."""
