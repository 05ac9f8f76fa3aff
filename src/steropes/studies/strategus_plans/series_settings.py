"""Settings of R's SelfControlledCaseSeries 5 and 6 as a specification has them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from steropes.data.diagnostic_limits import DETECTABLE_RATIO, SYSTEMATIC_ERROR
from steropes.studies.strategus_plans.cyclops_settings import CyclopsControl, CyclopsPrior
from steropes.studies.strategus_plans.r_json_values import (
    Flag,
    Identifier,
    Integer,
    Items,
    LowerCase,
    MaybeFlag,
    MaybeIdentifier,
    MaybeInteger,
    MaybeNumber,
    MaybeText,
    Objects,
    RDate,
    RDays,
    RModel,
    RNumber,
    Scalar,
    Text,
)

__all__ = [
    "EraWindow",
    "KnotSettings",
    "SccsAnalysis",
    "SccsQuestion",
    "SccsSettings",
    "SccsThresholds",
]

EraAnchor = Annotated[Literal["era start", "era end"], LowerCase]


class SccsDataArgs(RModel):
    """Arguments of ``getDbSccsData``; version 5 has one study period and flags for two ids."""

    nesting_cohort_id: MaybeIdentifier = None
    use_nesting_cohort: MaybeFlag = None
    delete_covariates_small_count: Integer = 0
    study_start_dates: Items[RDate] = ()
    study_end_dates: Items[RDate] = ()
    study_start_date: RDate = None
    study_end_date: RDate = None
    max_cases_per_outcome: Integer = 0
    exposure_ids: Items[Any] = ("exposureId",)
    custom_covariate_ids: Items[Any] = ()
    use_custom_covariates: MaybeFlag = None


class SccsPopulationArgs(RModel):
    """Arguments of ``createStudyPopulation``."""

    first_outcome_only: Flag
    naive_period: RDays = 0
    min_age: MaybeInteger = None
    max_age: MaybeInteger = None
    gender_concept_ids: Items[Identifier] = ()
    restrict_time_to_era_id: Any = None


class EraWindow(RModel):
    """Settings of a covariate or of the control interval."""

    include_era_ids: Items[Any] | None = None
    exclude_era_ids: Items[Any] = ()
    label: Text = "Control interval"
    stratify_by_id: Flag = False
    start: RDays = 0
    start_anchor: EraAnchor = "era start"
    end: RDays = 0
    end_anchor: EraAnchor = "era end"
    first_occurrence_only: Flag = False
    allow_regularization: Flag = False
    profile_likelihood: Flag = False
    exposure_of_interest: Flag = False
    pre_exposure: MaybeFlag = None
    is_control_interval: MaybeFlag = None


class KnotSettings(RModel):
    """Settings of a spline; each kind has its own name for the knots."""

    age_knots: Items[Any] | None = None
    season_knots: Items[Any] | None = None
    calendar_time_knots: Items[Any] | None = None
    allow_regularization: Flag = False
    compute_confidence_intervals: Flag = False


class IntervalArgs(RModel):
    """Arguments of ``createSccsIntervalData`` and ``createScriIntervalData``."""

    era_covariate_settings: Objects[EraWindow]
    control_interval_settings: EraWindow | None = None
    age_covariate_settings: KnotSettings | None = None
    seasonality_covariate_settings: KnotSettings | None = None
    calendar_time_covariate_settings: KnotSettings | None = None
    min_cases_for_time_covariates: MaybeInteger = None
    min_cases_for_age_season: MaybeInteger = None
    end_of_observation_era_length: MaybeInteger = None
    event_dependent_observation: MaybeFlag = None


class FitArgs(RModel):
    """Arguments of ``fitSccsModel``."""

    prior: CyclopsPrior
    control: CyclopsControl
    profile_grid: Items[RNumber] = ()
    profile_bounds: Items[RNumber] = ()


class SccsAnalysis(RModel):
    """An analysis."""

    analysis_id: Identifier
    description: MaybeText = ""
    get_db_sccs_data_args: SccsDataArgs
    create_study_population_args: SccsPopulationArgs
    create_interval_data_args: IntervalArgs
    fit_sccs_model_args: FitArgs | None = None
    exposure_type: MaybeText = None
    outcome_type: MaybeText = None


class SccsExposure(RModel):
    """An exposure of a question."""

    exposure_id: Identifier
    exposure_id_ref: Text = "exposureId"
    true_effect_size: Annotated[float | str | None, Scalar] = None


class SccsQuestion(RModel):
    """An outcome and its exposures."""

    outcome_id: Identifier
    exposures: Objects[SccsExposure]
    nesting_cohort_id: MaybeIdentifier = None


class SccsThresholds(RModel):
    """Thresholds of the diagnostics of both versions."""

    mdrr_threshold: MaybeNumber = DETECTABLE_RATIO
    ease_threshold: MaybeNumber = SYSTEMATIC_ERROR
    time_trend_max_ratio: MaybeNumber = None
    rare_outcome_max_prevalence: MaybeNumber = None
    event_exposure_dependence_null_bounds: Items[RNumber] = ()
    event_observation_dependence_null_bounds: Items[RNumber] = ()
    time_trend_p_threshold: MaybeNumber = None
    pre_exposure_p_threshold: MaybeNumber = None


class SccsSettings(RModel):
    """The settings of SelfControlledCaseSeriesModule; the parts are read one by one."""

    sccs_analysis_list: Objects[Any]
    exposures_outcome_list: Objects[Any]
    analyses_to_exclude: Any = None
    combine_data_fetch_across_outcomes: Flag = False
    sccs_diagnostic_thresholds: SccsThresholds | None = None
    control_type: Text = "outcome"
