"""Propensity scores of each outcome from the covariates that could confound it most (hdPS)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from steropes.designs.comparative.high_dimensional_propensity_score import (
    HighDimensionalPropensityScore,
)
from steropes.designs.propensity.propensity_score_fit import PropensityRules, fit_scores
from steropes.errors import DataError, SeparationError
from steropes.studies.cohorts.study_populations import StudyPopulation
from steropes.studies.comparative.analysis_result import Shared
from steropes.studies.comparative.grid_questions_and_analyses import StudyAnalysis
from steropes.studies.covariates.covariate_analysis_catalogue import ANALYSES
from steropes.studies.diagnostics.convergence_diagnostic import quiet_fits

__all__ = ["scores_of_outcome"]

DEMOGRAPHICS = "Demographics"


def scores_of_outcome(
    population: StudyPopulation, shared: Shared, analysis: StudyAnalysis
) -> Shared:
    """Fit the propensity scores of the people at risk of an outcome to selected covariates.

    The reason of a failure becomes a note.
    """
    rules, people = analysis.selection, pd.DataFrame(population.people)
    if rules is None or shared.features is None or shared.note:
        return shared
    features = shared.features.take(people["row"].to_numpy())
    demographic = np.array(
        [ANALYSES[int(a)].domain == DEMOGRAPHICS for a in features.columns["analysis_id"]]
    )
    treated, had = people["treated"].to_numpy(), (people["event"] == 1).to_numpy()
    method = HighDimensionalPropensityScore(
        k=rules.k, per_dimension=rules.per_dimension or None, rank_by=rules.rank_by,
        drop_instruments=rules.drop_instruments,
    )  # fmt: skip
    try:
        with quiet_fits():
            method.fit(features.select(np.flatnonzero(~demographic)), treated, had)
            chosen = method.covariates()
            if demographic.any():
                chosen = chosen.beside(features.select(np.flatnonzero(demographic)))
            scores = fit_scores(
                chosen, treated, analysis.propensity or PropensityRules(),
                ids=people["person_id"].to_numpy(),
            )  # fmt: skip
    except (DataError, SeparationError, np.linalg.LinAlgError) as error:
        return replace(shared, population=population, note=str(error))
    return replace(shared, population=population, scores=scores)
