"""Who is studied: cohorts as tables, new users of two drugs, study populations, attrition."""

from .entries import CohortTable
from .new_users import (
    RULES,
    Cohort,
    CohortRules,
    find_new_users,
    new_user_cohort,
    why_empty,
)
from .sources import ConceptSet, condition_cohorts, drug_era_cohorts, read_cohorts

__all__ = [
    "RULES",
    "Cohort",
    "CohortRules",
    "CohortTable",
    "ConceptSet",
    "condition_cohorts",
    "drug_era_cohorts",
    "find_new_users",
    "new_user_cohort",
    "read_cohorts",
    "why_empty",
]
