"""Adjustment of a study population by its scores, with the people whom each rule leaves."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.propensity.propensity_score_fit import PropensityScores
from steropes.designs.propensity.score_adjustment import Adjusted
from steropes.studies.cohorts.attrition import Attrition
from steropes.studies.comparative.grid_questions_and_analyses import StudyAnalysis
from steropes.studies.covariates.feature_extraction import Features

__all__ = ["AdjustedPopulation", "adjust", "unadjusted"]


@dataclass(frozen=True, repr=False, eq=False)
class AdjustedPopulation(Adjusted):
    """A population after adjustment.

    Attributes
    ----------
    attrition : DataFrame
        People left by every rule, of the population and of the adjustment.
    """

    attrition: pd.DataFrame = field(default_factory=pd.DataFrame)


def adjust(
    people: pd.DataFrame,
    attrition: pd.DataFrame,
    scores: PropensityScores | None,
    place: NDArray,
    features: Features | None,
    analysis: StudyAnalysis,
) -> AdjustedPopulation:
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
    if scores is None:
        return unadjusted(people, attrition, analysis)
    person, treated, entry = (people[c].to_numpy() for c in ("person_id", "treated", "row"))

    def labels(exact: tuple[int, ...], rows: NDArray) -> NDArray | None:
        """Number the combinations of the covariates that must agree; None if there are none."""
        if not exact or features is None:
            return None
        values = np.column_stack([features.column(c)[entry[rows]] for c in exact])
        return np.unique(values, axis=0, return_inverse=True)[1].ravel()

    ids = person if pd.Index(person).is_unique else entry
    found = analysis.adjustment.apply(scores.score[place], treated, ids, labels)
    counts = Attrition(attrition.to_dict("records"))
    for rule, kept in found.steps:
        counts.count(rule, person[kept], treated[kept])
    return _of_population(found, counts.frame())


def unadjusted(
    people: pd.DataFrame, attrition: pd.DataFrame, analysis: StudyAnalysis
) -> AdjustedPopulation:
    """Return a population that nothing adjusts."""
    return _of_population(analysis.adjustment.unadjusted(len(people)), attrition)


def _of_population(found: Adjusted, attrition: pd.DataFrame) -> AdjustedPopulation:
    """Add the people whom each rule leaves."""
    values = {f.name: getattr(found, f.name) for f in fields(Adjusted)}
    return AdjustedPopulation(**values, attrition=attrition)
