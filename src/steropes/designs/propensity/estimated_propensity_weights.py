"""Propensity weights whose standard errors include the estimation of the scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from steropes.data.html_representations import TextInHtml
from steropes.designs.propensity.balancing_weights import log_weight_slopes
from steropes.designs.propensity.probit_scores import ProbitScores
from steropes.designs.propensity.weights_by_estimand import STABILISED, focal_arm, weights_of_arms
from steropes.designs.values.estimands import AnyEstimand, check_estimand
from steropes.errors import DataError
from steropes.fit import Problem
from steropes.infer.baseline_hazard import fitted_state
from steropes.infer.errors_with_estimated_weights import influence_through_predictor
from steropes.infer.independent_row_scores import outcome_and_predictor
from steropes.models.cumulative.cumulative_probability_model import CumulativeProbabilityModel
from steropes.models.estimators.logistic_regression import LogisticRegression
from steropes.models.multinomial.multinomial_logistic_regression import (
    MultinomialLogisticRegression,
)

__all__ = ["EstimatedWeights"]

MODELS = (LogisticRegression, MultinomialLogisticRegression, CumulativeProbabilityModel)


class EstimatedWeights(TextInHtml):
    """Weights by the propensity scores of a fitted model, with their dependence on its estimates.

    Robust errors of a weighted model take its weights as known. Passed as ``weight_model`` to
    ``vcov``, ``summary`` or ``confint`` of that model, this object adds the influence of each row
    on the propensity model, as R's ``WeightIt::glm_weightit`` does (M-estimation). Errors of
    effects in everybody ("ate") usually become smaller, those in the treated may become larger.

    Parameters
    ----------
    model : LogisticRegression, MultinomialLogisticRegression or CumulativeProbabilityModel
        Propensity model of two or of several arms, fitted without a prior to all rows; the last
        one is for probit scores of two arms. Penalised estimates have a bias of the order of their
        errors, which influences do not include.
    estimand : {"att", "ate", "atc", "ato", "atm", "entropy"}, default "att"
        As in `propensity_weights`. With several arms "ate", "att" (in the arm ``focal``), "ato"
        (Li and Li 2019), "atm" or "entropy".
    stabilized : bool, default True
        As in `propensity_weights`; the shares of the arms count as estimates.
    largest : float, optional
        As in `propensity_weights`; truncated weights count as constant.
    focal : label, optional
        The arm in whose people effects are estimated, with several arms and "att".

    Attributes
    ----------
    values : ndarray, shape (n,)
        Weights in the order of the propensity model's rows, for ``sample_weight``. Multiply by
        zero to leave rows out.

    Raises
    ------
    DataError
        The model has a prior, or was unpickled without its data.

    References
    ----------
    Lunceford and Davidian (2004), Statistics in Medicine 23:2937–2960. Stefanski and Boos (2002),
    The American Statistician 56:29–38. Li and Li (2019), Annals of Applied Statistics
    13:2389–2415. Reifeis and Hudgens (2022), American Journal of
    Epidemiology 191:1092–1097.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> from steropes.designs.propensity import EstimatedWeights
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((500, 2))
    >>> treated = (rng.random(500) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    >>> y = (rng.random(500) < 1 / (1 + np.exp(1 - treated - X[:, 0]))).astype(int)
    >>> propensity = steropes.LogisticRegression().fit(X, treated)
    >>> weights = EstimatedWeights(propensity, "ate")
    >>> outcome = steropes.LogisticRegression()
    >>> outcome = outcome.fit(treated[:, None], y, sample_weight=weights.values)
    >>> outcome.summary()["se"].round(3).tolist()
    [0.149, 0.209]
    >>> outcome.summary(weight_model=weights)["se"].round(3).tolist()
    [0.138, 0.182]
    """

    def __init__(
        self,
        model: LogisticRegression | MultinomialLogisticRegression | CumulativeProbabilityModel,
        estimand: AnyEstimand = "att",
        *,
        stabilized: bool = True,
        largest: float | None = None,
        focal: object = None,
    ) -> None:
        several = isinstance(model, MultinomialLogisticRegression)
        if not isinstance(model, MODELS) or not model.__sklearn_is_fitted__():
            raise DataError(
                "The model of estimated weights must be a fitted LogisticRegression, "
                "MultinomialLogisticRegression or CumulativeProbabilityModel."
            )
        if model.prior_ is not None:
            raise DataError(
                "The propensity model has a prior, and errors with estimated weights are for "
                "maximum likelihood. Fit it with prior=None and few columns, or take robust errors "
                "with the weights as known: kind='robust'."
            )
        labels, scores, arm, chain, self._through = _of_model(model)
        name = check_estimand(estimand)
        code = focal_arm(name, labels, focal)
        self._values = weights_of_arms(
            scores, arm, name, stabilized=stabilized, largest=largest, focal=code
        )
        slopes = log_weight_slopes(scores, arm, name, code)
        constant = np.zeros(len(arm), bool) if largest is None else self._values >= largest
        # Derivatives of log weights in the rows of η: those of the one predictor or of each arm.
        slopes = np.where(constant[:, None], 0.0, slopes * chain)
        self._slopes = slopes if several else slopes[:, 1:]
        share = np.bincount(arm, minlength=scores.shape[1]) / len(arm)
        stabilised = stabilized and name in STABILISED
        # Derivatives of log weights in the log shares of the arms, and influences on these.
        by_share = np.eye(scores.shape[1])[arm] * float(stabilised)
        self._by_share = np.where(constant[:, None], 0.0, by_share)
        self._on_share = (np.eye(scores.shape[1])[arm] / share - 1.0) / len(arm)

    def __repr__(self) -> str:
        """Return the number of weights, without their values."""
        return f"<EstimatedWeights of {len(self._values)} rows>"

    @property
    def values(self) -> NDArray:
        """The weights, (n,)."""
        return self._values.copy()

    def influences(self, outcome: NDArray) -> NDArray:
        """Compute the influence of rows on other coefficients through the weights.

        Parameters
        ----------
        outcome : ndarray, shape (n, p)
            Derivatives of the other coefficients in the logarithm of each row's weight.

        Returns
        -------
        ndarray, shape (n, p)
            To be added to the influences with known weights.
        """
        total = self._on_share @ (self._by_share.T @ outcome)
        along = np.concatenate([slope[:, None] * outcome for slope in self._slopes.T])
        return np.asarray(total + self._through(along))


def _of_model(
    model: LogisticRegression | MultinomialLogisticRegression | CumulativeProbabilityModel,
) -> tuple[list[Any], NDArray, NDArray, NDArray, Callable[[NDArray], NDArray]]:
    """Return labels of arms, scores, arms, d logits / dη and influences through η."""
    if isinstance(model, CumulativeProbabilityModel):
        probit = ProbitScores(model)
        return [0, 1], probit.scores, probit.arm, probit.chain[:, None], probit.influences
    problem = model._require_data("estimated weights")
    scores, arm = _scores_and_arms(problem, model._beta)
    through = partial(influence_through_predictor, problem, model._beta)
    return list(model.classes_), scores, arm, np.ones((1, 1)), through


def _scores_and_arms(problem: Problem, beta: NDArray) -> tuple[NDArray, NDArray]:
    """Return the scores of all arms, (n, K), and the position of each person's arm, (n,)."""
    n = problem.design.n
    if problem.likelihood.n_eta == n:
        y, eta = outcome_and_predictor(problem, beta)
        score = expit(eta)
        return np.column_stack([expit(-eta), score]), (y == 1).astype(int)
    eta, _ = fitted_state(problem, beta)
    h = problem.likelihood.backend.to_host(eta)[:, 0].reshape(-1, n).T
    return softmax(h, axis=1), np.asarray(problem.fold_label)
