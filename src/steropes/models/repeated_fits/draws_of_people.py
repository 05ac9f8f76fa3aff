"""Refits of fitted models to given draws of people, which start at the fit to all people."""

from __future__ import annotations

import numpy as np

from ...backends.blas_threads import single_threaded_blas
from ...data.interval_weights import IntervalWeights
from ...infer.bootstrap_draws import GivenDraws
from ...infer.inference_constants import BOOTSTRAP
from ...infer.refits_with_one_hessian import ChordSteps, fit_draws_by_chords
from ...likelihoods.pooled_logistic_likelihood import PooledLogisticLikelihood
from ..estimators.penalized_model import PenalizedModel
from ..estimators.pooled_logistic_regression import PooledLogisticRegression

__all__ = ["RefitsWithIntervalWeights", "refit_to_draws"]


@single_threaded_blas()
def refit_to_draws(model: PenalizedModel, times: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Fit a model again to draws of people, as replicates of one X.

    Parameters
    ----------
    model : estimator
        Fitted.
    times : (B, people) int array
        How often each draw contains each person.
    unit : (n,) int array
        Person of each row of the fit.

    Returns
    -------
    (B, q) array
        Coefficients, the intercept or the baseline first; not finite for draws without a finite
        maximum.
    """
    problem = model._require_replicable("refits")
    draws = GivenDraws(problem.weights, unit, times)
    fits = fit_draws_by_chords(problem, model._beta, draws)
    return np.where(fits.converged[:, None], fits.coef, np.nan)


class RefitsWithIntervalWeights:
    """Refits of a pooled logistic model with other weights, which share its Hessian.

    Parameters
    ----------
    model : PooledLogisticRegression
        Fitted without a prior.
    """

    @single_threaded_blas()
    def __init__(self, model: PooledLogisticRegression) -> None:
        self._problem = model._require_replicable("refits")
        self._steps = ChordSteps(self._problem, model._beta)

    @single_threaded_blas()
    def fit(self, weights: np.ndarray, interval_weights: IntervalWeights) -> np.ndarray:
        """Fit with row weights (n,) and weights of intervals, and return the coefficients (q,).

        They are NaN if there is no certified optimum.
        """
        likelihood = self._problem.likelihood
        assert isinstance(likelihood, PooledLogisticLikelihood)
        problem = self._problem.with_likelihood(likelihood.with_interval_weights(interval_weights))
        batch = problem.batch(weights[:, None], 1, self._steps.common)
        beta, violation = self._steps.solve(batch, BOOTSTRAP.tol)
        if not violation[0] <= BOOTSTRAP.tol:
            batch = problem.batch(weights[:, None])
            batch.start_at(self._steps.start)
            fit = batch.solve(*problem.penalties(None), tol=BOOTSTRAP.tol, look="after")[0]
            if not fit.converged:
                return np.full(len(fit.beta), np.nan)
            beta = (fit.beta * problem.design.scale)[:, None]
        return problem.design.uncentered_coefficients(beta[:, 0] / problem.design.scale)
