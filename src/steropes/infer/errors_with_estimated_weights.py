"""Standard errors by M-estimation, which account for weights that another model estimated.

A weighted estimate β depends on the coefficients γ of the model of its weights. The total influence
of a row is its own on β, plus its influence on γ times dβ/dγ = Σ_k ψ_k (∂ log w_k / ∂γ)' with the
influence ψ_k of row k on β, which is the derivative of β in log w_k. The sum of their outer
products is the sandwich of the stacked estimating equations of β and γ (Stefanski and Boos 2002).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from scipy import linalg

from ..errors import DataError
from ..fit import Problem
from .information_matrix import Information
from .score_contributions import UnitScores

__all__ = ["WeightModel", "check_weight_model", "influence_through_predictor", "summed_products"]


@runtime_checkable
class WeightModel(Protocol):
    """A model of the weights of rows, such as `steropes.designs.propensity.EstimatedWeights`."""

    @property
    def values(self) -> np.ndarray:
        """The weights, (n,)."""

    def influences(self, outcome: np.ndarray) -> np.ndarray:
        """Compute the influence of rows on other coefficients through the weights, (n, p).

        Parameters
        ----------
        outcome : (n, p) array
            Derivatives of the other coefficients in the logarithm of each row's weight.
        """


def check_weight_model(weight_model: object, problem: Problem) -> WeightModel:
    """Return a model of weights; refuse one whose weights are not those of the fit.

    The weights of the fit may be those of the model times a constant, and zero.
    """
    if not isinstance(weight_model, WeightModel):
        raise DataError(
            "weight_model must be the EstimatedWeights of steropes.studies, not "
            f"{type(weight_model).__name__}."
        )
    if problem.fold_together is not None:
        raise DataError(
            "weight_model is for models whose rows have weights of their own; this model "
            "compares the rows of a stratum with each other."
        )
    own, fitted = weight_model.values, np.asarray(problem.weights)
    if own.shape != fitted.shape:
        raise DataError(
            f"weight_model has {len(own)} rows and the fit {len(fitted)}. Fit all rows, with a "
            "weight of zero for those to leave out."
        )
    used = np.flatnonzero(fitted > 0)
    if (own[used] <= 0).any():
        row = int(used[own[used] <= 0][0])
        raise DataError(f"weight_model has a weight of zero in row {row}, which the fit uses.")
    ratio = fitted[used] / own[used]
    off = np.abs(ratio - np.median(ratio)) > 1e-6 * np.median(ratio)
    if off.any():
        row = int(used[off][0])
        raise DataError(
            f"The weight of row {row} in the fit is not that of weight_model: pass its values as "
            "sample_weight, possibly times one number."
        )
    return weight_model


def influence_through_predictor(
    problem: Problem, beta: np.ndarray, derivative: np.ndarray
) -> np.ndarray:
    """Compute the influence of rows on quantities that depend on a model's linear predictors.

    Parameters
    ----------
    problem, beta
        The model without a prior on its coefficients, (p,) in X's units.
    derivative : (rows of η, k) array
        Derivatives of the quantities in the linear predictors, in the order of X's rows.

    Returns
    -------
    (n, k) array
        The influence of each row on the coefficients times the derivative in the coefficients.
    """
    design, backend, k = problem.design, problem.likelihood.backend, derivative.shape[1]
    nothing = np.zeros(design.p)
    H = Information(problem, beta, nothing, nothing).H
    R = np.zeros((len(derivative), backend.lanes(k)))
    R[:, :k] = derivative
    by_coefficient = backend.to_host(design.rmatmul(backend.asarray(R), backend))[:, :k]
    size = np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
    try:
        solved = linalg.solve(
            H / size / size[:, None], by_coefficient / size[:, None], assume_a="sym"
        )
    except linalg.LinAlgError:
        raise DataError(
            "The information of the model of the weights is singular, so that errors cannot "
            "include its estimation. Remove collinear columns."
        ) from None
    return UnitScores(problem, beta).along(solved / size[:, None])


def summed_products(influences: np.ndarray, unit: np.ndarray | None) -> np.ndarray:
    """Compute the sum of outer products of influences, (p, p), summed within units first."""
    if unit is not None:
        summed = np.zeros((int(unit.max()) + 1, influences.shape[1]))
        np.add.at(summed, unit, influences)
        influences = summed
    return np.asarray(influences.T @ influences)
