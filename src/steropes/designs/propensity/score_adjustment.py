"""Adjustment of people by their scores: who stays, in which set, with which weight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steropes.designs.propensity.score_matching import Match, match_scores, matched_weights
from steropes.designs.propensity.score_strata import Stratify, score_strata
from steropes.designs.propensity.score_trimming import Trim, trim
from steropes.designs.propensity.weights_by_estimand import (
    Estimand,
    propensity_weights,
    set_weights,
)

__all__ = ["Adjusted", "ScoreAdjustment"]

# Maps the ids of covariates and rows to labels; people with different labels are not compared.
Labels = Callable[[tuple[int, ...], NDArray], NDArray | None]


@dataclass(frozen=True, repr=False, eq=False)
class Adjusted:
    """People after adjustment.

    Attributes
    ----------
    kept : ndarray of int, shape (m,)
        Rows of the people who stay.
    sets : ndarray of int, shape (m,), or None
        Their matched set or stratum.
    weights : ndarray, shape (m,), or None
        Their propensity weights, or those of their sets.
    estimand : str
        Whose effect an estimate is.
    steps : tuple of (str, ndarray of int)
        The rules that left people out, and the rows that stayed after each.
    """

    kept: NDArray
    sets: NDArray | None
    weights: NDArray | None
    estimand: Estimand
    steps: tuple[tuple[str, NDArray], ...] = ()

    def balancing(self, treated: NDArray) -> NDArray | None:
        """Return weights under which the arms should be alike; None if nothing adjusts them."""
        if self.weights is not None or self.sets is None:
            return self.weights
        return matched_weights(self.sets, treated)


@dataclass(frozen=True)
class ScoreAdjustment:
    """How people are trimmed, then matched, stratified or weighted by their scores.

    Attributes
    ----------
    trim, match, stratify : Trim, Match and Stratify, optional
        Only one of matching and strata.
    weighted : bool
        Whether people have propensity weights, or weights of their sets.
    estimand : str
        That of propensity weights.
    truncate : float, optional
        Largest weight; larger ones are set to it.
    """

    trim: Trim | None = None
    match: Match | None = None
    stratify: Stratify | None = None
    weighted: bool = False
    estimand: Estimand = "att"
    truncate: float | None = None

    def population(self, reversed_match: bool = False) -> Estimand:
        """Return the estimand; ``reversed_match`` if target people were matched to comparators."""
        if self.match:
            return "atu" if reversed_match else "att"
        if self.stratify:
            of: dict[str, Estimand] = {"all": "ate", "target": "att", "comparator": "atu"}
            return of[self.stratify.base]
        return self.estimand if self.weighted else "ate"

    def unadjusted(self, n: int) -> Adjusted:
        """Return n people as they are."""
        return Adjusted(np.arange(n), None, None, self.population())

    def apply(
        self, score: NDArray, treated: NDArray, ids: NDArray, labels: Labels | None = None
    ) -> Adjusted:
        """Trim, match, stratify or weight people.

        Parameters
        ----------
        score, treated, ids : ndarray, shape (n,)
            Propensity scores, 1 for the target arm, and ids by which ties are ordered.
        labels : callable, optional
            Labels of rows by the covariates that must agree exactly.

        Raises
        ------
        DataError
            As matching, strata and weights do.
        """
        by_weights = self.weighted and not (self.match or self.stratify)
        trimmed = self._trimmed(score, treated, by_weights)
        kept, weight = trimmed.kept, trimmed.weights
        if self.trim and len(np.unique(treated[kept])) < 2:  # An empty arm has no estimate.
            return trimmed
        steps, sets, reverse = list(trimmed.steps), None, False
        of_rows = labels or (lambda exact, rows: None)
        if self.match:
            reverse = self.match.reverse and 2 * int(treated[kept].sum()) > len(kept)
            exact = of_rows(self.match.exact, kept)
            sets = match_scores(score[kept], treated[kept], self.match, ids=ids[kept], labels=exact)
            kept, sets = kept[sets >= 0], sets[sets >= 0]
            steps.append(("Matched on propensity score", kept))
        elif self.stratify and len(kept):
            exact = of_rows(self.stratify.exact, kept)
            sets = score_strata(score[kept], treated[kept], self.stratify, exact)
        estimand = self.population(reverse)
        if self.weighted and sets is not None:
            weight = self._truncated(set_weights(sets, treated[kept], estimand))
        return Adjusted(kept, sets, weight, estimand, tuple(steps))

    def _trimmed(self, score: NDArray, treated: NDArray, by_weights: bool) -> Adjusted:
        """Leave people out for their scores, and weight those who stay if scores do so."""
        kept, steps, weight = np.arange(len(score)), [], None
        if by_weights or (self.trim and self.trim.max_weight is not None):
            weight = propensity_weights(score, treated, self.estimand)
        if self.trim:
            for rule, stays in trim(score, treated, self.trim, weight):
                kept = np.flatnonzero(stays)
                steps.append((rule, kept))
            if len(np.unique(treated[kept])) < 2:
                return Adjusted(kept, None, None, self.population(), tuple(steps))
            if by_weights:  # Stabilised by the shares of those who stay.
                weight = propensity_weights(score[kept], treated[kept], self.estimand)
        weight = self._truncated(weight) if by_weights and weight is not None else None
        return Adjusted(kept, None, weight, self.population(), tuple(steps))

    def _truncated(self, weight: NDArray) -> NDArray:
        """Limit weights."""
        return weight if self.truncate is None else np.minimum(weight, self.truncate)
