"""Scales on which calibration curves add a constant to linear predictors."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit
from scipy.stats import cauchy, norm

__all__ = ["EXCEEDANCE", "HAZARD", "IDENTITY", "LOG", "LOGIT", "CalibrationScale"]


class CalibrationScale(NamedTuple):
    """The function from linear predictors to predictions, and its inverse."""

    prediction: Callable[[np.ndarray], np.ndarray]
    predictor: Callable[[np.ndarray], np.ndarray]


def _survival_risk(eta: np.ndarray) -> np.ndarray:
    """Compute 1 − exp(−exp η), the risk at a log cumulative hazard."""
    with np.errstate(over="ignore"):  # the risk is then one
        return np.asarray(-np.expm1(-np.exp(eta)))


def _log_cumulative(risk: np.ndarray) -> np.ndarray:
    """Compute the log cumulative hazards of risks, the inverse of `_survival_risk`."""
    return np.asarray(np.log(-np.log1p(-risk)))


LOGIT = CalibrationScale(expit, logit)
HAZARD = CalibrationScale(_survival_risk, _log_cumulative)
IDENTITY = CalibrationScale(np.asarray, np.asarray)
LOG = CalibrationScale(np.exp, np.log)
# P(Y > v) = 1 − F(−u) with u = η − α(v), by the link F of a cumulative model.
EXCEEDANCE: dict[str, CalibrationScale] = {
    "logit": LOGIT,
    "probit": CalibrationScale(norm.cdf, norm.ppf),
    "loglog": HAZARD,
    "cloglog": CalibrationScale(
        lambda u: np.exp(-np.exp(-np.asarray(u))), lambda p: -np.log(-np.log(p))
    ),
    "cauchit": CalibrationScale(cauchy.cdf, cauchy.ppf),
}
