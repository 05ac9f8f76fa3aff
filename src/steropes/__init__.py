"""steropes: penalised regression for health data at scale, with certified optima.

Names are imported when they are first used, so that ``import steropes`` is quick.
"""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from .errors import DataError, NotConvergedWarning, SeparationError

try:
    __version__ = version("steropes")
except PackageNotFoundError:  # a source tree that was never installed
    __version__ = "0+unknown"

_HOMES = {
    "data": ["Surv"],
    "data.kaplan_meier": ["KaplanMeier", "kaplan_meier"],
    "design": ["Design", "as_design"],
    "models": [
        "ConditionalLogisticRegression",
        "ConditionalPoissonRegression",
        "CoxRegression",
        "FineGrayRegression",
        "LinearRegression",
        "LogisticRegression",
        "PoissonRegression",
        "PooledLogisticRegression",
        "SelfControlledCaseSeries",
    ],
    "models.cumulative": [
        "Censored",
        "CumulativeProbabilityModel",
        "DivideAndCombine",
        "EqualQuantileBins",
        "RoundDecimals",
        "RoundSignificant",
        "compare_links",
    ],
    "priors": ["ElasticNet", "Laplace", "Normal", "glmnet_lambda", "variance_from_glmnet"],
    "select": ["CrossValidation"],
    "studies": [
        "ComparativeStudy",
        "OmopDatabase",
        "StudySettings",
        "comparative_study",
        "demo_database",
        "extract_covariates",
        "fit_propensity",
        "match_propensity",
        "new_user_cohort",
        "standardized_differences",
    ],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = ["DataError", "NotConvergedWarning", "SeparationError", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'steropes' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
