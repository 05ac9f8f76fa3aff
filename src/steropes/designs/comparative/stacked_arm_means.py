"""Means of both treatments from a score and outcome models, with errors that include all models.

The estimating equations of the score, of the outcome model of each group and of the means are
stacked (Stefanski and Boos 2002). With the weight w of a person under the own treatment and the
outcome means m, the mean of a treatment is

    Σ_i [P_i m_i + 1(A_i = a) w_i (Y_i − m_i)] / Σ_i P_i    ("aipw")
    Σ_i P_i m_i / Σ_i P_i, where m is fitted with weights w    ("ipwra")

and its influence the sum of that with known models, of the outcome model's, and of the score's.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from steropes.design_matrix import Design
from steropes.designs.comparative.propensity_weights import PropensityWeights
from steropes.designs.doubly_robust.counterfactual_means import ArmMeans, People, population
from steropes.designs.doubly_robust.nuisance_models import GROUPS
from steropes.designs.values.estimands import AnyEstimand
from steropes.errors import DataError
from steropes.infer.errors_with_estimated_weights import influence_through_predictor
from steropes.models.estimators.linear_regression import LinearRegression
from steropes.models.estimators.logistic_regression import LogisticRegression
from steropes.models.estimators.poisson_regression import PoissonRegression
from steropes.models.repeated_fits.cross_fitting import cross_fit

__all__ = ["Stacked", "stacked_arm_means"]

Stacked = Literal["aipw", "ipwra"]


def stacked_arm_means(
    design: Design,
    people: People,
    weight_model: PropensityWeights,
    model: Any,
    estimand: AnyEstimand,
    method: Stacked,
    what: str,
) -> tuple[ArmMeans, NDArray]:
    """Estimate the means of both treatments; return them and everybody's outcome means, (n, 2).

    Parameters
    ----------
    design : Design
        Covariates of the outcome models.
    people : People
        All outcomes are observed.
    weight_model : PropensityWeights
        Weights of the same people.
    model : estimator
        Unfitted outcome model by maximum likelihood: linear, logistic or Poisson.
    what : str
        Name of the outcome model, for messages.
    """
    slope = _slope_of(model, what)
    inside, _ = population(people, weight_model.score_, estimand)
    share = people.weights / float(people.weights @ inside)
    w = np.divide(weight_model.weights_, people.weights, where=people.weights > 0,
                  out=np.zeros(len(share)))  # fmt: skip
    values = np.empty(2)
    means, pseudo, influence = np.empty((3, len(share), 2))
    for k, (name, arm) in enumerate(zip(GROUPS, (people.target, ~people.target), strict=True)):
        own = people.weights * (w if method == "ipwra" else 1.0)
        fit = cross_fit(
            model, design, people.y, arm & (own > 0), None, f"{what} of the {name}", own
        )
        m = fit.means[:, 0]
        residual = np.where(arm, w * (people.y - m), 0.0) * (method == "aipw")
        means[:, k], pseudo[:, k] = m, inside * m + residual
        values[k] = share @ pseudo[:, k]
        along = share * (inside - arm * w * (method == "aipw")) * slope(m)
        problem = fit.whole._require_data("stacked errors")
        of_model = influence_through_predictor(problem, fit.whole._beta, along[:, None])
        through_weights = of_model if method == "ipwra" else (share * residual)[:, None]
        influence[:, k] = (
            share * (pseudo[:, k] - inside * values[k])
            + (of_model + weight_model.influences(through_weights))[:, 0]
        )
    return ArmMeans(values, influence, pseudo), means


def _slope_of(model: Any, what: str) -> Any:
    """Return the derivative of means in the linear predictor, as a function of the means."""
    slopes = {
        LinearRegression: np.ones_like,
        LogisticRegression: lambda m: m * (1 - m),
        PoissonRegression: lambda m: m,
    }
    if type(model) not in slopes or cast(Any, model).prior is not None:
        raise DataError(
            f"Stacked errors need a {what} by maximum likelihood that is a LinearRegression, "
            "LogisticRegression or PoissonRegression without a prior; take errors='influence'."
        )
    return slopes[type(model)]
