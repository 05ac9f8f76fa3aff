"""Means of an outcome if all had each of two treatments, with everybody's influence on them.

Both methods start from scores e and outcome means m and have the influence function

    D_a = [1(A = a) Δ q / (e_a π_a) · (Y − m_a) + P (m_a − ψ_a)] / mean(P)

where P is 1 for everybody ("ate"), or for people of one group ("att", "atu"), q = E(P | W), and π_a
is the probability that the outcome is observed, Δ = 1. The augmented estimate makes its mean zero
by the choice of ψ, targeted means by a change of m that leaves it within the range of Y.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from steropes.designs.doubly_robust.targeting import Targeting, targeted_means
from steropes.designs.values.estimands import AnyEstimand
from steropes.errors import DataError

__all__ = ["ArmMeans", "Method", "Nuisances", "People", "arm_means", "truncation_bound"]

Method = Literal["aipw", "tmle"]
# Limits of the usual bound of scores, which is no bound for very few people.
LARGEST_BOUND = 0.25


@dataclass(frozen=True, repr=False)
class People:
    """Treatment and outcome of people.

    Attributes
    ----------
    target : ndarray of bool, shape (n,)
    y : ndarray, shape (n,)
        Outcome; any number where it is not observed.
    observed : ndarray of bool, shape (n,)
    weights : ndarray, shape (n,)
        Weights of people.
    """

    target: NDArray
    y: NDArray
    observed: NDArray
    weights: NDArray


@dataclass(frozen=True, repr=False)
class Nuisances:
    """Predictions of the models for all people.

    Attributes
    ----------
    score : ndarray, shape (n,)
        P(A = 1 | W).
    means : ndarray, shape (n, 2)
        E(Y | A = a, W) of the target and of the comparator.
    observed : ndarray, shape (n, 2), or None
        P(Δ = 1 | A = a, W); None if all outcomes are observed.
    """

    score: NDArray
    means: NDArray
    observed: NDArray | None = None

    def bounded(self, bound: float) -> Nuisances:
        """Return a copy with probabilities of at least a number, and scores of at most 1 − it."""
        seen = None if self.observed is None else np.clip(self.observed, bound, 1.0)
        return replace(self, score=np.clip(self.score, bound, 1 - bound), observed=seen)


@dataclass(frozen=True, repr=False)
class ArmMeans:
    """Means if all had the target's treatment, and the comparator's.

    Attributes
    ----------
    values : ndarray, shape (2,)
    influence : ndarray, shape (n, 2)
        The sum of squares is the variance.
    contributions : ndarray, shape (n, 2)
        Pseudo-outcomes, whose means are the values.
    """

    values: NDArray
    influence: NDArray
    contributions: NDArray


def truncation_bound(n: int) -> float:
    """Return 5 / (√n log n), the usual bound of scores (Gruber and others 2022)."""
    return min(LARGEST_BOUND, 5 / (np.sqrt(n) * np.log(n))) if n > 1 else LARGEST_BOUND


def arm_means(
    people: People,
    nuisances: Nuisances,
    estimand: AnyEstimand,
    method: Method,
    targeting: Targeting,
) -> ArmMeans:
    """Estimate the means of both treatments.

    Parameters
    ----------
    nuisances : Nuisances
        With scores within their bounds.
    estimand : {"ate", "att", "atu"}
    method : {"aipw", "tmle"}
    targeting : {"covariate", "weight"}
        How "tmle" uses the inverse probabilities.
    """
    inside, chance = population(people, nuisances.score, estimand)
    arms = np.column_stack([people.target, ~people.target]) & people.observed[:, None]
    factor = chance[:, None] / _positive(probabilities(nuisances))
    m = nuisances.means
    if method == "tmle":
        m = targeted_means(people.y, arms, people.weights, m, factor, targeting)
    residual = np.where(arms, factor * (people.y[:, None] - m), 0.0)
    share = people.weights / float(people.weights @ inside)
    pseudo = residual + inside[:, None] * m
    values = share @ pseudo
    influence = share[:, None] * (pseudo - inside[:, None] * values)
    return ArmMeans(values, influence, pseudo)


def population(people: People, score: NDArray, estimand: AnyEstimand) -> tuple[NDArray, NDArray]:
    """Return who is in the population of an estimand, (n,), and its probability given W, (n,)."""
    if estimand == "att":
        return people.target.astype(float), score
    if estimand == "atu":
        return (~people.target).astype(float), 1 - score
    return np.ones(len(score)), np.ones(len(score))


def _positive(both: NDArray) -> NDArray:
    """Refuse probabilities of zero, whose inverse is infinite."""
    never = (both <= 0).any(axis=1)
    if never.any():
        raise DataError(
            f"Row {int(never.argmax())} (counted from 0) has a score of 0 or 1, or an outcome that "
            "is never observed, so that its weight is infinite; set bound above 0, such as 0.01, "
            "or leave such people out."
        )
    return both


def probabilities(nuisances: Nuisances) -> NDArray:
    """Return the probability of each treatment with an observed outcome, (n, 2)."""
    both = np.column_stack([nuisances.score, 1 - nuisances.score])
    return both if nuisances.observed is None else both * nuisances.observed
