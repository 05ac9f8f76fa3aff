"""Settings of designs of prediction models, as PatientLevelPrediction 5 and 6 write them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from steropes.studies.strategus_plans.cyclops_settings import CyclopsPrior
from steropes.studies.strategus_plans.r_json_values import (
    Flag,
    Identifier,
    Integer,
    Items,
    LowerCase,
    MaybeInteger,
    MaybeNumber,
    MaybeText,
    Objects,
    RDate,
    RDays,
    RModel,
    RNumber,
    Text,
)

__all__ = [
    "DataRestriction", "DesignSettings", "LassoSettings", "PopulationSettings", "SplitSettings",
    "StepSettings",
]  # fmt: skip

Anchor = Annotated[Literal["cohort start", "cohort end"], LowerCase]


class DataRestriction(RModel):
    """Entries of the target that are read from the database."""

    study_start_date: RDate = None
    study_end_date: RDate = None
    first_exposure_only: Flag = False
    washout_period: RDays = 0
    sample_size: MaybeInteger = None


class PopulationSettings(RModel):
    """Entries that belong to the population, and their time at risk."""

    binary: Flag = True
    include_all_outcomes: Flag = True
    first_exposure_only: Flag = False
    washout_period: RDays = 0
    remove_subjects_with_prior_outcome: Flag = True
    prior_outcome_lookback: RDays = 99_999
    require_time_at_risk: Flag = True
    min_time_at_risk: Integer = 364
    risk_window_start: RDays = 1
    start_anchor: Anchor = "cohort start"
    risk_window_end: RDays = 365
    end_anchor: Anchor = "cohort start"
    restrict_tar_to_cohort_end: Flag = False


class _Sampling(RModel):
    """A sample of the training data; ``sameData`` is none."""

    function: Text = Field(default="sameData", alias="attr_fun")
    number_outcomesto_non_outcomes: MaybeNumber = None
    sample_seed: MaybeInteger = None


class _Engineering(RModel):
    """A step that makes covariates from others; ``sameData`` is none."""

    function: Text = Field(default="sameData", alias="attr_fun")


class _Preprocessing(RModel):
    """Filtering and scaling of the covariates."""

    min_fraction: RNumber = 0.001
    normalize: Flag = True
    remove_redundancy: Flag = True


class SplitSettings(RModel):
    """The division of a population into training, folds of cross-validation and test."""

    function: Text = Field(default="randomSplitter", alias="attr_fun")
    test: RNumber = 0.25
    train: RNumber = 0.75
    nfold: Integer = 3
    seed: MaybeInteger = None


class StepSettings(RModel):
    """The steps of a design that R runs."""

    run_split_data: Flag = True
    run_sample_data: Flag = False
    run_feature_engineering: Flag = False
    # Version 5 of R's package does not capitalise the name.
    run_engineering_5: Flag = Field(default=False, alias="runfeatureEngineering")
    run_preprocess_data: Flag = True
    run_model_development: Flag = True
    run_covariate_summary: Flag = True


class _Tuning(RModel):
    """The search for hyperparameters, which R ignores for models of Cyclops."""

    search: MaybeText = None
    tuning_metric: Any = None
    sample_size: Any = None
    random_seed: Any = None
    generator: Any = None


class _FitSettings(RModel):
    """Settings of a fit, in ``settings`` (version 6) or an attribute of ``param`` (version 5)."""

    name: MaybeText = None
    model_name: MaybeText = None
    model_type: MaybeText = None
    cyclops_model_type: MaybeText = None
    priorfunction: Text = "Cyclops::createPrior"
    selector_type: MaybeText = None
    cross_validation_in_prior: Flag = True
    add_intercept: Flag = True
    use_control: Flag = True
    seed: MaybeInteger = None
    threads: MaybeInteger = None
    tolerance: MaybeNumber = None
    cv_repetitions: MaybeInteger = None
    max_iterations: MaybeInteger = None
    save_type: MaybeText = None
    predict: MaybeText = None


class _Parameters(RModel):
    """The prior and the covariates of a lasso logistic regression."""

    prior_params: CyclopsPrior
    include_covariate_ids: Items[Identifier] = ()
    upper_limit: MaybeNumber = None
    lower_limit: MaybeNumber = None
    prior_coefs: Any = None
    settings: _FitSettings | None = Field(default=None, alias="attr_settings")
    model_type: MaybeText = Field(default=None, alias="attr_modelType")
    save_type: MaybeText = Field(default=None, alias="attr_saveType")


class LassoSettings(RModel):
    """The learner of a design, a lasso logistic regression."""

    fit_function: Text = "fitCyclopsModel"
    param: _Parameters
    settings: _FitSettings | None = None

    @property
    def fit(self) -> _FitSettings:
        """The settings of the fit, of either version."""
        return self.settings or self.param.settings or _FitSettings()


class DesignSettings(RModel):
    """The design of a prediction model. Its learner and covariates are read separately."""

    target_id: Identifier
    outcome_id: Identifier
    restrict_plp_data_settings: DataRestriction = Field(default_factory=DataRestriction)
    covariate_settings: Any
    population_settings: PopulationSettings = Field(default_factory=PopulationSettings)
    sample_settings: Objects[_Sampling] = ()
    feature_engineering_settings: Objects[_Engineering] = ()
    preprocess_settings: _Preprocessing = Field(default_factory=_Preprocessing)
    model_settings: LassoSettings
    split_settings: SplitSettings = Field(default_factory=SplitSettings)
    hyperparameter_settings: _Tuning | None = None
    execute_settings: StepSettings = Field(default_factory=StepSettings)
