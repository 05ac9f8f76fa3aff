"""Cross-fitted models of the treatment, of outcomes by group, and of whether they are observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steropes.design_matrix import Design
from steropes.errors import DataError
from steropes.models.estimators.penalized_model import PenalizedModel
from steropes.models.repeated_fits.cross_fitting import cross_fit
from steropes.select.folds import make_folds

__all__ = ["GROUPS", "CrossFitting", "folds_of_people"]

GROUPS = ("target", "comparator")


def folds_of_people(
    label: NDArray, clusters: NDArray | None, folds: int, repeats: int, seed: int
) -> NDArray | None:
    """Assign people to folds with even classes and whole clusters, (n, repeats).

    Parameters
    ----------
    label : ndarray of int, shape (n,)
        Classes, such as the treatment.
    clusters : ndarray of int, shape (n,), or None
        Codes of clusters.
    folds : int
        1 for none.
    """
    if folds == 1:
        return None
    try:
        return make_folds(folds, repeats, label, clusters, len(label), seed)
    except DataError as error:
        raise DataError(str(error).replace("strata or groups", "clusters")) from error


@dataclass(frozen=True, repr=False)
class CrossFitting:
    """Fits of nuisance models that share covariates, people and folds.

    Attributes
    ----------
    X : data frame, array, sparse matrix or Design, shape (n, p)
        As the user gave it, for models of other libraries.
    design : Design
        The same as columns, for models of steropes.
    target : ndarray of bool, shape (n,)
    fold : ndarray of int, shape (n, repeats), or None
    weights : ndarray, shape (n,), or None
        Weights of people.
    """

    X: Any
    design: Design
    target: NDArray
    fold: NDArray | None
    weights: NDArray | None

    def score(self, model: Any) -> tuple[NDArray, Any]:
        """Fit the treatment; return scores, (n, repeats), and the fit to everybody."""
        everybody = np.ones(len(self.target), dtype=bool)
        fit = self._fit(model, self.target.astype(float), everybody, "model of the treatment")
        return fit

    def by_group(self, model: Any, y: NDArray, rows: NDArray, what: str) -> NDArray:
        """Fit a model in each group, and predict for everybody.

        Parameters
        ----------
        y : ndarray, shape (n,)
        rows : ndarray of bool, shape (n,)
            People with a known y.
        what : str
            Name of the model for messages.

        Returns
        -------
        ndarray, shape (n, 2, repeats)
            Means as members of the target and of the comparator.
        """
        both = []
        for name, group in zip(GROUPS, (self.target, ~self.target), strict=True):
            part = group & rows
            if not part.any():
                raise DataError(f"The {what} has no people of the {name} to be fitted to.")
            both.append(self._fit(model, y, part, f"{what} of the {name}")[0])
        return np.stack(both, axis=1)

    def _fit(self, model: Any, y: NDArray, part: NDArray, what: str) -> tuple[NDArray, Any]:
        """Fit one model by folds."""
        X = self.design if isinstance(model, PenalizedModel) else self.X
        found = cross_fit(model, X, y, part, self.fold, what, self.weights)
        return found.means, found.whole
