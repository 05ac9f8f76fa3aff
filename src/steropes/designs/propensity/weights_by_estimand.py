"""Weights by the propensity score for several estimands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.designs.propensity.balancing_weights import balancing_weights
from steropes.designs.settings.value_checks import Before
from steropes.designs.values.estimands import AnyEstimand, check_estimand
from steropes.designs.values.input_checks import require_arms
from steropes.errors import DataError, listed

__all__ = [
    "STABILISED",
    "Estimand",
    "EstimandOfStudies",
    "focal_arm",
    "propensity_weights",
    "set_weights",
    "weights_of_arms",
]

# Estimands whose weights may be multiplied by the share of the arm.
STABILISED = ("ate", "att", "atu")
# The estimands of studies.
Estimand = Literal["att", "ate", "atu", "ato"]


def _code(value: object) -> str:
    """Return the code of an estimand of studies; raise ValueError for other texts."""
    known = get_args(Estimand)
    try:
        return check_estimand(str(value), known)
    except DataError:
        shown = ", ".join("atc" if each == "atu" else each for each in known)
        raise ValueError(f"must be one of {shown}, not {value!r}") from None


# The same as a setting, which has capitals and "atc", too.
EstimandOfStudies = Annotated[Estimand, Before(_code)]


def propensity_weights(
    score: ArrayLike,
    treated: ArrayLike,
    estimand: AnyEstimand = "att",
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
    "atc"       (1 − e) / e               1
    "ate"       1 / e                     1 / (1 − e)
    "ato"       1 − e                     e
    "atm"       min(e, 1 − e) / e         min(e, 1 − e) / (1 − e)
    "entropy"   h(e) / e                  h(e) / (1 − e)
    ==========  ========================  =========================

    with h(e) = −e log e − (1 − e) log(1 − e).

    Parameters
    ----------
    score : array_like, shape (n,)
        Propensity scores, in (0, 1).
    treated : array_like, shape (n,)
        1 for the target arm.
    estimand : str, default "att"
        The effect in the treated, the untreated, everybody, or one of three
        populations in which both arms are represented: the overlap of the arms ("ato"), people
        like those of matched pairs ("atm"), or weights by the entropy of the score.
    stabilized : bool, default True
        Multiply each arm's weights by its share of the people; only for "att", "ate" and "atc".
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
    Robins, Hernán and Brumback (2000), Epidemiology 11:550. Li, Thomas and Li (2019), Am J
    Epidemiol 188:250 (overlap weights). Li and Greene (2013), Int J Biostat 9:215–234 (matching
    weights). Zhou, Matsouaka and Thomas (2020), Stat Methods Med 29:3721–3756 (entropy weights).

    Examples
    --------
    >>> from steropes.designs.propensity import propensity_weights
    >>> propensity_weights([0.5, 0.8, 0.2, 0.75], [1, 1, 0, 0], stabilized=False).round(2).tolist()
    [1.0, 1.0, 0.25, 3.0]
    """
    e, t = np.asarray(score, dtype=float), require_arms(treated) == 1
    if e.shape != t.shape:
        raise DataError(f"weights: {e.shape} scores and {t.shape} people; shapes must agree")
    estimand = check_estimand(estimand)
    if largest is not None and not largest > 0:
        raise DataError(f"largest must be a weight above 0, not {largest!r}")
    if not ((e >= 0) & (e <= 1)).all():
        row = int(np.argmin((e >= 0) & (e <= 1)))
        raise DataError(f"weights: the score of row {row} is {e[row]}, not a probability")
    both = np.column_stack([1 - e, e])
    with np.errstate(divide="ignore"):
        weight = {
            "att": lambda: np.where(t, 1.0, e / (1 - e)),
            "atu": lambda: np.where(t, (1 - e) / e, 1.0),
            "ate": lambda: np.where(t, 1 / e, 1 / (1 - e)),
            "ato": lambda: np.where(t, 1 - e, e),
        }.get(estimand, lambda: balancing_weights(both, t.astype(int), estimand))()
    if stabilized and estimand in STABILISED:
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


def weights_of_arms(
    scores: NDArray,
    arm: NDArray,
    estimand: AnyEstimand,
    *,
    stabilized: bool,
    largest: float | None = None,
    focal: int | None = None,
) -> NDArray:
    """Compute weights of two or more arms.

    Parameters
    ----------
    scores : ndarray, shape (n, K)
        Probabilities of the arms.
    arm : ndarray of int, shape (n,)
        Position of each person's arm.
    estimand, stabilized, largest
        As in `propensity_weights`.
    focal : int, optional
        Position of the arm of "att", of more than two.
    """
    if scores.shape[1] == 2:
        return propensity_weights(
            scores[:, 1], arm, estimand, stabilized=stabilized, largest=largest
        )
    weight = balancing_weights(scores, arm, estimand, focal)
    if stabilized and estimand in STABILISED:
        weight = weight * (np.bincount(arm) / len(arm))[arm]
    if largest is not None:
        weight = np.minimum(weight, largest)
    if not np.isfinite(weight).all():
        row = int(np.argmin(np.isfinite(weight)))
        raise DataError(
            f"weights: row {row} has a score of zero for its own arm, so its weight is infinite; "
            "leave out people who could not have been in their arm, or set the largest weight"
        )
    return weight


def focal_arm(estimand: str, arms: Sequence[object], focal: object) -> int | None:
    """Return the position of the arm in whose people "att" or "atu" is; None for others."""
    if estimand not in ("att", "atu"):
        return None
    if len(arms) == 2:
        return int(estimand == "att")
    known = [str(name) for name in arms]
    if estimand == "atu":
        raise DataError(
            "With several arms there is no estimand='atu'; set estimand='att' and focal to the arm "
            f"of the untreated, one of {listed(known)}."
        )
    if str(focal) not in known:
        raise DataError(
            "With several arms, focal must be one of them for estimand='att', the effect in people "
            f"of that arm: {listed(known)}."
        )
    return known.index(str(focal))


def set_weights(sets: ArrayLike, treated: ArrayLike, estimand: str = "att") -> NDArray:
    """Compute weights that distribute both arms equally over matched sets or strata.

    With n₁ target and n₀ comparator people in a set, the weights are

    ==========  ==========================  ==========================
    estimand    target                      comparator
    ==========  ==========================  ==========================
    "att"       1                           n₁ / n₀
    "atc"       n₀ / n₁                     1
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
    estimand : {"att", "atc", "ate", "ato"}, default "att"

    Raises
    ------
    DataError
        The estimand has another name.

    References
    ----------
    Hong (2010), J Educ Behav Stat 35:499; Desai and others (2017), Epidemiology 28:249.
    """
    s, t = np.asarray(sets), require_arms(treated) == 1
    name = check_estimand(estimand, get_args(Estimand))
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
    }[name]
    return np.where(both, weight, 0.0)
