"""Cohort tables, new users of two drugs, comparisons of cohorts and study populations."""

from steropes.studies.cohorts.circe import circe_cohorts
from steropes.studies.cohorts.cohort_builders import (
    ConceptSet,
    condition_cohorts,
    drug_era_cohorts,
    read_cohorts,
)
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.cohorts.comparison import Comparison, ComparisonRules, compare_cohorts
from steropes.studies.cohorts.new_users import (
    RULES,
    Cohort,
    CohortRules,
    describe_empty_arm,
    find_new_users,
    new_user_cohort,
)
from steropes.studies.cohorts.study_population import StudyPopulation, TimeAtRisk, study_population

__all__ = [
    "RULES",
    "Cohort",
    "CohortRules",
    "CohortTable",
    "Comparison",
    "ComparisonRules",
    "ConceptSet",
    "StudyPopulation",
    "TimeAtRisk",
    "circe_cohorts",
    "compare_cohorts",
    "condition_cohorts",
    "describe_empty_arm",
    "drug_era_cohorts",
    "find_new_users",
    "new_user_cohort",
    "read_cohorts",
    "study_population",
]
