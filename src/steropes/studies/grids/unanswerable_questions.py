"""Check before a grid of case series that its cohorts and concepts can answer a question."""

from __future__ import annotations

from collections.abc import Mapping

from steropes.errors import DataError
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.checked_concept_descendants import Descendants
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.sccs.cases.era_sources import concept_members
from steropes.studies.sccs.specification.case_series_grid_settings import (
    CaseSeriesGrid,
    SeriesQuestion,
)
from steropes.studies.sccs.specification.case_series_settings import CaseRules

__all__ = ["cohort_not_built", "refuse_unanswerable_grid"]


def refuse_unanswerable_grid(
    db: OmopDatabase, grid: CaseSeriesGrid, cohorts: CohortTable | None, refused: Mapping[int, str]
) -> None:
    """Raise if no question of interest can be answered."""
    asked = [q for q in grid.questions if q.true_ratio is None] or grid.questions
    family = Descendants(db)
    whys = []
    for question in asked:
        for analysis in grid.analyses:
            rules = analysis.settings_for(question, grid).cases
            why = cohort_not_built(question, rules, refused) or unknown_concept_or_cohort(
                family, question, rules, cohorts
            )
            if not why:
                return
            whys.append(why)
    raise DataError("; ".join(dict.fromkeys(whys)))


def unknown_concept_or_cohort(
    family: Descendants, question: SeriesQuestion, rules: CaseRules, cohorts: CohortTable | None
) -> str:
    """Describe unknown concepts or cohorts of a question; "" if all are known."""
    used = [
        (rules.outcomes_from, question.outcome),
        (rules.exposures_from, question.exposure),
        (rules.exposures_from, rules.restrict_to_exposure),
        ("cohort", rules.nesting_cohort),
    ]
    entered = () if cohorts is None else cohorts.ids
    try:
        for table, number in used:
            if number is None:
                continue
            if table == "cohort" and number not in entered:
                return _without_entries(number, cohorts)
            concept_members(family, rules, table, [number])
    except DataError as error:
        return str(error)
    return ""


def _without_entries(number: int, cohorts: CohortTable | None) -> str:
    """Describe a cohort without entries: a defined one has a name."""
    name = None if cohorts is None else (cohorts.names or {}).get(number)
    if name is None:
        return f"cohort {number} is not defined and has no entries in a cohort table"
    return f"cohort {number} ({name}) has no entries: nobody in the database is in it"


def cohort_not_built(question: SeriesQuestion, rules: CaseRules, refused: Mapping[int, str]) -> str:
    """Describe a required cohort that cannot be built; "" if all can."""
    exposures = (question.exposure, rules.restrict_to_exposure)
    needed = [
        question.outcome if rules.outcomes_from == "cohort" else None,
        rules.nesting_cohort,
        *(exposures if rules.exposures_from == "cohort" else ()),
    ]
    return next((refused[i] for i in needed if i is not None and i in refused), "")
