"""Weights by the propensity score for several estimands."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.designs.values.input_checks import require_arms
from steropes.errors import DataError

__all__ = ["Estimand", "propensity_weights", "set_weights"]

Estimand = Literal["att", "ate", "atu", "ato"]


def propensity_weights(
    score: ArrayLike,
    treated: ArrayLike,
    estimand: Estimand = "att",
    *,
    stabilized: bool = True,
    largest: float | None = None,
) -> NDArray:
    """Compute weights that make both arms resemble the population of an estimand.

    With e the propensity score, the weights are

    ==========  ========================  =========================
    estimand    target                    comparator
    ==========  ========================  =========================
    "att"       1                         e / (1 − e)
    "atu"       (1 − e) / e               1
    "ate"       1 / e                     1 / (1 − e)
    "ato"       1 − e                     e
    ==========  ========================  =========================

    Parameters
    ----------
    score : array_like, shape (n,)
        Propensity scores, in (0, 1).
    treated : array_like, shape (n,)
        1 for the target arm.
    estimand : str, default "att"
        The effect in the treated, the untreated, everybody, or the overlap of the arms.
    stabilized : bool, default True
        Multiply each arm's weights by its share of the people; not for "ato".
    largest : float, optional
        Truncate larger weights to this value.

    Returns
    -------
    ndarray, shape (n,)
        Weights.

    Raises
    ------
    DataError
        Scores are missing, or are 0 or 1 and give an infinite weight.

    References
    ----------
    Robins, Hernán and Brumback (2000), Epidemiology 11:550; Li, Thomas and Li (2019), Am J
    Epidemiol 188:250, for overlap weights.

    Examples
    --------
    >>> from steropes.studies import propensity_weights
    >>> propensity_weights([0.5, 0.8, 0.2, 0.75], [1, 1, 0, 0], stabilized=False).round(2).tolist()
    [1.0, 1.0, 0.25, 3.0]
    """
    e, t = np.asarray(score, dtype=float), require_arms(treated) == 1
    if e.shape != t.shape:
        raise DataError(f"weights: {e.shape} scores and {t.shape} people; shapes must agree")
    if estimand not in get_args(Estimand):
        raise DataError(
            f"estimand must be one of {', '.join(get_args(Estimand))}, not {estimand!r}"
        )
    if largest is not None and not largest > 0:
        raise DataError(f"largest must be a weight above 0, not {largest!r}")
    if not ((e >= 0) & (e <= 1)).all():
        row = int(np.argmin((e >= 0) & (e <= 1)))
        raise DataError(f"weights: the score of row {row} is {e[row]}, not a probability")
    with np.errstate(divide="ignore"):
        weight = {
            "att": lambda: np.where(t, 1.0, e / (1 - e)),
            "atu": lambda: np.where(t, (1 - e) / e, 1.0),
            "ate": lambda: np.where(t, 1 / e, 1 / (1 - e)),
            "ato": lambda: np.where(t, 1 - e, e),
        }[estimand]()
    if stabilized and estimand != "ato":
        share = float(t.mean())
        weight *= np.where(t, share, 1 - share)
    if largest is not None:
        weight = np.minimum(weight, largest)
    if not np.isfinite(weight).all():
        row = int(np.argmin(np.isfinite(weight)))
        raise DataError(
            f"weights: row {row} has the score {e[row]:g}, so its weight is infinite; trim by "
            "score, or set the largest weight"
        )
    return weight


def set_weights(sets: ArrayLike, treated: ArrayLike, estimand: Estimand = "att") -> NDArray:
    """Compute weights that distribute both arms equally over matched sets or strata.

    With n₁ target and n₀ comparator people in a set, the weights are

    ==========  ==========================  ==========================
    estimand    target                      comparator
    ==========  ==========================  ==========================
    "att"       1                           n₁ / n₀
    "atu"       n₀ / n₁                     1
    "ate"       p (n₁ + n₀) / n₁            (1 − p) (n₁ + n₀) / n₀
    "ato"       n₀ / (n₁ + n₀)              n₁ / (n₁ + n₀)
    ==========  ==========================  ==========================

    where p is the share of target people in sets with both arms. In a set with only one arm all
    weights are 0.

    Parameters
    ----------
    sets : array_like of int, shape (n,)
        Number of each person's set, from 0.
    treated : array_like, shape (n,)
    estimand : str, default "att"

    References
    ----------
    Hong (2010), J Educ Behav Stat 35:499; Desai and others (2017), Epidemiology 28:249.
    """
    s, t = np.asarray(sets), require_arms(treated) == 1
    size = int(s.max(initial=-1)) + 1
    n1, n0 = (np.bincount(s[a], minlength=size)[s].astype(float) for a in (t, ~t))
    both = (n1 > 0) & (n0 > 0)
    n1, n0 = np.where(both, n1, 1.0), np.where(both, n0, 1.0)
    p = float(t[both].mean()) if both.any() else 0.0
    n = n1 + n0
    weight = {
        "att": np.where(t, 1.0, n1 / n0),
        "atu": np.where(t, n0 / n1, 1.0),
        "ate": np.where(t, p * n / n1, (1 - p) * n / n0),
        "ato": np.where(t, n0 / n, n1 / n),
    }[estimand]
    return np.where(both, weight, 0.0)
