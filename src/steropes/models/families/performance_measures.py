"""Measures of predictive performance of linear predictors, by family."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import roc_auc_score

from ...data import check_classes, check_weights
from ...data.input_types import VectorLike
from ...errors import DataError, SeparationError
from ...infer.concordance import concordance_index
from ...infer.rounding_ties import merge_rounding_ties
from .family import ValidationData

__all__ = [
    "auc",
    "concordance_of_times",
    "performance",
    "rank_correlation",
    "recalibration",
    "share_correct",
]


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


def concordance_of_times(
    data: ValidationData, eta: np.ndarray, time: np.ndarray, event: np.ndarray, weight: np.ndarray
) -> float:
    """Compute the share of comparable pairs of times that η orders; NaN if there are none."""
    try:
        return concordance_index(
            merge_rounding_ties(eta), time, event, data.y.entry, data.strata, weight
        )
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
    return data.family.performance(data, eta, weight) if weight.sum() > 0 else {}


def recalibration(
    data: ValidationData, eta: np.ndarray, weight: np.ndarray, nagelkerke: bool = True
) -> tuple[float, float, float]:
    """Compute Nagelkerke's R² and the recalibrated intercept and slope; NaN if they do not exist.

    R² is NaN without ``nagelkerke``.
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
    if nagelkerke:
        found = fit.log_likelihood_
        null = data.null_log_likelihood(weight)
        gain = 1.0 - np.exp(-2.0 * (found - null) / total)
        r2 = float(gain / (1.0 - np.exp(2.0 * null / total)))
    return r2, intercept, slope


def rank_correlation(y: np.ndarray, eta: np.ndarray, weight: np.ndarray) -> float:
    """Compute Spearman's correlation of rows that count as often as their weights."""
    ranks = []
    for x in (y, merge_rounding_ties(eta)):
        level = rankdata(x, "dense") - 1
        size = np.bincount(level, weights=weight)
        ranks.append((np.cumsum(size) - 0.5 * size)[level])
    centred = [r - np.average(r, weights=weight) for r in ranks]
    a, b = (float(weight @ r**2) for r in centred)
    return float(weight @ (centred[0] * centred[1]) / np.sqrt(a * b)) if a * b > 0 else np.nan
