"""Whole studies on an OMOP database: cohorts, propensity scores, matching, effects, reports.

This room puts the estimators to work; it fits nothing itself. Importing it imports no database,
plotting or terminal library: each is imported where it is first needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._optional_packages import need

if TYPE_CHECKING:  # the same names for editors and type checkers; a test compares them
    from ..designs.case_series.model_settings import Spline
    from ..designs.controls import (
        ControlEstimates,
        ErrorModel,
        SystematicError,
        calibrate,
        calibrate_interval,
        control_performance,
        fit_error_model,
        fit_systematic_error,
        leave_one_group_out,
        leave_one_out,
    )
    from ..designs.controls.signal_injection import Synthesis
    from ..designs.covariates.preprocessing import Tidied, TidyRules, tidy
    from ..designs.effects.absolute_effects import AbsoluteEffect, absolute_effect
    from ..designs.effects.arm_summaries import incidence_rates
    from ..designs.effects.effect_estimate import Estimate, estimate_effect
    from ..designs.effects.outcome_model import OutcomeModel
    from ..designs.effects.outcome_summaries import curve_table, detectable_ratio
    from ..designs.evidence import Profile, combine_normal, combine_profiles, random_effects
    from ..designs.propensity.covariate_balance import Balance, covariate_balance
    from ..designs.propensity.estimated_propensity_weights import EstimatedWeights
    from ..designs.propensity.pair_matching import match_pairs
    from ..designs.propensity.propensity_model import Propensity, auc, preference_score
    from ..designs.propensity.propensity_scores import PropensityRules, PropensityScores, fit_scores
    from ..designs.propensity.propensity_weights import propensity_weights
    from ..designs.propensity.score_matching import Match, match_scores, matched_weights
    from ..designs.propensity.score_strata import Stratify, score_strata
    from ..designs.propensity.score_trimming import Trim, trim
    from ..federated import FederatedPlan, FederatedResult, FederatedSite, Owner, OwnerRules
    from .archives.archive_synthesis import combine_archives
    from .cli.environment import environment
    from .cohorts import (
        CohortTable,
        Comparison,
        ComparisonRules,
        ConceptSet,
        Indication,
        StudyPopulation,
        TimeAtRisk,
        circe_cohorts,
        compare_cohorts,
        condition_cohorts,
        drug_era_cohorts,
        read_cohorts,
        study_population,
    )
    from .cohorts.study_population import PopulationRules
    from .comparative.analysis_cache import Workbench
    from .comparative.grid_questions_and_analyses import (
        BalanceFilter,
        Outcome,
        Question,
        StudyAnalysis,
    )
    from .comparative.outcome_analysis import AnalysisResult
    from .covariates.feature_extraction import FeatureRules, Features, extract_features
    from .covariates.table_one import table_one
    from .database.concept_search import find_concepts
    from .database.hypertension_database import hypertension_database
    from .database.omop import OmopDatabase
    from .database.synthetic_database import synthetic_database
    from .diagnostics.comparative_diagnostics import Diagnostics, DiagnosticThresholds
    from .diagnostics.diagnostic import register_diagnostic
    from .federation.federated_runs import (
        federate,
        federate_answer,
        federate_finish,
        federate_init,
        federate_step,
        federate_withdraw,
    )
    from .federation.site_profiles import FederatedProfiles
    from .grids.comparative_grid_run import GridResults, run_grid
    from .grids.control_results import analysis_performance
    from .grids.sccs_grid import (
        CaseSeriesGrid,
        CaseSeriesGridResults,
        SeriesAnalysis,
        SeriesQuestion,
        run_case_series_grid,
    )
    from .sccs.specification.grid_settings import SeriesExclusion
    from .sccs.specification.sccs_presets import case_series_settings
    from .sccs.specification.sccs_specification import (
        case_series_grid_schema,
        read_case_series_grid,
    )
    from .sccs.specification.sccs_thresholds import Thresholds
    from .sccs.specification.settings import (
        CaseRules,
        CaseSeriesSettings,
        ExposureWindow,
        control_window,
    )
    from .settings.frozen_protocol import (
        Protocol,
        ProtocolStatement,
        freeze_protocol,
        read_protocol,
    )
    from .single_studies.case_series_study import CaseSeries, case_series
    from .single_studies.comparative_study import ComparativeStudy, comparative_study
    from .specifications.demo import DEMO, demo_database
    from .specifications.positive_controls import PositiveControls
    from .specifications.specification import (
        CohortSources,
        ControlSet,
        Exclusion,
        GridSpec,
        RiskWindow,
    )
    from .specifications.specification_file import read_spec
    from .specifications.study_settings import StudySettings, read_study, study_schema
    from .strategus.specification_run import SpecificationResults, run_specification, run_synthesis
    from .strategus_plans.specification_plan import SpecificationPlan, read_specification_plan

_WHERE = {
    "Balance": "steropes.designs.propensity.covariate_balance",
    "covariate_balance": "steropes.designs.propensity.covariate_balance",
    "Match": "steropes.designs.propensity.score_matching",
    "match_scores": "steropes.designs.propensity.score_matching",
    "matched_weights": "steropes.designs.propensity.score_matching",
    "PropensityRules": "steropes.designs.propensity.propensity_scores",
    "PropensityScores": "steropes.designs.propensity.propensity_scores",
    "fit_scores": "steropes.designs.propensity.propensity_scores",
    "Stratify": "steropes.designs.propensity.score_strata",
    "score_strata": "steropes.designs.propensity.score_strata",
    "table_one": "covariates.table_one",
    "Trim": "steropes.designs.propensity.score_trimming",
    "trim": "steropes.designs.propensity.score_trimming",
    "EstimatedWeights": "steropes.designs.propensity.estimated_propensity_weights",
    "propensity_weights": "steropes.designs.propensity.propensity_weights",
    "CohortTable": "cohorts",
    "Comparison": "cohorts",
    "ComparisonRules": "cohorts",
    "ConceptSet": "cohorts",
    "Indication": "cohorts",
    "StudyPopulation": "cohorts",
    "TimeAtRisk": "cohorts",
    "circe_cohorts": "cohorts",
    "compare_cohorts": "cohorts",
    "condition_cohorts": "cohorts",
    "drug_era_cohorts": "cohorts",
    "read_cohorts": "cohorts",
    "study_population": "cohorts",
    "ComparativeStudy": "single_studies.comparative_study",
    "StudySettings": "specifications.study_settings",
    "read_study": "specifications.study_settings",
    "study_schema": "specifications.study_settings",
    "comparative_study": "single_studies.comparative_study",
    "find_concepts": "database.concept_search",
    "ControlEstimates": "steropes.designs.controls",
    "ErrorModel": "steropes.designs.controls",
    "Synthesis": "steropes.designs.controls.signal_injection",
    "SystematicError": "steropes.designs.controls",
    "calibrate": "steropes.designs.controls",
    "calibrate_interval": "steropes.designs.controls",
    "fit_error_model": "steropes.designs.controls",
    "fit_systematic_error": "steropes.designs.controls",
    "leave_one_group_out": "steropes.designs.controls",
    "leave_one_out": "steropes.designs.controls",
    "control_performance": "steropes.designs.controls",
    "FeatureRules": "covariates.feature_extraction",
    "Features": "covariates.feature_extraction",
    "extract_features": "covariates.feature_extraction",
    "Tidied": "steropes.designs.covariates.preprocessing",
    "TidyRules": "steropes.designs.covariates.preprocessing",
    "tidy": "steropes.designs.covariates.preprocessing",
    "DEMO": "specifications.demo",
    "demo_database": "specifications.demo",
    "DiagnosticThresholds": "diagnostics.comparative_diagnostics",
    "Diagnostics": "diagnostics.comparative_diagnostics",
    "register_diagnostic": "diagnostics.diagnostic",
    "incidence_rates": "steropes.designs.effects.arm_summaries",
    "environment": "cli.environment",
    "Profile": "steropes.designs.evidence",
    "combine_normal": "steropes.designs.evidence",
    "combine_profiles": "steropes.designs.evidence",
    "random_effects": "steropes.designs.evidence",
    "combine_archives": "archives.archive_synthesis",
    "FederatedPlan": "federation.federated_runs",
    "FederatedProfiles": "federation.site_profiles",
    "FederatedResult": "federation.federated_runs",
    "FederatedSite": "federation.federated_runs",
    "federate": "federation.federated_runs",
    "federate_answer": "federation.federated_runs",
    "federate_finish": "federation.federated_runs",
    "federate_init": "federation.federated_runs",
    "federate_step": "federation.federated_runs",
    "federate_withdraw": "federation.federated_runs",
    "Owner": "federation.federated_runs",
    "OwnerRules": "federation.federated_runs",
    "AnalysisResult": "comparative.outcome_analysis",
    "Outcome": "comparative.grid_questions_and_analyses",
    "Question": "comparative.grid_questions_and_analyses",
    "StudyAnalysis": "comparative.grid_questions_and_analyses",
    "Workbench": "comparative.analysis_cache",
    "analysis_performance": "grids.control_results",
    "PositiveControls": "specifications.positive_controls",
    "GridResults": "grids.comparative_grid_run",
    "run_grid": "grids.comparative_grid_run",
    "CohortSources": "specifications.specification",
    "ControlSet": "specifications.specification",
    "GridSpec": "specifications.specification",
    "RiskWindow": "specifications.specification",
    "read_spec": "specifications.specification_file",
    "match_pairs": "steropes.designs.propensity.pair_matching",
    "OmopDatabase": "database.omop",
    "Protocol": "settings.frozen_protocol",
    "ProtocolStatement": "settings.frozen_protocol",
    "freeze_protocol": "settings.frozen_protocol",
    "read_protocol": "settings.frozen_protocol",
    "hypertension_database": "database.hypertension_database",
    "synthetic_database": "database.synthetic_database",
    "Estimate": "steropes.designs.effects.effect_estimate",
    "OutcomeModel": "steropes.designs.effects.outcome_model",
    "curve_table": "steropes.designs.effects.outcome_summaries",
    "detectable_ratio": "steropes.designs.effects.outcome_summaries",
    "AbsoluteEffect": "steropes.designs.effects.absolute_effects",
    "absolute_effect": "steropes.designs.effects.absolute_effects",
    "estimate_effect": "steropes.designs.effects.effect_estimate",
    "Propensity": "steropes.designs.propensity.propensity_model",
    "auc": "steropes.designs.propensity.propensity_model",
    "preference_score": "steropes.designs.propensity.propensity_model",
    "CaseSeriesGrid": "grids.sccs_grid",
    "CaseSeriesGridResults": "grids.sccs_grid",
    "SeriesAnalysis": "grids.sccs_grid",
    "SeriesQuestion": "grids.sccs_grid",
    "case_series_grid_schema": "sccs.specification.sccs_specification",
    "read_case_series_grid": "sccs.specification.sccs_specification",
    "run_case_series_grid": "grids.sccs_grid",
    "case_series_settings": "sccs.specification.sccs_presets",
    "CaseRules": "sccs.specification.settings",
    "CaseSeriesSettings": "sccs.specification.settings",
    "ExposureWindow": "sccs.specification.settings",
    "Spline": "steropes.designs.case_series.model_settings",
    "control_window": "sccs.specification.settings",
    "CaseSeries": "single_studies.case_series_study",
    "case_series": "single_studies.case_series_study",
    "Thresholds": "sccs.specification.sccs_thresholds",
    "BalanceFilter": "comparative.grid_questions_and_analyses",
    "Exclusion": "specifications.specification",
    "PopulationRules": "cohorts.study_population",
    "SeriesExclusion": "sccs.specification.grid_settings",
    "SpecificationPlan": "strategus_plans.specification_plan",
    "read_specification_plan": "strategus_plans.specification_plan",
    "SpecificationResults": "strategus.specification_run",
    "run_specification": "strategus.specification_run",
    "run_synthesis": "strategus.specification_run",
}

__all__ = [
    "DEMO",
    "AbsoluteEffect",
    "AnalysisResult",
    "Balance",
    "BalanceFilter",
    "CaseRules",
    "CaseSeries",
    "CaseSeriesGrid",
    "CaseSeriesGridResults",
    "CaseSeriesSettings",
    "CohortSources",
    "CohortTable",
    "ComparativeStudy",
    "Comparison",
    "ComparisonRules",
    "ConceptSet",
    "ControlEstimates",
    "ControlSet",
    "DiagnosticThresholds",
    "Diagnostics",
    "ErrorModel",
    "Estimate",
    "EstimatedWeights",
    "Exclusion",
    "ExposureWindow",
    "FeatureRules",
    "Features",
    "FederatedPlan",
    "FederatedProfiles",
    "FederatedResult",
    "FederatedSite",
    "GridResults",
    "GridSpec",
    "Indication",
    "Match",
    "OmopDatabase",
    "Outcome",
    "OutcomeModel",
    "Owner",
    "OwnerRules",
    "PopulationRules",
    "PositiveControls",
    "Profile",
    "Propensity",
    "PropensityRules",
    "PropensityScores",
    "Protocol",
    "ProtocolStatement",
    "Question",
    "RiskWindow",
    "SeriesAnalysis",
    "SeriesExclusion",
    "SeriesQuestion",
    "SpecificationPlan",
    "SpecificationResults",
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
    "extract_features",
    "federate",
    "federate_answer",
    "federate_finish",
    "federate_init",
    "federate_step",
    "federate_withdraw",
    "find_concepts",
    "fit_error_model",
    "fit_scores",
    "fit_systematic_error",
    "freeze_protocol",
    "hypertension_database",
    "incidence_rates",
    "leave_one_group_out",
    "leave_one_out",
    "match_pairs",
    "match_scores",
    "matched_weights",
    "preference_score",
    "propensity_weights",
    "random_effects",
    "read_case_series_grid",
    "read_cohorts",
    "read_protocol",
    "read_spec",
    "read_specification_plan",
    "read_study",
    "register_diagnostic",
    "run_case_series_grid",
    "run_grid",
    "run_specification",
    "run_synthesis",
    "score_strata",
    "study_population",
    "study_schema",
    "synthetic_database",
    "table_one",
    "tidy",
    "trim",
]


if not TYPE_CHECKING:  # to whom it would mean that every name is there

    def __getattr__(name: str) -> Any:
        if name not in _WHERE:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = _WHERE[name]
        return getattr(need(home if "steropes" in home else f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return __all__
