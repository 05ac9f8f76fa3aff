"""Measures of predictive performance of linear predictors, by family."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from ..data.survival_outcome import Surv, SurvivalOutcome
from ..errors import DataError, SeparationError
from ..infer.concordance import concordance_index
from ..infer.rounding_ties import merge_rounding_ties

__all__ = ["ValidationData", "performance"]


class ValidationData:
    """The outcome of some rows, on which predictions are evaluated.

    Parameters
    ----------
    family : {"linear", "logistic", "poisson", "cox"}
    empty : estimator
        An estimator of the family that has not been fitted, without prior.
    y : (n,) array or SurvivalOutcome
        Numbers, of classes 0 and 1, or a survival outcome.
    strata : (n,) int array, optional
    """

    def __init__(self, family: str, empty: Any, y: Any, strata: np.ndarray | None = None) -> None:
        self.family, self.empty, self.y, self.strata = family, empty, y, strata

    def recalibrated(self, eta: np.ndarray, weight: np.ndarray) -> Any:
        """Fit the outcome to intercept + slope × η."""
        extra = {} if self.strata is None else {"strata": self.strata}
        outcome = Surv(*self.y) if isinstance(self.y, SurvivalOutcome) else self.y
        return self.empty.fit(eta[:, None], outcome, sample_weight=weight, **extra)


def performance(data: ValidationData, eta: np.ndarray, weight: np.ndarray) -> dict[str, float]:
    """Measure the performance of linear predictors.

    Parameters
    ----------
    data : ValidationData
    eta : (n,) array
        Linear predictors, with intercept and offset.
    weight : (n,) array

    Returns
    -------
    dict
        ``auc`` or ``concordance``; ``r2`` (in linear models the explained variance of the
        predictions as they are, otherwise Nagelkerke's of the recalibrated predictor, as in
        rms); ``intercept`` and ``slope`` of the outcome on η, the calibration of predictions;
        ``brier`` or ``mse``. NaN where the rows do not determine a measure.
    """
    used = weight > 0
    out: dict[str, float] = {}
    y = data.y
    if data.family == "cox":
        time, event, entry = y
        score = merge_rounding_ties(eta)
        try:
            rest = (entry, data.strata, weight)
            out["concordance"] = concordance_index(score, time, event, *rest)
        except DataError:  # no comparable pairs
            out["concordance"] = np.nan
    elif data.family == "logistic":
        both = len(np.unique(y[used])) == 2
        auc = roc_auc_score(y[used], eta[used], sample_weight=weight[used]) if both else np.nan
        out["auc"] = float(auc)
    total = float(weight.sum())
    try:
        if np.ptp(eta[used]) == 0:
            raise SeparationError("The predictor is constant.")
        fit = data.recalibrated(eta, weight)
        slope, intercept = float(fit.coef_[0]), float(getattr(fit, "intercept_", np.nan))
        if data.family != "linear":
            null = fit.null_log_likelihood_
            gain = 1.0 - np.exp(-2.0 * (fit.log_likelihood_ - null) / total)
            out["r2"] = float(gain / (1.0 - np.exp(2.0 * null / total)))
    except (DataError, SeparationError):
        slope = intercept = np.nan
        if data.family != "linear":
            out["r2"] = np.nan
    if data.family == "linear":
        residual = float(weight @ (y - eta) ** 2)
        around = float(weight @ (y - np.average(y, weights=weight)) ** 2)
        out["r2"] = 1.0 - residual / around if around > 0 else np.nan
        out["mse"] = residual / total
    if data.family != "cox":
        out["intercept"] = intercept
    out["slope"] = slope
    if data.family == "logistic":
        risk = 1.0 / (1.0 + np.exp(-np.clip(eta, -700, 700)))
        out["brier"] = float(weight @ (y - risk) ** 2) / total
    return out
