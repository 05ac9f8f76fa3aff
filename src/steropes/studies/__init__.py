"""Whole studies on an OMOP database: cohorts, propensity scores, matching, effects, reports.

This room puts the estimators to work; it fits nothing itself. Importing it imports no database,
plotting or terminal library: each is imported where it is first needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names for editors and type checkers; a test compares them
    from .balance import balance_table, standardized_differences
    from .cohorts import (
        Cohort,
        CohortRules,
        CohortTable,
        ConceptSet,
        condition_cohorts,
        drug_era_cohorts,
        new_user_cohort,
        read_cohorts,
    )
    from .comparative import ComparativeStudy, StudySettings, comparative_study
    from .covariates import CovariateRules, Covariates, extract_covariates
    from .demo import DEMO, demo_database
    from .effects import hazard_ratio, incidence_rates, minimum_detectable_ratio
    from .matching import match_pairs, match_propensity
    from .omop import OmopDatabase
    from .propensity import Propensity, auc, fit_propensity, preference_score

_WHERE = {
    "ComparativeStudy": "comparative",
    "StudySettings": "comparative",
    "comparative_study": "comparative",
    "OmopDatabase": "omop",
    "Cohort": "cohorts",
    "CohortRules": "cohorts",
    "CohortTable": "cohorts",
    "ConceptSet": "cohorts",
    "condition_cohorts": "cohorts",
    "drug_era_cohorts": "cohorts",
    "read_cohorts": "cohorts",
    "new_user_cohort": "cohorts",
    "CovariateRules": "covariates",
    "Covariates": "covariates",
    "extract_covariates": "covariates",
    "Propensity": "propensity",
    "auc": "propensity",
    "fit_propensity": "propensity",
    "preference_score": "propensity",
    "match_pairs": "matching",
    "match_propensity": "matching",
    "balance_table": "balance",
    "standardized_differences": "balance",
    "hazard_ratio": "effects",
    "incidence_rates": "effects",
    "minimum_detectable_ratio": "effects",
    "DEMO": "demo",
    "demo_database": "demo",
}

__all__ = [
    "DEMO",
    "Cohort",
    "CohortRules",
    "CohortTable",
    "ComparativeStudy",
    "ConceptSet",
    "CovariateRules",
    "Covariates",
    "OmopDatabase",
    "Propensity",
    "StudySettings",
    "auc",
    "balance_table",
    "comparative_study",
    "condition_cohorts",
    "demo_database",
    "drug_era_cohorts",
    "extract_covariates",
    "fit_propensity",
    "hazard_ratio",
    "incidence_rates",
    "match_pairs",
    "match_propensity",
    "minimum_detectable_ratio",
    "new_user_cohort",
    "preference_score",
    "read_cohorts",
    "standardized_differences",
]


if not TYPE_CHECKING:  # to whom it would mean that every name is there

    def __getattr__(name: str) -> Any:
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
