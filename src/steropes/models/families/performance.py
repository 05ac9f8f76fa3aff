"""Measures of predictive performance of linear predictors, by family."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from ...data import check_classes, check_weights
from ...data.input_types import VectorLike
from ...data.survival_outcome import Surv, SurvivalOutcome
from ...design import null_design
from ...errors import DataError, SeparationError
from ...fit import Problem
from ...infer.concordance import concordance_index
from ...infer.response_moments import GammaResponse, null_predictor
from ...infer.rounding_ties import merge_rounding_ties
from ...likelihoods import CoxLikelihood, FineGrayLikelihood
from ...likelihoods.cumulative import CumulativeLikelihood
from ...likelihoods.independent_rows import IndependentRowsLikelihood
from ...likelihoods.multinomial_likelihood import MultinomialLikelihood
from ...solve.linear_predictor import linear_predictor
from .multinomial_performance import class_predictors, multinomial_performance

__all__ = [
    "FAMILIES",
    "LOG_FAMILIES",
    "ValidationData",
    "auc",
    "concordance",
    "outcome_of_rows",
    "performance",
    "predictor_of_rows",
    "share_correct",
]

# The families of models of which the performance is measured.
FAMILIES = (
    "linear", "logistic", "multinomial", "poisson", "gamma", "negative_binomial", "cox",
    "fine_gray", "cumulative",
)  # fmt: skip
# The families of which the logarithm of the mean is the linear predictor.
LOG_FAMILIES = ("poisson", "gamma", "negative_binomial")
# The number by which outcomes of a Fine–Gray model code the event of interest, and other events.
CAUSE, COMPETING = 1, 2


class ValidationData:
    """The outcome of some rows, on which predictions are evaluated.

    Parameters
    ----------
    family : str
        One of `FAMILIES`.
    empty : estimator
        An estimator of the family that has not been fitted, without prior.
    y : (n,) array or SurvivalOutcome
        Numbers, codes of classes from 0 on, or a survival outcome. The event of interest of a
        Fine–Gray model has the code 1.
    strata : (n,) int array, optional
    offset : (n,) array, optional
        The part of η that recalibration leaves as it is; (n, K) of a multinomial model.
    """

    def __init__(
        self,
        family: str,
        empty: Any,
        y: Any,
        strata: np.ndarray | None = None,
        offset: np.ndarray | None = None,
    ) -> None:
        self.family, self.empty, self.y = family, empty, y
        self.strata, self.offset = strata, offset

    def fit(self, X: Any, weight: np.ndarray, offset: np.ndarray | None = None) -> Any:
        """Fit the outcome to columns that were computed from linear predictors."""
        extra = {} if self.strata is None else {"strata": self.strata}
        outcome = Surv(*self.y) if isinstance(self.y, SurvivalOutcome) else self.y
        return self.empty.fit(X, outcome, sample_weight=weight, offset=offset, **extra)

    def recalibrated(self, eta: np.ndarray, weight: np.ndarray) -> Any:
        """Fit the outcome to intercept + slope × (η − offset) + offset."""
        if self.offset is None:
            return self.fit(eta[:, None], weight)
        return self.fit((eta - self.offset)[:, None], weight, self.offset)

    def null_log_likelihood(self, weight: np.ndarray) -> float:
        """Compute the log-likelihood of the model of intercept and offset; NaN without a fit."""
        try:
            fit = self.fit(null_design(len(weight)), weight, self.offset)
        except (DataError, SeparationError):
            return np.nan
        return float(fit.log_likelihood_)


def outcome_of_rows(problem: Problem) -> tuple[Any, np.ndarray | None]:
    """Return the outcome of a fit and the codes of strata, in the rows of X.

    Returns
    -------
    y : (n,) array or SurvivalOutcome
        As in `ValidationData`.
    strata : (n,) int array or None

    Raises
    ------
    DataError
        If the outcome is censored at both ends, or the family has no measures of performance.
    """
    likelihood = problem.likelihood
    if isinstance(likelihood, CumulativeLikelihood):
        if likelihood.y.upper is not None:
            raise DataError("Measures of performance need an outcome without censoring.")
        return np.asarray(likelihood.y.lower, np.float64), None
    if isinstance(likelihood, MultinomialLikelihood):
        return likelihood.codes, None
    if isinstance(likelihood, IndependentRowsLikelihood):
        return likelihood.backend.to_host(likelihood.y)[:, 0], None
    if not isinstance(likelihood, CoxLikelihood):
        raise DataError("Measures of performance are not available for this family.")
    time, event, entry = likelihood.outcome()
    strata = np.zeros(len(time), np.int64)
    strata[likelihood.row_of_x] = likelihood.stratum
    code = (event == 1).astype(np.int64) * CAUSE
    if isinstance(likelihood, FineGrayLikelihood):
        code[likelihood.row_of_x[likelihood.competing]] = COMPETING
    return SurvivalOutcome(time, code, entry), strata if strata.any() else None


def predictor_of_rows(problem: Problem, beta: np.ndarray) -> np.ndarray:
    """Compute η with intercept and offset, (n,) in the rows of X, up to a constant of η.

    Those of a multinomial model are (n, K), with a column for each class. Rows without weight,
    which the likelihood may leave out, are zero.

    Parameters
    ----------
    beta : (p,) array
        Coefficients in X's units.
    """
    likelihood = problem.likelihood
    if isinstance(likelihood, MultinomialLikelihood):
        return class_predictors(problem, beta)[1]
    eta = likelihood.backend.to_host(linear_predictor(problem, beta * problem.design.scale))
    out = np.zeros(len(problem.weights))
    out[likelihood.row_of_x] = eta[:, 0]
    return out


def share_correct(y: VectorLike, predicted: np.ndarray, sample_weight: VectorLike | None) -> float:
    """Compute the share of labels that are predicted correctly."""
    n = len(predicted)
    classes, codes = check_classes(y, n)
    weight = check_weights(sample_weight, n)
    text = isinstance(classes[0], str) != isinstance(predicted[0], str)
    fractions = classes.dtype.kind == "f" and (classes % 1.0).any()
    if text or (fractions and not np.isin(classes, predicted).any()):
        raise DataError(
            f"y has labels such as {classes[:1].tolist()[0]!r}, which are not like the model's "
            f"classes, such as {predicted[:1].tolist()[0]!r}. Give y the labels of the fit."
        )
    return float(np.average(classes[codes] == predicted, weights=weight))


def auc(y: np.ndarray, eta: np.ndarray, weight: np.ndarray) -> float:
    """Compute the area under the ROC curve; NaN if all rows with weight have the same class."""
    used = weight > 0
    if len(np.unique(y[used])) < 2:
        return np.nan
    return float(roc_auc_score(y[used], eta[used], sample_weight=weight[used]))


def concordance(data: ValidationData, eta: np.ndarray, weight: np.ndarray) -> float:
    """Compute the share of comparable pairs that η orders as the outcome; NaN if there are none.

    In a Fine–Gray model people with a competing event outlive everyone (Wolbers and others 2009).
    In a cumulative model larger η mean larger outcomes, and pairs with equal outcomes do not count.
    """
    score = merge_rounding_ties(eta)
    try:
        if data.family == "cumulative":
            y = data.y - data.y.min() + 1.0
            return concordance_index(-score, y, np.ones(len(y), np.int64), weight=weight)
        time, event, entry = data.y
        if data.family == "fine_gray":
            time = np.where(event == COMPETING, np.nextafter(time.max(), np.inf), time)
            event = (event == CAUSE).astype(np.int64)
        return concordance_index(score, time, event, entry, data.strata, weight)
    except DataError:  # no comparable pairs
        return np.nan


def performance(data: ValidationData, eta: np.ndarray, weight: np.ndarray) -> dict[str, float]:
    """Measure the performance of linear predictors.

    Parameters
    ----------
    eta : (n,) array
        Linear predictors, with intercept and offset; (n, K) of a multinomial model.
    weight : (n,) array

    Returns
    -------
    dict
        See `multinomial_performance` for multinomial models. Of others:
        ``auc`` or ``concordance``; ``spearman`` (cumulative models); ``r2`` (in linear and
        gamma models the explained variance or deviance of the predictions as they are, otherwise
        Nagelkerke's of the recalibrated predictor, as in rms; both relative to a model of intercept
        and offset); ``intercept`` and ``slope`` of the outcome on η less the offset, the
        calibration of predictions; ``brier`` or ``mse``. NaN where the rows do not determine a
        measure.
    """
    out: dict[str, float] = {}
    y, total = data.y, float(weight.sum())
    if total == 0:
        return {}
    if data.family == "multinomial":
        null = -data.null_log_likelihood(weight) / total
        return multinomial_performance(y, eta, weight, null, data.offset)
    if data.family == "logistic":
        out["auc"] = auc(y, eta, weight)
    elif data.family in ("cox", "fine_gray", "cumulative"):
        out["concordance"] = concordance(data, eta, weight)
    if data.family == "cumulative":
        out["spearman"] = _rank_correlation(y, eta, weight)
    out["r2"], intercept, slope = _recalibration(data, eta, weight)
    if data.family == "linear":
        residual = float(weight @ (y - eta) ** 2)
        own = y if data.offset is None else y - data.offset
        around = float(weight @ (own - np.average(own, weights=weight)) ** 2)
        out["r2"] = 1.0 - residual / around if around > 0 else np.nan
        out["mse"] = residual / total
    if data.family == "gamma":  # its likelihood is a density, which is not at most one
        mean = null_predictor(y, weight, data.offset)
        left, around = (float(weight @ GammaResponse().deviance(y, x) ** 2) for x in (eta, mean))
        out["r2"] = 1.0 - left / around if around > 0 else np.nan
    if data.family in ("linear", "logistic", *LOG_FAMILIES):
        out["intercept"] = intercept
    out["slope"] = slope
    if data.family == "logistic":
        risk = 1.0 / (1.0 + np.exp(-np.clip(eta, -700, 700)))
        out["brier"] = float(weight @ (y - risk) ** 2) / total
    return out


def _recalibration(
    data: ValidationData, eta: np.ndarray, weight: np.ndarray
) -> tuple[float, float, float]:
    """Compute Nagelkerke's R² and the recalibrated intercept and slope; NaN if they do not exist.

    R² is not computed for linear and gamma models.
    """
    try:
        own = eta if data.offset is None else eta - data.offset
        if np.ptp(own[weight > 0]) == 0:
            raise SeparationError("The predictor is constant.")
        fit = data.recalibrated(eta, weight)
    except (DataError, SeparationError):
        return np.nan, np.nan, np.nan
    r2, total = np.nan, float(weight.sum())
    intercept, slope = float(getattr(fit, "intercept_", np.nan)), float(fit.coef_[0])
    if data.family not in ("linear", "gamma"):
        found = fit.log_likelihood_
        null = data.null_log_likelihood(weight)
        gain = 1.0 - np.exp(-2.0 * (found - null) / total)
        r2 = float(gain / (1.0 - np.exp(2.0 * null / total)))
    return r2, intercept, slope


def _rank_correlation(y: np.ndarray, eta: np.ndarray, weight: np.ndarray) -> float:
    """Compute Spearman's correlation of rows that count as often as their weights."""
    ranks = []
    for x in (y, merge_rounding_ties(eta)):
        level = rankdata(x, "dense") - 1
        size = np.bincount(level, weights=weight)
        ranks.append((np.cumsum(size) - 0.5 * size)[level])
    centred = [r - np.average(r, weights=weight) for r in ranks]
    a, b = (float(weight @ r**2) for r in centred)
    return float(weight @ (centred[0] * centred[1]) / np.sqrt(a * b)) if a * b > 0 else np.nan
