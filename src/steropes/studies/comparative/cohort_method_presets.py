"""Settings with the defaults of CohortMethod, in place of the library's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from steropes.designs.effects.outcome_model import OutcomeModel
from steropes.designs.propensity.propensity_score_fit import PropensityRules
from steropes.designs.propensity.score_matching import Match
from steropes.studies.cohorts.time_at_risk import TimeAtRisk
from steropes.studies.cohorts.two_cohort_entry import ComparisonRules
from steropes.studies.comparative.grid_questions_and_analyses import StudyAnalysis

__all__ = ["cohort_method", "cohort_method_demo"]

# From the start to the end of the cohort, without outcomes earlier in the observation period.
AT_RISK = TimeAtRisk(start=0, end=0, end_anchor="cohort end", look_back=99_999)


def cohort_method(id: int = 1, description: str = "", **settings: Any) -> StudyAnalysis:
    """Return an analysis with the defaults of R's CohortMethod 6.

    Who enters the second cohort is censored there; first exposure, 365 days of observation
    before, the common period; no one with the outcome earlier in the observation period; at risk
    from the cohort's start to its end; a propensity model with a Laplace prior by
    cross-validation on 250,000 people of an arm; and Cox's model of the treatment, ties after
    Breslow, with the profile interval, also where there are weights (where a robust one would be
    right). A year of age is 365.25 days. An ``outcome_model`` that is given keeps its own ties.

    Parameters
    ----------
    id, description
        Of the analysis.
    **settings
        Fields of ``StudyAnalysis`` that are to differ.
    """
    model = settings.pop("outcome_model", _profile())
    settings.setdefault("at_risk", AT_RISK)
    cohorts = replace(settings.pop("cohorts", ComparisonRules()), age_rule="365.25 days")
    return StudyAnalysis(id, description, cohorts=cohorts, outcome_model=model, **settings)


def cohort_method_demo() -> tuple[StudyAnalysis, ...]:
    """The four analyses whose results CohortMethod 6 ships for its viewer.

    Crude, matched with up to 100 comparators, weighted by the odds of the score (at most ten),
    and matched with an interaction with sex. Of everybody the first 183 days of observation are
    needed; time at risk ends 30 days after the cohort's end; the propensity model's prior has a
    variance of 0.01. As in R, the crude estimate may be read.
    """
    common: dict[str, Any] = {
        "cohorts": ComparisonRules(both="remove all", washout_days=183),
        "at_risk": replace(AT_RISK, end=30, censor_at_new_window=True),
    }
    scored = {**common, "propensity": PropensityRules(variance=0.01)}
    match = Match(max_ratio=100)
    female = 8532001
    return (
        cohort_method(
            1, "No matching, simple outcome model", propensity=None, unadjusted=True, **common
        ),
        cohort_method(
            2, "Matching", match=match, outcome_model=_profile(stratified=True), **scored
        ),
        cohort_method(3, "IPTW", truncate=10.0, outcome_model=_profile(weighted=True), **scored),
        cohort_method(
            4,
            "Matching with gender interaction",
            match=match,
            outcome_model=_profile(stratified=True, interactions=(female,)),
            **scored,
        ),
    )


def _profile(**settings: Any) -> OutcomeModel:
    """Create an outcome model with CohortMethod's profile intervals and Breslow ties."""
    return OutcomeModel(interval="profile", ties="breslow", **settings)
