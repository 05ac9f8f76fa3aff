"""Cohort tables, comparisons of cohorts and study populations."""

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
from steropes.studies.cohorts.study_population import (
    PopulationRules,
    StudyPopulation,
    study_population,
)
from steropes.studies.cohorts.time_at_risk import TimeAtRisk
from steropes.studies.cohorts.two_cohort_entry import Comparison, ComparisonRules, compare_cohorts

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
