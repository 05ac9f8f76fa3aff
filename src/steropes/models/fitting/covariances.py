"""Covariance matrices of coefficients, and the priors under which there are none."""

from __future__ import annotations

import numpy as np

from ...errors import DataError
from ...fit import Problem
from ...infer import Information
from ...infer.bootstrap_draws import sampling_units
from ...infer.heteroscedasticity_consistent_covariance import (
    hc1_factor,
    heteroscedasticity_covariance,
)
from ...infer.jackknife import jackknife_covariance
from ...infer.robust_covariance import refuse_single_unit, robust_covariance
from ...likelihoods import IndependentRowsLikelihood
from ...priors import LimitedPrior, Prior

__all__ = [
    "CLUSTERED_KINDS",
    "corrected_covariance",
    "has_limits",
    "inverse_information",
    "sandwich_covariance",
    "shrinks_coefficients",
    "why_no_covariance",
]

# Kinds of errors that are defined by clusters.
CLUSTERED_KINDS = ("robust", "HC1", "jackknife")

NO_COVARIANCE = (
    "Under a Laplace prior (or another that sets coefficients to zero) there are no standard "
    "errors: shrunken estimates are not normally distributed, and those of unpenalised "
    "coefficients depend on which others are selected. Use confint(method='profile') or "
    "summary(kind='profile') for coefficients without a prior, and inference.bootstrap() for all."
)

NO_COVARIANCE_WITHIN_LIMITS = (
    "With limits of coefficients there are no standard errors: at a limit an estimate has no "
    "normal distribution (Self and Liang 1987), and the others depend on the limits that bind. Use "
    "inference.bootstrap(), or confint(method='profile') for columns without a prior and limits."
)


def has_limits(prior: Prior | None) -> bool:
    """Return whether a prior has limits of coefficients."""
    return isinstance(prior, LimitedPrior) and prior.limited


def why_no_covariance(prior: Prior | None) -> str:
    """Return the reason why there are no standard errors under a prior."""
    return NO_COVARIANCE_WITHIN_LIMITS if has_limits(prior) else NO_COVARIANCE


def shrinks_coefficients(prior: Prior, l1: np.ndarray, l2: np.ndarray) -> bool:
    """Return whether λ, or the weights of an adaptive prior, exclude standard errors."""
    # The weights of an adaptive prior depend on the estimates, which invalidates the Hessian.
    acts = (l1 > 0) | ((l2 > 0) if prior.adaptive else False)
    return bool(acts.any())


def inverse_information(problem: Problem, beta: np.ndarray, prior: Prior | None) -> np.ndarray:
    """Compute the inverse Hessian of the negative log-likelihood or log posterior, (p, p)."""
    return Information(problem, beta, *problem.penalties(prior)).vcov()


def sandwich_covariance(
    problem: Problem, beta: np.ndarray, prior: Prior | None, unit: np.ndarray | None
) -> np.ndarray:
    """Compute the robust covariance matrix.

    Parameters
    ----------
    problem : Problem
    beta : (p,) array
        Coefficients in the solver's parametrisation.
    prior : Prior or None
    unit : (n,) int array or None
        Codes of the clusters of rows.

    Returns
    -------
    (p, p) array
    """
    if unit is None or problem.likelihood.whole_strata:
        unit, _ = sampling_units(problem, unit)
    if unit is not None:
        refuse_single_unit(unit, problem.weights, problem.likelihood.order)
    influence = Information(problem, beta, *problem.penalties(prior)).influence()
    return robust_covariance(problem, beta, influence, unit)


def corrected_covariance(
    problem: Problem,
    beta: np.ndarray,
    prior: Prior | None,
    kind: str,
    unit: np.ndarray | None,
    tol: float,
    name: str,
) -> np.ndarray:
    """Compute HC0 to HC3 or the jackknife; refuse models and priors without them.

    Parameters
    ----------
    problem : Problem
    beta : (p,) array
        Coefficients in the solver's parametrisation.
    prior : Prior or None
    kind : {"HC0", "HC1", "HC2", "HC3", "jackknife"}
    unit : (n,) int array or None
        Codes of the clusters of rows.
    tol : float
        Largest KKT violation of the jackknife's fits.
    name : str
        Name of the model's class, for messages.

    Returns
    -------
    (p, p) array
    """
    if kind == "jackknife":
        unit, _ = sampling_units(problem, unit)
        return jackknife_covariance(problem, beta, *problem.penalties(prior), unit, tol)
    if prior is not None:
        raise DataError(
            f"kind={kind!r} is for maximum likelihood, because leverages under a prior are "
            "not those of the data. Use kind='robust' or 'jackknife', or fit with prior=None."
        )
    if kind == "HC1":
        V = sandwich_covariance(problem, beta, prior, unit)
        return V * hc1_factor(problem, problem.fold_together if unit is None else unit)
    likelihood = problem.likelihood
    if not isinstance(likelihood, IndependentRowsLikelihood) or not likelihood.additive:
        reason = (
            "give dispersion= to take it as known"
            if isinstance(likelihood, IndependentRowsLikelihood)
            else "rows contribute jointly, or have several linear predictors"
        )
        raise DataError(
            f"kind={kind!r} needs scores of single rows, which {name} does not have here "
            f"({reason}). Use kind='robust', or 'HC1' or 'jackknife', which correct for small "
            "samples."
        )
    if unit is not None:
        raise DataError(
            f"The formula has cluster(), for which {kind} is not defined; use kind='robust', "
            "'HC1' or 'jackknife'."
        )
    return heteroscedasticity_covariance(problem, beta, kind)
