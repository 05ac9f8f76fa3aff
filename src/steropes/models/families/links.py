"""Link functions between linear predictors and means or risks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit
from scipy.stats import cauchy, norm

__all__ = ["EXCEEDANCE", "HAZARD", "IDENTITY", "LOG", "LOGIT", "Link"]


class Link(NamedTuple):
    """The function from linear predictors to means or risks, and its inverse."""

    mean: Callable[[np.ndarray], np.ndarray]
    predictor: Callable[[np.ndarray], np.ndarray]


def _survival_risk(eta: np.ndarray) -> np.ndarray:
    """Compute 1 − exp(−exp η), the risk at a log cumulative hazard."""
    with np.errstate(over="ignore"):  # the risk is then one
        return np.asarray(-np.expm1(-np.exp(eta)))


def _log_cumulative(risk: np.ndarray) -> np.ndarray:
    """Compute the log cumulative hazards of risks, the inverse of `_survival_risk`."""
    return np.asarray(np.log(-np.log1p(-risk)))


LOGIT = Link(expit, logit)
HAZARD = Link(_survival_risk, _log_cumulative)
IDENTITY = Link(np.asarray, np.asarray)
LOG = Link(np.exp, np.log)
# P(Y > v) = 1 − F(−u) with u = η − α(v), by the link F of a cumulative model.
EXCEEDANCE: dict[str, Link] = {
    "logit": LOGIT,
    "probit": Link(norm.cdf, norm.ppf),
    "loglog": HAZARD,
    "cloglog": Link(lambda u: np.exp(-np.exp(-np.asarray(u))), lambda p: -np.log(-np.log(p))),
    "cauchit": Link(cauchy.cdf, cauchy.ppf),
}
