"""The Laplace prior of nuisance models: a given variance, or one chosen by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steropes.priors import Laplace
from steropes.select import CrossValidation

__all__ = ["LassoSettings"]


@dataclass(frozen=True)
class LassoSettings:
    """How the variance of a Laplace prior is chosen.

    Attributes
    ----------
    variance : float or None
        A given variance.
    folds, repeats, seed : int
        Those of a cross-validation otherwise.
    """

    variance: float | None
    folds: int
    repeats: int
    seed: int

    def of_model(self, rarer: int) -> dict[str, Any] | None:
        """Return the arguments ``prior`` and ``cv`` of a model; None if it cannot be validated.

        Parameters
        ----------
        rarer : int
            The number of people of the rarer class, each of whom a fold needs one of.
        """
        if self.variance is not None:
            return {"prior": Laplace(variance=self.variance), "cv": None}
        if rarer < 2:
            return None
        folds = min(self.folds, rarer)
        return {
            "prior": Laplace(),
            "cv": CrossValidation(folds=folds, repeats=self.repeats, random_state=self.seed),
        }
