"""Whole studies on an OMOP database: comparative studies, case series, grids, Strategus.

The names here run whole studies. Their parts are in the packages of this one, such as
`steropes.studies.cohorts`, and in `steropes.designs`, which needs no database. Importing this
package imports no database, plotting or terminal library: each is imported where it is first
needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from steropes.moved_names import refuse_moved

from ._optional_packages import lazy_names

if TYPE_CHECKING:  # the same names for editors and type checkers; a test compares them
    from .archives.archive_synthesis import combine_archives
    from .cli.environment import environment
    from .database.concept_hierarchy import concept_hierarchy
    from .database.concept_search import find_concepts
    from .database.omop import OmopDatabase
    from .database.synthetic_database import synthetic_database
    from .diagnostics.diagnostic import register_diagnostic
    from .grids.comparative_grid_run import GridResults, run_grid
    from .grids.sccs_grid import CaseSeriesGrid, CaseSeriesGridResults, run_case_series_grid
    from .sccs.specification.case_series_settings import CaseSeriesSettings
    from .sccs.specification.sccs_presets import case_series_settings
    from .sccs.specification.sccs_specification import (
        case_series_grid_schema,
        read_case_series_grid,
    )
    from .settings.frozen_protocol import Protocol, freeze_protocol, read_protocol
    from .single_studies.case_series_study import CaseSeries, case_series
    from .single_studies.comparative_study import ComparativeStudy, comparative_study
    from .specifications.demonstration import DEMO, demo_database
    from .specifications.grid_specification import GridSpec
    from .specifications.grid_specification_file import read_spec
    from .specifications.study_settings import StudySettings, read_study, study_schema
    from .strategus.specification_run import SpecificationResults, run_specification, run_synthesis
    from .strategus_plans.specification_plan import read_specification_plan

# The module of each name.
_HOMES = {
    "archives.archive_synthesis": ["combine_archives"],
    "cli.environment": ["environment"],
    "database.concept_hierarchy": ["concept_hierarchy"],
    "database.concept_search": ["find_concepts"],
    "database.omop": ["OmopDatabase"],
    "database.synthetic_database": ["synthetic_database"],
    "diagnostics.diagnostic": ["register_diagnostic"],
    "grids.comparative_grid_run": ["GridResults", "run_grid"],
    "grids.sccs_grid": ["CaseSeriesGrid", "CaseSeriesGridResults", "run_case_series_grid"],
    "sccs.specification.sccs_presets": ["case_series_settings"],
    "sccs.specification.sccs_specification": ["case_series_grid_schema", "read_case_series_grid"],
    "sccs.specification.case_series_settings": ["CaseSeriesSettings"],
    "settings.frozen_protocol": ["Protocol", "freeze_protocol", "read_protocol"],
    "single_studies.case_series_study": ["CaseSeries", "case_series"],
    "single_studies.comparative_study": ["ComparativeStudy", "comparative_study"],
    "specifications.demonstration": ["DEMO", "demo_database"],
    "specifications.grid_specification": ["GridSpec"],
    "specifications.grid_specification_file": ["read_spec"],
    "specifications.study_settings": ["StudySettings", "read_study", "study_schema"],
    "strategus.specification_run": ["SpecificationResults", "run_specification", "run_synthesis"],
    "strategus_plans.specification_plan": ["read_specification_plan"],
}
# Names of earlier versions, by their packages now.
_MOVED = {
    "designs": [
        "Match",
        "OutcomeModel",
        "PropensityRules",
        "Stratify",
        "Trim",
        "covariate_balance",
        "estimate_effect",
        "fit_scores",
    ],
    "designs.case_series": ["Spline"],
    "designs.controls": [
        "ControlEstimates",
        "ErrorModel",
        "Synthesis",
        "SystematicError",
        "calibrate",
        "calibrate_interval",
        "control_performance",
        "fit_error_model",
        "fit_systematic_error",
        "leave_one_group_out",
        "leave_one_out",
    ],
    "designs.covariates": ["Tidied", "TidyRules", "tidy"],
    "designs.effects": [
        "AbsoluteEffect",
        "Estimate",
        "absolute_effect",
        "curve_table",
        "detectable_ratio",
        "incidence_rates",
    ],
    "designs.evidence": ["Profile", "combine_normal", "combine_profiles", "random_effects"],
    "designs.propensity": [
        "Balance",
        "EstimatedWeights",
        "Propensity",
        "PropensityScores",
        "auc",
        "match_pairs",
        "match_scores",
        "matched_weights",
        "preference_score",
        "propensity_weights",
        "score_strata",
        "trim",
    ],
    "studies.cohorts": [
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
        "read_cohorts",
        "study_population",
    ],
    "studies.comparative": [
        "AnalysisResult",
        "BalanceFilter",
        "Outcome",
        "Question",
        "StudyAnalysis",
        "Workbench",
    ],
    "studies.covariates": ["FeatureRules", "Features", "extract_features", "table_one"],
    "studies.database": ["hypertension_database"],
    "studies.diagnostics": ["DiagnosticThresholds", "Diagnostics"],
    "studies.federation": [
        "FederatedPlan",
        "FederatedProfiles",
        "FederatedResult",
        "FederatedSite",
        "Owner",
        "OwnerRules",
        "federate",
        "federate_answer",
        "federate_finish",
        "federate_init",
        "federate_step",
        "federate_withdraw",
    ],
    "studies.grids": ["analysis_performance"],
    "studies.sccs": [
        "CaseRules",
        "ExposureWindow",
        "SeriesAnalysis",
        "SeriesExclusion",
        "SeriesQuestion",
        "Thresholds",
        "control_window",
    ],
    "studies.settings": ["ProtocolStatement"],
    "studies.specifications": ["ControlSet", "Exclusion", "PositiveControls", "RiskWindow"],
    "studies.strategus_plans": ["SpecificationPlan"],
}

__all__ = [
    "DEMO",
    "CaseSeries",
    "CaseSeriesGrid",
    "CaseSeriesGridResults",
    "CaseSeriesSettings",
    "ComparativeStudy",
    "GridResults",
    "GridSpec",
    "OmopDatabase",
    "Protocol",
    "SpecificationResults",
    "StudySettings",
    "case_series",
    "case_series_grid_schema",
    "case_series_settings",
    "combine_archives",
    "comparative_study",
    "concept_hierarchy",
    "demo_database",
    "environment",
    "find_concepts",
    "freeze_protocol",
    "read_case_series_grid",
    "read_protocol",
    "read_spec",
    "read_specification_plan",
    "read_study",
    "register_diagnostic",
    "run_case_series_grid",
    "run_grid",
    "run_specification",
    "run_synthesis",
    "study_schema",
    "synthetic_database",
]


if not TYPE_CHECKING:  # to whom it would mean that every name is there
    _name, __dir__ = lazy_names(__name__, _HOMES)

    def __getattr__(name: str) -> Any:
        if f"studies.{name}" in _MOVED:  # a package with public names
            return importlib.import_module(f"{__name__}.{name}")
        refuse_moved(__name__, name, _MOVED)
        return _name(name)
