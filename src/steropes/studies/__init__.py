"""Whole studies on an OMOP database: cohorts, propensity scores, matching, effects, reports.

This room puts the estimators to work; it fits nothing itself. Importing it imports no database,
plotting or terminal library: each is imported where it is first needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names for editors and type checkers; a test compares them
    from ..federated import FederatedPlan, FederatedResult, FederatedSite, Owner, OwnerRules
    from .adjust.comparability import Balance, covariate_balance
    from .adjust.matching import Match, match_scores, matched_weights
    from .adjust.scores import PropensityRules, PropensityScores, fit_scores
    from .adjust.strata import Stratify, score_strata
    from .adjust.table_one import table_one
    from .adjust.trimming import Trim, trim
    from .adjust.weights import propensity_weights
    from .balance import balance_table, standardized_differences
    from .cohorts import (
        Cohort,
        CohortRules,
        CohortTable,
        Comparison,
        ComparisonRules,
        ConceptSet,
        StudyPopulation,
        TimeAtRisk,
        circe_cohorts,
        compare_cohorts,
        condition_cohorts,
        drug_era_cohorts,
        new_user_cohort,
        read_cohorts,
        study_population,
    )
    from .comparative import ComparativeStudy, StudySettings, comparative_study
    from .concepts import find_concepts
    from .controls import (
        ControlEstimates,
        ErrorModel,
        Synthesis,
        SystematicError,
        calibrate,
        calibrate_interval,
        control_performance,
        fit_error_model,
        fit_systematic_error,
        leave_one_group_out,
        leave_one_out,
    )
    from .covariates import CovariateRules, Covariates, extract_covariates
    from .covariates.features import FeatureRules, Features, extract_features
    from .covariates.tidy import Tidied, TidyRules, tidy
    from .demo import DEMO, demo_database
    from .diagnostics import Diagnostics, DiagnosticThresholds
    from .effects import hazard_ratio, incidence_rates, minimum_detectable_ratio
    from .evidence import combine_normal, combine_profiles, random_effects
    from .evidence.archives import combine_archives
    from .federation.profiles import FederatedProfiles
    from .federation.run import (
        federate,
        federate_answer,
        federate_finish,
        federate_init,
        federate_step,
        federate_withdraw,
    )
    from .grid import (
        AnalysisResult,
        Outcome,
        Question,
        StudyAnalysis,
        Workbench,
    )
    from .grid.controls import analysis_performance
    from .grid.positive import PositiveControls
    from .grid.run import GridResults, run_grid
    from .grid.spec import CohortSources, ControlSet, GridSpec, RiskWindow, read_spec
    from .installed import environment
    from .matching import match_pairs, match_propensity
    from .omop import OmopDatabase
    from .outcomes import (
        AbsoluteEffect,
        Estimate,
        OutcomeModel,
        absolute_effect,
        curve_table,
        detectable_ratio,
        estimate_effect,
    )
    from .propensity import Propensity, auc, fit_propensity, preference_score
    from .sccs.grid import (
        CaseSeriesGrid,
        CaseSeriesGridResults,
        SeriesAnalysis,
        SeriesQuestion,
        run_case_series_grid,
    )
    from .sccs.presets import case_series_settings
    from .sccs.settings import CaseRules, CaseSeriesSettings, ExposureWindow, Spline, control_window
    from .sccs.specification import case_series_grid_schema, read_case_series_grid
    from .sccs.study import CaseSeries, case_series
    from .sccs.thresholds import Thresholds

_WHERE = {
    "Balance": "adjust.comparability",
    "covariate_balance": "adjust.comparability",
    "Match": "adjust.matching",
    "match_scores": "adjust.matching",
    "matched_weights": "adjust.matching",
    "PropensityRules": "adjust.scores",
    "PropensityScores": "adjust.scores",
    "fit_scores": "adjust.scores",
    "Stratify": "adjust.strata",
    "score_strata": "adjust.strata",
    "table_one": "adjust.table_one",
    "Trim": "adjust.trimming",
    "trim": "adjust.trimming",
    "propensity_weights": "adjust.weights",
    "balance_table": "balance",
    "standardized_differences": "balance",
    "Cohort": "cohorts",
    "CohortRules": "cohorts",
    "CohortTable": "cohorts",
    "Comparison": "cohorts",
    "ComparisonRules": "cohorts",
    "ConceptSet": "cohorts",
    "StudyPopulation": "cohorts",
    "TimeAtRisk": "cohorts",
    "circe_cohorts": "cohorts",
    "compare_cohorts": "cohorts",
    "condition_cohorts": "cohorts",
    "drug_era_cohorts": "cohorts",
    "new_user_cohort": "cohorts",
    "read_cohorts": "cohorts",
    "study_population": "cohorts",
    "ComparativeStudy": "comparative",
    "StudySettings": "comparative",
    "comparative_study": "comparative",
    "find_concepts": "concepts",
    "ControlEstimates": "controls",
    "ErrorModel": "controls",
    "Synthesis": "controls",
    "SystematicError": "controls",
    "calibrate": "controls",
    "calibrate_interval": "controls",
    "fit_error_model": "controls",
    "fit_systematic_error": "controls",
    "leave_one_group_out": "controls",
    "leave_one_out": "controls",
    "control_performance": "controls",
    "CovariateRules": "covariates",
    "Covariates": "covariates",
    "extract_covariates": "covariates",
    "FeatureRules": "covariates.features",
    "Features": "covariates.features",
    "extract_features": "covariates.features",
    "Tidied": "covariates.tidy",
    "TidyRules": "covariates.tidy",
    "tidy": "covariates.tidy",
    "DEMO": "demo",
    "demo_database": "demo",
    "DiagnosticThresholds": "diagnostics",
    "Diagnostics": "diagnostics",
    "hazard_ratio": "effects",
    "incidence_rates": "effects",
    "minimum_detectable_ratio": "effects",
    "environment": "installed",
    "combine_normal": "evidence",
    "combine_profiles": "evidence",
    "random_effects": "evidence",
    "combine_archives": "evidence.archives",
    "FederatedPlan": "federation.run",
    "FederatedProfiles": "federation.profiles",
    "FederatedResult": "federation.run",
    "FederatedSite": "federation.run",
    "federate": "federation.run",
    "federate_answer": "federation.run",
    "federate_finish": "federation.run",
    "federate_init": "federation.run",
    "federate_step": "federation.run",
    "federate_withdraw": "federation.run",
    "Owner": "federation.run",
    "OwnerRules": "federation.run",
    "AnalysisResult": "grid",
    "Outcome": "grid",
    "Question": "grid",
    "StudyAnalysis": "grid",
    "Workbench": "grid",
    "analysis_performance": "grid.controls",
    "PositiveControls": "grid.positive",
    "GridResults": "grid.run",
    "run_grid": "grid.run",
    "CohortSources": "grid.spec",
    "ControlSet": "grid.spec",
    "GridSpec": "grid.spec",
    "RiskWindow": "grid.spec",
    "read_spec": "grid.spec",
    "match_pairs": "matching",
    "match_propensity": "matching",
    "OmopDatabase": "omop",
    "Estimate": "outcomes",
    "OutcomeModel": "outcomes",
    "curve_table": "outcomes",
    "detectable_ratio": "outcomes",
    "AbsoluteEffect": "outcomes",
    "absolute_effect": "outcomes",
    "estimate_effect": "outcomes",
    "Propensity": "propensity",
    "auc": "propensity",
    "fit_propensity": "propensity",
    "preference_score": "propensity",
    "CaseSeriesGrid": "sccs.grid",
    "CaseSeriesGridResults": "sccs.grid",
    "SeriesAnalysis": "sccs.grid",
    "SeriesQuestion": "sccs.grid",
    "case_series_grid_schema": "sccs.specification",
    "read_case_series_grid": "sccs.specification",
    "run_case_series_grid": "sccs.grid",
    "case_series_settings": "sccs.presets",
    "CaseRules": "sccs.settings",
    "CaseSeriesSettings": "sccs.settings",
    "ExposureWindow": "sccs.settings",
    "Spline": "sccs.settings",
    "control_window": "sccs.settings",
    "CaseSeries": "sccs.study",
    "case_series": "sccs.study",
    "Thresholds": "sccs.thresholds",
}

__all__ = [
    "DEMO",
    "AbsoluteEffect",
    "AnalysisResult",
    "Balance",
    "CaseRules",
    "CaseSeries",
    "CaseSeriesGrid",
    "CaseSeriesGridResults",
    "CaseSeriesSettings",
    "Cohort",
    "CohortRules",
    "CohortSources",
    "CohortTable",
    "ComparativeStudy",
    "Comparison",
    "ComparisonRules",
    "ConceptSet",
    "ControlEstimates",
    "ControlSet",
    "CovariateRules",
    "Covariates",
    "DiagnosticThresholds",
    "Diagnostics",
    "ErrorModel",
    "Estimate",
    "ExposureWindow",
    "FeatureRules",
    "Features",
    "FederatedPlan",
    "FederatedProfiles",
    "FederatedResult",
    "FederatedSite",
    "GridResults",
    "GridSpec",
    "Match",
    "OmopDatabase",
    "Outcome",
    "OutcomeModel",
    "Owner",
    "OwnerRules",
    "PositiveControls",
    "Propensity",
    "PropensityRules",
    "PropensityScores",
    "Question",
    "RiskWindow",
    "SeriesAnalysis",
    "SeriesQuestion",
    "Spline",
    "Stratify",
    "StudyAnalysis",
    "StudyPopulation",
    "StudySettings",
    "Synthesis",
    "SystematicError",
    "Thresholds",
    "Tidied",
    "TidyRules",
    "TimeAtRisk",
    "Trim",
    "Workbench",
    "absolute_effect",
    "analysis_performance",
    "auc",
    "balance_table",
    "calibrate",
    "calibrate_interval",
    "case_series",
    "case_series_grid_schema",
    "case_series_settings",
    "circe_cohorts",
    "combine_archives",
    "combine_normal",
    "combine_profiles",
    "comparative_study",
    "compare_cohorts",
    "condition_cohorts",
    "control_performance",
    "control_window",
    "covariate_balance",
    "curve_table",
    "demo_database",
    "detectable_ratio",
    "drug_era_cohorts",
    "environment",
    "estimate_effect",
    "extract_covariates",
    "extract_features",
    "federate",
    "federate_answer",
    "federate_finish",
    "federate_init",
    "federate_step",
    "federate_withdraw",
    "find_concepts",
    "fit_error_model",
    "fit_propensity",
    "fit_scores",
    "fit_systematic_error",
    "hazard_ratio",
    "incidence_rates",
    "leave_one_group_out",
    "leave_one_out",
    "match_pairs",
    "match_propensity",
    "match_scores",
    "matched_weights",
    "minimum_detectable_ratio",
    "new_user_cohort",
    "preference_score",
    "propensity_weights",
    "random_effects",
    "read_case_series_grid",
    "read_cohorts",
    "read_spec",
    "run_case_series_grid",
    "run_grid",
    "score_strata",
    "standardized_differences",
    "study_population",
    "table_one",
    "tidy",
    "trim",
]


if not TYPE_CHECKING:  # to whom it would mean that every name is there

    def __getattr__(name: str) -> Any:
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
