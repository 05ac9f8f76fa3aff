"""Adjustment of a population by its scores: who stays, in which set, with which weight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.propensity.propensity_scores import PropensityScores
from steropes.designs.propensity.propensity_weights import (
    Estimand,
    propensity_weights,
    set_weights,
)
from steropes.designs.propensity.score_matching import match_scores, matched_weights
from steropes.designs.propensity.score_strata import score_strata
from steropes.designs.propensity.score_trimming import trim
from steropes.studies.cohorts.attrition import Attrition
from steropes.studies.comparative.grid_questions_and_analyses import StudyAnalysis
from steropes.studies.covariates.feature_extraction import Features

__all__ = ["Adjusted", "adjust"]


@dataclass(frozen=True, repr=False, eq=False)
class Adjusted:
    """A population after adjustment.

    Attributes
    ----------
    kept : ndarray of int, shape (m,)
        Rows of the population that stay.
    sets : ndarray of int, shape (m,), or None
        Their matched set or stratum.
    weights : ndarray, shape (m,), or None
        Their propensity weights, or those of their sets.
    estimand : str
        Whose effect an estimate is.
    """

    kept: NDArray
    sets: NDArray | None
    weights: NDArray | None
    attrition: pd.DataFrame
    estimand: Estimand

    def balancing(self, treated: NDArray) -> NDArray | None:
        """Return weights under which the arms should be alike; None if nothing adjusts them."""
        if self.weights is not None or self.sets is None:
            return self.weights
        return matched_weights(self.sets, treated)


def adjust(
    people: pd.DataFrame,
    attrition: pd.DataFrame,
    scores: PropensityScores | None,
    place: NDArray,
    features: Features | None,
    analysis: StudyAnalysis,
) -> Adjusted:
    """Trim, match, stratify or weight the people of a population.

    Parameters
    ----------
    people : DataFrame
        ``row`` (entry), ``person_id``, ``treated``.
    attrition : DataFrame
        So far.
    scores : PropensityScores or None
        Of the people of the whole comparison.
    place : ndarray of int, shape (n,)
        Where each person's score is among them.
    features : Features or None
        Of all entries, for covariates to match on exactly.

    Raises
    ------
    DataError
        As matching, strata and weights do.
    """
    kept = np.arange(len(people))
    counts = Attrition(attrition.to_dict("records"))
    person, treated = people["person_id"].to_numpy(), people["treated"].to_numpy()
    if scores is None:
        return Adjusted(kept, None, None, counts.frame(), analysis.estimates())
    score = scores.score[place]
    by_sets = bool(analysis.match or analysis.stratify)
    weighted = analysis.outcome_model.weighted and not by_sets
    weight = None
    if weighted or (analysis.trim and analysis.trim.max_weight is not None):
        weight = propensity_weights(score, treated, analysis.estimand)
    if analysis.trim:
        for rule, stays in trim(score, treated, analysis.trim, weight):
            kept = np.flatnonzero(stays)
            counts.count(rule, person[kept], treated[kept])
        if len(np.unique(treated[kept])) < 2:  # An empty arm has no estimate.
            return Adjusted(kept, None, None, counts.frame(), analysis.estimates())
        if weighted:  # stabilised by the shares of those who stay
            weight = propensity_weights(score[kept], treated[kept], analysis.estimand)
    if weight is not None and analysis.truncate is not None:
        weight = np.minimum(weight, analysis.truncate)
    entry = people["row"].to_numpy()
    sets, reverse = None, False
    if analysis.match:
        labels = _labels(features, entry[kept], analysis.match.exact)
        reverse = analysis.match.reverse and 2 * int(treated[kept].sum()) > len(kept)
        ids = person if pd.Index(person).is_unique else entry
        sets = match_scores(
            score[kept], treated[kept], analysis.match, ids=ids[kept], labels=labels
        )
        kept, sets = kept[sets >= 0], sets[sets >= 0]
        counts.count("Matched on propensity score", person[kept], treated[kept])
    elif analysis.stratify and len(kept):
        labels = _labels(features, entry[kept], analysis.stratify.exact)
        sets = score_strata(score[kept], treated[kept], analysis.stratify, labels)
    estimand = analysis.estimates(reverse)
    if not weighted:
        weight = None
    if analysis.outcome_model.weighted and sets is not None:
        weight = set_weights(sets, treated[kept], estimand)
        if analysis.truncate is not None:
            weight = np.minimum(weight, analysis.truncate)
    return Adjusted(kept, sets, weight, counts.frame(), estimand)


def _labels(features: Features | None, entries: NDArray, exact: tuple[int, ...]) -> NDArray | None:
    """Number the combinations of the covariates that must agree; None if there are none."""
    if not exact or features is None:
        return None
    values = np.column_stack([features.column(c)[entries] for c in exact])
    return np.unique(values, axis=0, return_inverse=True)[1].ravel()
