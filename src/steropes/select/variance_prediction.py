"""Where the best variance is, told from the full data alone, to a step or so.

A lasso fit's coefficients are as many degrees of freedom as are not zero (Zou, Hastie and
Tibshirani 2007, Annals of Statistics 35:2173–2192), and what cross-validated scores are is nearly
the full data's log-likelihood without these (Stone 1977, Journal of the Royal Statistical
Society B 39:44–47). So scores are highest about where a coefficient that joins gains as much as
another degree of freedom costs. Along the path that gain falls from ten and more to one in a way
that can be gone on with, so that the path can stop before it is there: the last fits are the dear
ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .path_policy import DEFAULT, PathPolicy

__all__ = ["Foreseen", "foreseen", "look_ahead"]


Fit = Callable[[float], tuple[float, int]]


class Foreseen(NamedTuple):
    """What is foreseen of the best variance.

    Attributes
    ----------
    variance : float
        Next to the best one, or a step before it.
    bend : float
        By how much the score's slope falls there as log variance grows by one; of the score of
        all rows.
    """

    variance: float
    bend: float


def foreseen(
    x: np.ndarray, log_likelihood: np.ndarray, df: np.ndarray, policy: PathPolicy = DEFAULT
) -> Foreseen | None:
    """Where a coefficient is expected to gain no more than it costs.

    It is rather less far than that: the logarithm of the gain falls by less from step to step.

    Parameters
    ----------
    x, log_likelihood, df : (m,) arrays
        Of fits of the full data along log variance, ascending.

    Returns
    -------
    Foreseen or None
        None where the fits do not tell yet.
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
    # The slope is (gain - 1) d(df)/dx, and the gain one where it is zero.
    there = df[-1] * np.exp(growth * (at - x[-1]))
    return Foreseen(float(np.exp(at)), float(policy.ahead_slowdown * fall * growth * there))


def look_ahead(
    first: float, fit: Fit, unit: float, enough: int, policy: PathPolicy = DEFAULT
) -> Foreseen | None:
    """What to go to at once, or None.

    Parameters
    ----------
    first : float
        Variance at which the path begins.
    fit : callable
        Takes a variance and returns the full data's log-likelihood and nonzero coefficients.
    unit : float
        What a degree of freedom costs: 1, and the mean weight of rows with weights.
    enough : int
        Nonzero coefficients there from which on it is worth it.
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
