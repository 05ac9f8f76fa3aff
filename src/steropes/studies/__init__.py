"""Whole studies on an OMOP database: cohorts, propensity scores, matching, effects, reports.

This room puts the estimators to work; it fits nothing itself. Importing it imports no database,
plotting or terminal library: each is imported where it is first needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_WHERE = {
    "ComparativeStudy": "comparative",
    "StudySettings": "comparative",
    "comparative_study": "comparative",
    "OmopDatabase": "omop",
    "Cohort": "cohorts",
    "CohortRules": "cohorts",
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

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
