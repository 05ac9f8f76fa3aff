"""Settings of R's CohortMethod 5 and 6 as a specification has them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import model_validator

from steropes.data.diagnostic_limits import DETECTABLE_RATIO, EQUIPOISE, IMBALANCE, SYSTEMATIC_ERROR
from steropes.studies.strategus_plans.cyclops_settings import CyclopsControl, CyclopsPrior
from steropes.studies.strategus_plans.r_json_values import (
    Flag,
    Identifier,
    Integer,
    Items,
    LowerCase,
    MaybeDays,
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
    "CmAnalysis5", "CmAnalysis6", "CmOutcome", "CmQuestion", "CmSettings", "CmThresholds",
    "PopulationArgs5", "PopulationArgs6",
]  # fmt: skip

Anchor = Annotated[Literal["cohort start", "cohort end"], LowerCase]
MaybeAnchor = Annotated[Literal["cohort start", "cohort end"] | None, LowerCase]
Both5 = Literal["keep all", "keep first", "remove all"]
Both = Literal["keep all", "keep first", "remove all", "keep first, truncate to second"]


class DataArgs(RModel):
    """Arguments of ``getDbCohortMethodData``."""

    study_start_date: RDate = None
    study_end_date: RDate = None
    first_exposure_only: Flag
    remove_duplicate_subjects: Annotated[Both | bool, Scalar]
    restrict_to_common_period: Flag
    washout_period: RDays
    max_cohort_size: Integer = 0
    covariate_settings: Any
    # Version 6.
    nesting_cohort_id: MaybeIdentifier = None
    min_age: MaybeInteger = None
    max_age: MaybeInteger = None
    gender_concept_ids: Items[Identifier] = ()
    # ATLAS.
    exclude_drugs_from_covariates: Flag = False

    @property
    def both(self) -> Both:
        """The rule for people in both cohorts; early versions had true and false."""
        value = self.remove_duplicate_subjects
        if isinstance(value, bool):
            return "remove all" if value else "keep all"
        return value


class PopulationArgs6(RModel):
    """Arguments of ``createStudyPopulation`` of version 6."""

    remove_subjects_with_prior_outcome: Flag
    prior_outcome_lookback: RDays = 99999
    min_days_at_risk: Integer = 1
    max_days_at_risk: MaybeInteger = None
    risk_window_start: RDays
    start_anchor: Anchor
    risk_window_end: RDays
    end_anchor: Anchor
    censor_at_new_risk_window: Flag = False


class PopulationArgs5(PopulationArgs6):
    """Arguments of ``createStudyPopulation`` of version 5, with rules for the entries."""

    first_exposure_only: Flag = False
    restrict_to_common_period: Flag = False
    washout_period: RDays = 0
    remove_duplicate_subjects: Annotated[Both5 | bool, Scalar] = "keep all"

    @property
    def both(self) -> Both5:
        """The rule for people in both cohorts; early versions had true and false."""
        value = self.remove_duplicate_subjects
        if isinstance(value, bool):
            return "remove all" if value else "keep all"
        return value


class PsArgs(RModel):
    """Arguments of ``createPs``."""

    exclude_covariate_ids: Items[Identifier] = ()
    include_covariate_ids: Items[Identifier] = ()
    max_cohort_size_for_fitting: Integer = 250000
    error_on_high_correlation: Flag = True
    stop_on_error: Flag = True
    prior: CyclopsPrior
    control: CyclopsControl
    estimator: Annotated[Literal["att", "ate", "atu", "ato"], Scalar] = "att"


class TrimArgs(RModel):
    """Arguments of ``trimByPs``."""

    trim_fraction: MaybeNumber = None
    trim_method: Annotated[
        Literal["symmetric", "asymmetric", "reverse asymmetric"] | None, Scalar
    ] = None
    equipoise_bounds: Items[RNumber] = ()
    max_weight: MaybeNumber = None


class EquipoiseArgs(RModel):
    """Arguments of version 5's ``trimByPsToEquipoise``."""

    bounds: Items[RNumber]


class WeightArgs(RModel):
    """Arguments of ``truncateIptw`` and of version 5's ``trimByIptw``."""

    max_weight: RNumber


class MatchArgs(RModel):
    """Arguments of ``matchOnPs`` and of version 5's ``matchOnPsAndCovariates``."""

    caliper: RNumber
    caliper_scale: Annotated[
        Literal["propensity score", "standardized", "standardized logit"], Scalar
    ]
    max_ratio: Integer
    allow_reverse_match: Flag = False
    match_columns: Items[Any] = ()
    match_covariate_ids: Items[Identifier] = ()
    stratification_columns: Items[Any] = ()
    covariate_ids: Items[Identifier] = ()


class StratifyArgs(RModel):
    """Arguments of ``stratifyByPs`` and of version 5's ``stratifyByPsAndCovariates``."""

    number_of_strata: Integer
    base_selection: Annotated[Literal["all", "target", "comparator"], LowerCase] = "all"
    stratification_columns: Items[Any] = ()
    stratification_covariate_ids: Items[Identifier] = ()
    covariate_ids: Items[Identifier] = ()


class BalanceArgs(RModel):
    """Arguments of ``computeCovariateBalance``."""

    subgroup_covariate_id: MaybeIdentifier = None
    max_cohort_size: Integer = 250000
    covariate_filter: Any = None
    threshold: MaybeNumber = None
    alpha: MaybeNumber = None


class OutcomeModelArgs(RModel):
    """Arguments of ``fitOutcomeModel``."""

    model_type: Annotated[Literal["logistic", "poisson", "cox"], Scalar]
    stratified: Flag
    use_covariates: Flag = False
    inverse_pt_weighting: Flag = False
    interaction_covariate_ids: Items[Identifier] = ()
    exclude_covariate_ids: Items[Identifier] = ()
    include_covariate_ids: Items[Identifier] = ()
    bootstrap_ci: Flag = False
    bootstrap_replicates: Integer = 200
    profile_grid: Items[RNumber] = ()
    profile_bounds: Items[RNumber] = ()
    prior: CyclopsPrior | None = None
    control: CyclopsControl | None = None


class _CmAnalysis(RModel):
    """The arguments that all versions of an analysis have."""

    analysis_id: Identifier
    description: MaybeText = ""
    get_db_cohort_method_data_args: DataArgs
    create_ps_args: PsArgs | None = None
    trim_by_ps_args: TrimArgs | None = None
    truncate_iptw_args: WeightArgs | None = None
    match_on_ps_args: MatchArgs | None = None
    stratify_by_ps_args: StratifyArgs | None = None
    compute_shared_covariate_balance_args: BalanceArgs | None = None
    compute_covariate_balance_args: BalanceArgs | None = None
    fit_outcome_model_args: OutcomeModelArgs | None = None


class CmAnalysis6(_CmAnalysis):
    """An analysis of CohortMethod 6."""

    create_study_population_args: PopulationArgs6

    @property
    def population(self) -> PopulationArgs6:
        """The arguments of the study population."""
        return self.create_study_population_args


class CmAnalysis5(_CmAnalysis):
    """An analysis of CohortMethod 5, which has more functions to adjust by the score."""

    create_study_pop_args: PopulationArgs5
    trim_by_ps_to_equipoise_args: EquipoiseArgs | None = None
    trim_by_iptw_args: WeightArgs | None = None
    match_on_ps_and_covariates_args: MatchArgs | None = None
    stratify_by_ps_and_covariates_args: StratifyArgs | None = None
    target_type: MaybeText = None
    comparator_type: MaybeText = None

    @property
    def population(self) -> PopulationArgs5:
        """The arguments of the study population."""
        return self.create_study_pop_args


class CmOutcome(RModel):
    """An outcome of a question."""

    outcome_id: Identifier
    outcome_of_interest: Flag = True
    true_effect_size: MaybeNumber = None
    prior_outcome_lookback: MaybeDays = None
    risk_window_start: MaybeDays = None
    start_anchor: MaybeAnchor = None
    risk_window_end: MaybeDays = None
    end_anchor: MaybeAnchor = None

    @model_validator(mode="before")
    @classmethod
    def _not_available(cls, values: object) -> object:
        """Treat R's NA, which JSON has as "NA" or null, as no effect size."""
        if isinstance(values, dict) and values.get("trueEffectSize") == "NA":
            return {**values, "trueEffectSize": None}
        return values


class CmQuestion(RModel):
    """Target, comparator and outcomes."""

    target_id: Identifier
    comparator_id: Identifier
    outcomes: Objects[CmOutcome]
    nesting_cohort_id: MaybeIdentifier = None
    excluded_covariate_concept_ids: Items[Identifier] = ()
    included_covariate_concept_ids: Items[Identifier] = ()


class CmThresholds(RModel):
    """Thresholds of the diagnostics."""

    mdrr_threshold: MaybeNumber = DETECTABLE_RATIO
    ease_threshold: MaybeNumber = SYSTEMATIC_ERROR
    sdm_threshold: MaybeNumber = IMBALANCE
    sdm_alpha: MaybeNumber = None
    equipoise_threshold: MaybeNumber = EQUIPOISE
    generalizability_sdm_threshold: MaybeNumber = None
    attrition_fraction_threshold: MaybeNumber = None


class CmSettings(RModel):
    """The settings of CohortMethodModule; analyses and questions are read one by one."""

    cm_analysis_list: Objects[Any]
    target_comparator_outcomes_list: Objects[Any]
    analyses_to_exclude: Any = None
    refit_ps_for_every_outcome: Flag = False
    refit_ps_for_every_study_population: Flag = True
    cm_diagnostic_thresholds: CmThresholds | None = None
    control_type: Text = "outcome"
