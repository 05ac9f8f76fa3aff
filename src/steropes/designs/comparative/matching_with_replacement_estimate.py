"""Average effects by matching with replacement, with Abadie and Imbens' (2006) errors."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["matching_estimate"]


def matching_estimate(
    y: NDArray, target: NDArray, pairs: tuple[NDArray, NDArray, NDArray], estimand: str
) -> tuple[float, float]:
    """Compute the average effect by matching with replacement, and its standard error.

    The variance is that of the effect in the population, with a conditional variance of outcomes
    that is the same for everybody, as R's ``Matching::Match`` estimates it by default.

    Parameters
    ----------
    y : ndarray, shape (n,)
    target : ndarray of bool, shape (n,)
    pairs : (rows, others, weight)
        From `match_with_replacement`, of the people of the estimand's population.
    estimand : {"att", "atc", "ate"}

    Returns
    -------
    estimate, error : float

    References
    ----------
    Abadie and Imbens (2006), Econometrica 74:235–267, theorem 7. Abadie, Drukker, Herr and Imbens
    (2004), Stata Journal 4:290–311 (the estimators).
    """
    row, other, weight = pairs
    sign = np.where(target[row], 1.0, -1.0)
    n = len(y)
    matched = np.bincount(row, weight, minlength=n) > 0
    size = int(matched.sum())
    each = np.bincount(row, weight * sign * (y[row] - y[other]), minlength=n)[matched]
    effect = float(each.mean())
    deviation = sign * (y[row] - y[other]) - effect
    sigma2 = 0.5 * float(weight @ deviation**2) / size
    times = np.bincount(other, weight, minlength=n)
    squared = np.bincount(other, weight**2, minlength=n)
    used = times**2 - squared
    if estimand == "ate":
        used = used + 2 * times
    variance = ((each - effect) ** 2).sum() + sigma2 * used.sum()
    return effect, float(np.sqrt(variance)) / size
