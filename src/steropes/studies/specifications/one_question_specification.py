"""A one-question study as a specification: one question, its main analysis and the alternatives."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from steropes.designs.covariates.preprocessing import TidyRules
from steropes.designs.effects.outcome_model import OutcomeModel
from steropes.designs.propensity.propensity_score_fit import PropensityRules
from steropes.designs.propensity.score_matching import Match
from steropes.designs.propensity.score_strata import Stratify
from steropes.studies.cohorts.cohort_builders import ConceptSet, Indication
from steropes.studies.cohorts.cohort_sources import CohortSources
from steropes.studies.cohorts.two_cohort_entry import ComparisonRules
from steropes.studies.comparative.confounder_selection_settings import SelectedConfounders
from steropes.studies.comparative.grid_questions_and_analyses import (
    Outcome,
    Question,
    StudyAnalysis,
)
from steropes.studies.covariates.covariate_analysis_catalogue import ANALYSES
from steropes.studies.covariates.feature_extraction import FeatureRules
from steropes.studies.specifications.grid_specification import GridSpec

if TYPE_CHECKING:
    from steropes.studies.specifications.study_settings import StudySettings

__all__ = [
    "ALTERNATIVES",
    "CRUDE",
    "LARGEST_WEIGHT",
    "MAIN",
    "MATCHED",
    "OWN_SCORES",
    "risk_analyses",
    "study_roles",
    "study_sources",
    "study_specification",
]

TARGET, COMPARATOR, OUTCOME = 1, 2, 3  # ids of the cohorts
ROLES = ("target", "comparator", "outcome")  # in the order of these ids
MAIN, MATCHED, CRUDE = 1, 2, 3  # ids of the analyses
# The other ways to adjust by the same scores, by the ids of their analyses.
ALTERNATIVES = {
    4: "matched 1 to 10 at most, weighted",
    5: "within five strata of the score",
    6: "weighted as the target",
    7: "weighted as everybody",
    8: "weighted by overlap",
}
# The ways to adjust by scores of their own.
OWN_SCORES = {9: "matched by selected covariates (hdPS)"}
FIRST_RISK = 101  # id of the analysis of the first of the times of risks
LARGEST_WEIGHT = 10.0
# Sex, age group, year of the start, and each concept that is recorded in the long window.
COVARIATES = (1, 3, 6, 102, 402, 502, 702, 802)


def study_roles(settings: StudySettings) -> dict[int, tuple[int, str]]:
    """Return the number of each cohort in the tables of a study, and its role, by the given ids."""
    s = settings
    roles = dict(zip(s.roles, ROLES, strict=False))
    roles |= {i: f"outcome {i}" for i in s.further_outcomes}
    roles |= {i: f"negative control {i}" for i in (*s.controls.cohorts, *s.controls.concepts)}
    if s.nesting is not None:
        roles[s.nesting] = "indication"
    return {i: (number, roles[i]) for number, i in enumerate(s.roles, 1)}


def risk_analyses(settings: StudySettings) -> dict[int, int]:
    """Return the day at risk by the id of the analysis that estimates the risks by this day."""
    return dict(enumerate(settings.risk_times, FIRST_RISK))


def study_sources(settings: StudySettings) -> CohortSources:
    """Return the sources of the cohorts of a study, by the given ids of concepts or cohorts."""
    s = settings

    def concepts(concept: int) -> ConceptSet:
        return ConceptSet((concept,), descendants=s.descendants)

    controls = {c: concepts(c) for c in s.controls.concepts}
    if s.cohorts is not None:
        return replace(s.cohorts, conditions={**s.cohorts.conditions, **controls})
    outcomes = {c: concepts(c) for c in (s.outcome, *s.further_outcomes)}
    nesting: dict[int, Indication] = {}
    if s.nesting is not None:
        nesting[s.nesting] = Indication((s.nesting,), (), s.descendants, s.nesting_days)
    drugs = {c: concepts(c) for c in (s.target, s.comparator)}
    return CohortSources(drugs=drugs, conditions={**outcomes, **controls}, indications=nesting)


def study_specification(settings: StudySettings, tables: Collection[str]) -> GridSpec:
    """Write a one-question study as a specification, with the cohorts numbered by `study_roles`.

    Parameters
    ----------
    tables : collection of str
        The names of the tables of the database; covariates come from those that exist.
    """
    s, roles = settings, study_roles(settings)
    outcomes = [Outcome(roles[i][0]) for i in (s.outcome, *s.further_outcomes)]
    outcomes += [Outcome(roles[i][0], 1.0) for i in (*s.controls.cohorts, *s.controls.concepts)]
    question = Question(
        TARGET,
        COMPARATOR,
        tuple(outcomes),
        nesting=None if s.nesting is None else roles[s.nesting][0],
        exclude=s.exclude if s.cohorts else (s.target, s.comparator, *s.exclude),
    )
    return GridSpec(
        study_sources(s),
        (question,),
        _analyses(s, tuple(a for a in COVARIATES if (ANALYSES[a].table or "person") in tables)),
        thresholds=s.thresholds,
        schema=s.schema,
        min_cell=s.min_cell,
        time_zone=s.time_zone,
        observed_until=s.observed_until,
    )


def _analyses(s: StudySettings, covariates: tuple[int, ...]) -> tuple[StudyAnalysis, ...]:
    """Create the main, the matched, the crude and the alternative analyses, ordered by id."""
    common: dict[str, Any] = {
        "cohorts": ComparisonRules(
            both="keep first", washout_days=s.washout_days, common_period=False
        ),
        "at_risk": s.at_risk,
    }
    scored: dict[str, Any] = common | {
        "features": FeatureRules(
            covariates, long_days=s.window_days, descendants=s.descendants, age_rule="birthdays"
        ),
        "propensity": PropensityRules(
            folds=s.folds,
            seed=s.seed,
            tidy=TidyRules(min_share=s.min_share, min_people=s.min_people),
        ),
    }
    # Without a calliper only equal scores pass.
    pairs = Match(caliper=max(s.caliper, 1e-9), seed=s.seed)
    weighted = OutcomeModel(weighted=True)
    by_weight = {**scored, "truncate": LARGEST_WEIGHT, "outcome_model": weighted}
    within = OutcomeModel(stratified=True)
    return (
        StudyAnalysis(MAIN, "matched, within pairs", match=pairs, outcome_model=within, **scored),
        StudyAnalysis(MATCHED, "matched", match=pairs, **scored),
        StudyAnalysis(CRUDE, "crude", propensity=None, unadjusted=True, **common),
        StudyAnalysis(
            4,
            ALTERNATIVES[4],
            match=Match(max_ratio=10, seed=s.seed),
            outcome_model=weighted,
            **scored,
        ),
        StudyAnalysis(5, ALTERNATIVES[5], stratify=Stratify(5), outcome_model=within, **scored),
        StudyAnalysis(6, ALTERNATIVES[6], estimand="att", **by_weight),
        StudyAnalysis(7, ALTERNATIVES[7], estimand="ate", **by_weight),
        StudyAnalysis(8, ALTERNATIVES[8], estimand="ato", **by_weight),
        *_selected(s, StudyAnalysis(9, match=pairs, outcome_model=within, **scored)),
        *(
            StudyAnalysis(
                number,
                f"risk by day {day}, {s.risk_model.upper()}",
                estimand="ate",
                outcome_model=OutcomeModel(kind=s.risk_model, horizon=day, seed=s.seed),
                **scored,
            )
            for number, day in risk_analyses(s).items()
        ),
    )


def _selected(s: StudySettings, matched: StudyAnalysis) -> tuple[StudyAnalysis, ...]:
    """Return the analysis by selected covariates, if it is asked for."""
    if s.selected_confounders is None:
        return ()
    chosen = SelectedConfounders(s.selected_confounders)
    return (replace(matched, description=OWN_SCORES[matched.id], selection=chosen),)
