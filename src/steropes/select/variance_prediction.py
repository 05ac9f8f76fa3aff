"""Prediction of the best variance from fits of the full data, accurate to about one step.

The degrees of freedom of a lasso fit are its nonzero coefficients (Zou, Hastie and Tibshirani 2007,
Annals of Statistics 35:2173–2192), and cross-validated scores are approximately the log-likelihood
of the full data minus these (Stone 1977, Journal of the Royal Statistical Society B 39:44–47).
Scores are therefore highest about where a further coefficient gains as much as a degree of freedom
costs. Along the path that gain falls from ten and more to one so regularly that it can be
extrapolated, and the last fits, which cost most, are not needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .variance_path_constants import DEFAULT, PathPolicy

__all__ = ["Foreseen", "foreseen", "look_ahead"]


Fit = Callable[[float], tuple[float, int]]


class Foreseen(NamedTuple):
    """A prediction of the best variance.

    Attributes
    ----------
    variance : float
        A variance close to the best one, or a step before it.
    bend : float
        Fall of the score's slope per unit of log variance there, for the score of all rows.
    """

    variance: float
    bend: float


def foreseen(
    x: np.ndarray, log_likelihood: np.ndarray, df: np.ndarray, policy: PathPolicy = DEFAULT
) -> Foreseen | None:
    """Extrapolate to the variance at which a coefficient gains no more than it costs.

    The result is rather too small, because the logarithm of the gain falls by less in each step.

    Parameters
    ----------
    x, log_likelihood, df : (m,) arrays
        Log variances, ascending, with the log-likelihoods and degrees of freedom of the full
        data's fits.

    Returns
    -------
    Foreseen or None
        None if more fits are needed.
    """
    if len(x) < 3 or not df[-3] > 0:
        return None
    gain, cost = np.diff(log_likelihood[-3:]), np.diff(df[-3:])
    if not ((gain > 0) & (cost > 0)).all():
        return None
    middle = 0.5 * (x[-2:] + x[-3:-1])
    ratio = np.log(gain / cost)
    fall = (ratio[0] - ratio[1]) / (middle[1] - middle[0])
    if not (fall > 0 and ratio[1] < np.log(policy.ahead_gain)):
        return None
    at = max(middle[1] + ratio[1] / fall, x[0])
    growth = np.log(df[-1] / df[-2]) / (x[-1] - x[-2])
    # The slope is (gain − 1) d(df)/dx, and it vanishes where the gain is one.
    there = df[-1] * np.exp(growth * (at - x[-1]))
    return Foreseen(float(np.exp(at)), float(policy.ahead_slowdown * fall * growth * there))


def look_ahead(
    first: float, fit: Fit, unit: float, enough: int, policy: PathPolicy = DEFAULT
) -> Foreseen | None:
    """Fit the full data along the path until the best variance can be predicted, or return None.

    Parameters
    ----------
    fit : callable
        Takes a variance and returns the full data's log-likelihood and nonzero coefficients.
    unit : float
        Cost of a degree of freedom: 1, or the mean weight of weighted rows.
    enough : int
        Number of nonzero coefficients at the prediction from which it is worthwhile.
    """
    x, value, count, v = [], [], [], first
    for _ in range(policy.ahead_fits):
        log_likelihood, nonzero = fit(v)
        x.append(np.log(v))
        value.append(log_likelihood)
        count.append(float(nonzero))
        found = foreseen(np.array(x), np.array(value), unit * np.array(count), policy)
        if found is not None:
            there = np.interp(np.log(found.variance), x, count)
            return found if there >= enough else None
        v *= policy.step_ratio**2
    return None
