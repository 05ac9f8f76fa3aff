"""Cohort tables, comparisons of cohorts and study populations.

Names are imported when they are first used, because most of them import estimators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from steropes.studies._optional_packages import lazy_names

if TYPE_CHECKING:  # for editors and type checkers
    from steropes.studies.cohorts.circe_cohort_definitions import circe_cohorts
    from steropes.studies.cohorts.cohort_builders import (
        ConceptSet,
        Indication,
        condition_cohorts,
        drug_era_cohorts,
        read_cohorts,
    )
    from steropes.studies.cohorts.cohort_sources import CohortSources
    from steropes.studies.cohorts.cohort_table import CohortTable
    from steropes.studies.cohorts.new_conditions_after_start import incident_conditions
    from steropes.studies.cohorts.study_populations import (
        PopulationRules,
        StudyPopulation,
        study_population,
    )
    from steropes.studies.cohorts.time_at_risk import TimeAtRisk
    from steropes.studies.cohorts.two_cohort_entry import (
        Comparison,
        ComparisonRules,
        compare_cohorts,
    )

# The module of each name.
_HOMES = {
    "circe_cohort_definitions": ["circe_cohorts"],
    "cohort_builders": [
        "ConceptSet",
        "Indication",
        "condition_cohorts",
        "drug_era_cohorts",
        "read_cohorts",
    ],
    "cohort_sources": ["CohortSources"],
    "cohort_table": ["CohortTable"],
    "new_conditions_after_start": ["incident_conditions"],
    "study_populations": ["PopulationRules", "StudyPopulation", "study_population"],
    "time_at_risk": ["TimeAtRisk"],
    "two_cohort_entry": ["Comparison", "ComparisonRules", "compare_cohorts"],
}

__all__ = [
    "CohortSources",
    "CohortTable",
    "Comparison",
    "ComparisonRules",
    "ConceptSet",
    "Indication",
    "PopulationRules",
    "StudyPopulation",
    "TimeAtRisk",
    "circe_cohorts",
    "compare_cohorts",
    "condition_cohorts",
    "drug_era_cohorts",
    "incident_conditions",
    "read_cohorts",
    "study_population",
]

if not TYPE_CHECKING:
    __getattr__, _ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
