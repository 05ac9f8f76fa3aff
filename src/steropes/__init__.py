"""Penalised regression for health data at scale, with certified optima.

Estimators follow scikit-learn, for example ``CoxRegression(prior=Laplace(), cv=10).fit(X, y)``;
``help(steropes.CoxRegression)`` describes one, and ``help(steropes.PenalizedModel)`` the methods
that all share. `steropes.designs` has study designs on tables, `steropes.studies` runs whole
studies on OMOP databases, `steropes.plots` draws fits, `steropes.datasets` has examples, and
`steropes.federated` fits models over sites.

Names are imported when they are first used, so that ``import steropes`` is quick.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from .errors import DataError, MonotoneLikelihoodWarning, SeparationError
from .version import __version__ as __version__

if TYPE_CHECKING:  # for editors and type checkers; a test compares these names with __all__
    from . import datasets, designs, federated, plots, studies
    from .convergence_warning import NotConvergedWarning
    from .data import Surv
    from .data.aalen_johansen import AalenJohansen, aalen_johansen
    from .data.kaplan_meier import kaplan_meier
    from .data.survival_curve import KaplanMeier
    from .design_matrix import Design, as_design
    from .designs.case_series_from_tables.case_series_result import CaseSeriesResult
    from .designs.case_series_from_tables.self_controlled_case_series import (
        self_controlled_case_series,
    )
    from .designs.comparative.compare_groups import compare_groups
    from .designs.comparative.group_comparison import GroupComparison
    from .fit.shards import ShardedDesign
    from .infer.brier_score import brier_score, integrated_brier_score
    from .infer.calibration_table import calibration_table
    from .infer.decision_curve import decision_curve
    from .infer.logrank import logrank_test
    from .infer.pairwise_tests import pairwise_logrank_test, restricted_mean_test
    from .models import (
        ConditionalLogisticRegression,
        ConditionalPoissonRegression,
        CoxRegression,
        FineGrayRegression,
        GammaRegression,
        LinearRegression,
        LogisticRegression,
        MultinomialLogisticRegression,
        NegativeBinomialRegression,
        PoissonRegression,
        PooledLogisticRegression,
        SelfControlledCaseSeries,
        StepFunction,
        fit_many,
    )
    from .models.checks.assumption_checks import AssumptionCheck
    from .models.cumulative import (
        Censored,
        CumulativeProbabilityModel,
        DivideAndCombine,
        EqualQuantileBins,
        RoundDecimals,
        RoundSignificant,
        compare_links,
    )
    from .models.curves.standardized_survival import StandardizedIncidence, StandardizedSurvival
    from .models.estimators.penalized_model import PenalizedModel
    from .models.inference.nested_model_tests import compare_nested_fits
    from .models.repeated_fits.coefficient_paths import coefficient_path
    from .models.validation.internal_external_validation import validate_by_group
    from .models.validation.survival_discrimination_measures import time_dependent_auc
    from .priors import (
        BrokenAdaptiveRidge,
        ElasticNet,
        FusedLaplace,
        GroupLaplace,
        Hierarchical,
        Jeffreys,
        JointLaplace,
        JointNormal,
        Laplace,
        Normal,
        glmnet_lambda,
        variance_from_glmnet,
    )
    from .select import CrossValidation, CyclopsSearch, InformationCriterion
    from .studies import (
        ComparativeStudy as ComparativeStudy,
    )
    from .studies import (
        OmopDatabase as OmopDatabase,
    )
    from .studies import (
        StudySettings as StudySettings,
    )
    from .studies import (
        comparative_study as comparative_study,
    )
    from .studies import (
        demo_database as demo_database,
    )

# The module that defines each public name.
_HOMES = {
    "convergence_warning": ["NotConvergedWarning"],
    "data": ["Surv"],
    "data.aalen_johansen": ["AalenJohansen", "aalen_johansen"],
    "data.kaplan_meier": ["kaplan_meier"],
    "data.survival_curve": ["KaplanMeier"],
    "design_matrix": ["Design", "as_design"],
    "designs.comparative.compare_groups": ["compare_groups"],
    "designs.comparative.group_comparison": ["GroupComparison"],
    "designs.case_series_from_tables.case_series_result": ["CaseSeriesResult"],
    "designs.case_series_from_tables.self_controlled_case_series": ["self_controlled_case_series"],
    "infer.brier_score": ["brier_score", "integrated_brier_score"],
    "infer.calibration_table": ["calibration_table"],
    "infer.decision_curve": ["decision_curve"],
    "infer.logrank": ["logrank_test"],
    "infer.pairwise_tests": ["pairwise_logrank_test", "restricted_mean_test"],
    "models": [
        "ConditionalLogisticRegression",
        "ConditionalPoissonRegression",
        "CoxRegression",
        "FineGrayRegression",
        "GammaRegression",
        "LinearRegression",
        "LogisticRegression",
        "MultinomialLogisticRegression",
        "NegativeBinomialRegression",
        "PoissonRegression",
        "PooledLogisticRegression",
        "SelfControlledCaseSeries",
        "StepFunction",
        "fit_many",
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
    "fit.shards": ["ShardedDesign"],
    "models.checks.assumption_checks": ["AssumptionCheck"],
    "models.estimators.penalized_model": ["PenalizedModel"],
    "models.repeated_fits.coefficient_paths": ["coefficient_path"],
    "models.validation.survival_discrimination_measures": ["time_dependent_auc"],
    "models.validation.internal_external_validation": ["validate_by_group"],
    "models.inference.nested_model_tests": ["compare_nested_fits"],
    "models.curves.standardized_survival": ["StandardizedIncidence", "StandardizedSurvival"],
    "priors": [
        "BrokenAdaptiveRidge",
        "ElasticNet",
        "FusedLaplace",
        "GroupLaplace",
        "Hierarchical",
        "Jeffreys",
        "JointLaplace",
        "JointNormal",
        "Laplace",
        "Normal",
        "glmnet_lambda",
        "variance_from_glmnet",
    ],
    "select": ["CrossValidation", "CyclopsSearch", "InformationCriterion"],
    "studies": [
        "ComparativeStudy",
        "OmopDatabase",
        "StudySettings",
        "comparative_study",
        "demo_database",
    ],
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}
# Subpackages that users reach as attributes, such as ``steropes.plots.forest``.
_SUBPACKAGES = ("datasets", "designs", "federated", "plots", "studies")

# The names of `steropes.studies` are left out, because ``import *`` looks up every name, and those
# need the packages of the extra study. ``dir`` has them where these packages are installed.
__all__ = [
    "AalenJohansen",
    "AssumptionCheck",
    "BrokenAdaptiveRidge",
    "CaseSeriesResult",
    "Censored",
    "ConditionalLogisticRegression",
    "ConditionalPoissonRegression",
    "CoxRegression",
    "CrossValidation",
    "CumulativeProbabilityModel",
    "CyclopsSearch",
    "DataError",
    "Design",
    "DivideAndCombine",
    "ElasticNet",
    "EqualQuantileBins",
    "FineGrayRegression",
    "FusedLaplace",
    "GammaRegression",
    "GroupComparison",
    "GroupLaplace",
    "Hierarchical",
    "InformationCriterion",
    "Jeffreys",
    "JointLaplace",
    "JointNormal",
    "KaplanMeier",
    "Laplace",
    "LinearRegression",
    "LogisticRegression",
    "MonotoneLikelihoodWarning",
    "MultinomialLogisticRegression",
    "NegativeBinomialRegression",
    "Normal",
    "NotConvergedWarning",
    "PenalizedModel",
    "PoissonRegression",
    "PooledLogisticRegression",
    "RoundDecimals",
    "RoundSignificant",
    "SelfControlledCaseSeries",
    "SeparationError",
    "ShardedDesign",
    "StandardizedIncidence",
    "StandardizedSurvival",
    "StepFunction",
    "Surv",
    "aalen_johansen",
    "as_design",
    "brier_score",
    "calibration_table",
    "coefficient_path",
    "compare_groups",
    "compare_links",
    "compare_nested_fits",
    "datasets",
    "decision_curve",
    "designs",
    "federated",
    "fit_many",
    "glmnet_lambda",
    "integrated_brier_score",
    "kaplan_meier",
    "logrank_test",
    "pairwise_logrank_test",
    "plots",
    "restricted_mean_test",
    "self_controlled_case_series",
    "studies",
    "time_dependent_auc",
    "validate_by_group",
    "variance_from_glmnet",
]


if not TYPE_CHECKING:  # type checkers would accept any name if they saw __getattr__

    def __getattr__(name: str) -> Any:
        if name in _SUBPACKAGES:
            return importlib.import_module(f".{name}", __name__)
        if name in _HOME:
            value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
            globals()[name] = value
            return value
        raise AttributeError(f"module 'steropes' has no attribute {name!r}")


def __dir__() -> list[str]:
    complete = all(importlib.util.find_spec(name) for name in ("duckdb", "pydantic"))
    listed = {name for name, home in _HOME.items() if complete and home == "studies"}
    return sorted({*__all__, *listed, "__version__"})
