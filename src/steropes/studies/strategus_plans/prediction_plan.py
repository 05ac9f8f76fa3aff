"""The designs of a prediction module, and whether each runs, differs or is left out, and why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from steropes.designs.covariates.preprocessing import TidyRules
from steropes.errors import DataError
from steropes.studies.covariates.cohort_covariates import CohortCovariate
from steropes.studies.covariates.feature_extraction import FeatureRules
from steropes.studies.formatting.text_safety import plain_text
from steropes.studies.strategus_plans.cyclops_settings import exempt_covariates, require_prior
from steropes.studies.strategus_plans.prediction_covariates import prediction_covariates
from steropes.studies.strategus_plans.prediction_settings import (
    DataRestriction,
    DesignSettings,
    LassoSettings,
    PopulationSettings,
    SplitSettings,
)
from steropes.studies.strategus_plans.r_json_values import JsonPath, json_path, parsed
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts
from steropes.studies.strategus_plans.supported_parts import PartVerdict, runs, skipped

__all__ = ["PREDICTION", "PredictionDesign", "PredictionPlan", "prediction_plan"]

PREDICTION = "PatientLevelPredictionModule"
LASSO = "lasso logistic regression"
# R's names of the learner that is available.
LASSO_NAMES = ("lassologisticregression", LASSO)
NOTHING = "sameData"  # R's name of a step that changes nothing.
RANDOM = (
    "people are divided into training, folds and test at random with the seed of the design; R's "
    "random numbers, and thus its division, cannot be reproduced"
)
DIAGNOSTICS = "the diagnostics of the design (plp_diagnostics) are not computed"


@dataclass(frozen=True)
class PredictionDesign:
    """The design of a prediction model.

    Attributes
    ----------
    number : int
        Position in the specification, from 1.
    target, outcome : int
        The cohorts.
    restriction : DataRestriction
        Entries of the target that are read.
    population : PopulationSettings
        Entries that belong to the population, and their time at risk.
    rules : FeatureRules
        FeatureExtraction's covariates.
    of_cohorts : tuple of CohortCovariate
        Covariates of cohorts.
    only : tuple of int
        The only covariates to use, by id; empty for all.
    tidy : TidyRules
        Filtering and scaling of the covariates in the training data.
    split : SplitSettings
        Training, folds and test.
    variance : float or None
        Variance of the prior; None if cross-validation chooses it.
    exempt : tuple of int
        Covariates without a prior, by id.
    seed : int
        Seed of the fit.
    summary : bool
        Whether to summarise the covariates.
    json_texts : tuple of (str, str)
        Names and texts of settings as the specification has them.
    """

    number: int
    target: int
    outcome: int
    restriction: DataRestriction
    population: PopulationSettings
    rules: FeatureRules
    of_cohorts: tuple[CohortCovariate, ...]
    only: tuple[int, ...]
    tidy: TidyRules
    split: SplitSettings
    variance: float | None
    exempt: tuple[int, ...]
    seed: int
    summary: bool
    json_texts: tuple[tuple[str, str], ...]

    @property
    def cohorts(self) -> frozenset[int]:
        """The cohorts that the design needs."""
        return frozenset({self.target, self.outcome, *(c.cohort for c in self.of_cohorts)})


@dataclass(frozen=True)
class PredictionPlan:
    """Prediction models to fit, and verdicts on all designs."""

    designs: tuple[PredictionDesign, ...]
    verdicts: tuple[PartVerdict, ...]

    @property
    def targets(self) -> frozenset[int]:
        """The cohorts whose outcomes are predicted."""
        return frozenset(d.target for d in self.designs)

    def without(self, refused: Mapping[int, str]) -> PredictionPlan:
        """Return the plan without designs of cohorts that could not be made."""
        left = tuple(d for d in self.designs if not d.cohorts & {*refused})
        return replace(self, designs=left)


def prediction_plan(settings: object, path: JsonPath, cohorts: SharedCohorts) -> PredictionPlan:
    """Read the designs and decide which of them can be run.

    Parameters
    ----------
    settings : object
        The settings as parsed JSON.

    Raises
    ------
    DataError
        There is no list of designs, or another field is unknown.
    """
    listed, skips = settings, False
    if isinstance(settings, Mapping):
        listed = settings.get("modelDesignList")
        for name in settings:
            if name not in ("modelDesignList", "skipDiagnostics") and name[:5] != "attr_":
                raise DataError(f"{json_path((*path, name))} is not known")
        skips = settings.get("skipDiagnostics") is True
        path = (*path, "modelDesignList")
    listed = [listed] if isinstance(listed, Mapping) else listed
    if not isinstance(listed, list) or not listed:
        raise DataError(f"{json_path(path)} must be a list of designs")
    designs: list[PredictionDesign] = []
    verdicts: list[PartVerdict] = []
    for i, values in enumerate(listed):
        at: JsonPath = (*path, i)
        if not isinstance(values, Mapping):
            raise DataError(f"{json_path(at)} must be an object")
        learner = _learner(values.get("modelSettings"))
        ids = f"{values.get('outcomeId')} in {values.get('targetId')}"
        part = plain_text(f"design {i + 1} ({learner}, {ids})")
        try:
            if learner != LASSO:
                raise DataError(f"the learner {learner} is R's PatientLevelPrediction")
            design, said = _design(i + 1, values, at, cohorts)
        except DataError as error:
            verdicts.append(skipped(PREDICTION, part, str(error)))
            continue
        designs.append(design)
        said += [] if skips else [DIAGNOSTICS]
        needs = [(design.target, design.outcome)]
        verdicts.append(runs(PREDICTION, part, said, needs=needs))
    return PredictionPlan(tuple(designs), tuple(verdicts))


def _learner(model: object) -> str:
    """Return the name of a learner, as versions 5 and 6 of R's package write it."""
    if not isinstance(model, Mapping):
        return "unknown learner"
    param, kept = model.get("param"), model.get("settings")
    places = [
        kept.get("modelName") if isinstance(kept, Mapping) else None,
        kept.get("name") if isinstance(kept, Mapping) else None,
    ]
    if isinstance(param, Mapping) and isinstance(param.get("attr_settings"), Mapping):
        own = param["attr_settings"]
        places += [own.get("modelName"), own.get("name")]
    places.append(model.get("fitFunction"))
    name = next((p for p in places if isinstance(p, str) and p), "unknown learner")
    return LASSO if name.lower() in LASSO_NAMES else plain_text(name[:60])


def _design(
    number: int, values: Mapping[str, Any], at: JsonPath, cohorts: SharedCohorts
) -> tuple[PredictionDesign, list[str]]:
    """Translate a design, and return it with the differences from R."""
    read = parsed(DesignSettings, values, at)
    for cohort in (read.target_id, read.outcome_id):
        if why := cohorts.fault(cohort):
            raise DataError(why)
    _require_steps(read, at)
    _require_population(read, at)
    _require_split(read.split_settings, (*at, "splitSettings"))
    variance = _variance(read.model_settings, (*at, "modelSettings"))
    place: JsonPath = (*at, "covariateSettings")
    rules, only, of_cohorts = prediction_covariates(read.covariate_settings, place)
    for covariate in of_cohorts:
        if why := cohorts.fault(covariate.cohort):
            raise DataError(why)
    listed = read.model_settings.param.include_covariate_ids
    if only and listed:
        only = tuple(i for i in only if i in listed)
        if not only:
            raise DataError(f"{json_path(at)}: the included covariates have none in common")
    seed, said = read.model_settings.fit.seed, [RANDOM]
    if read.split_settings.seed is None:
        said.append("the division has seed 1; R draws a seed in each run")
    tidy = read.preprocess_settings
    design = PredictionDesign(
        number,
        read.target_id,
        read.outcome_id,
        read.restrict_plp_data_settings,
        read.population_settings,
        rules,
        of_cohorts,
        only or listed,
        TidyRules(tidy.min_fraction, tidy.remove_redundancy, tidy.normalize)
        if read.execute_settings.run_preprocess_data
        else TidyRules(0.0, False, False),
        read.split_settings,
        variance,
        exempt_covariates(read.model_settings.param.prior_params),
        1 if seed is None else abs(seed),
        read.execute_settings.run_covariate_summary,
        tuple(
            (k, json.dumps(v, ensure_ascii=False)) for k, v in values.items() if k != "attr_class"
        ),
    )
    return design, said


def _require_steps(read: DesignSettings, at: JsonPath) -> None:
    """Refuse samples, engineered covariates, and designs without a split or a model."""
    steps = read.execute_settings
    engineered = steps.run_feature_engineering or steps.run_engineering_5
    for name, used, listed in (
        ("sampleSettings", steps.run_sample_data, read.sample_settings),
        ("featureEngineeringSettings", engineered, read.feature_engineering_settings),
    ):
        other = next((s.function for s in listed if s.function != NOTHING), None)
        if used and other is not None:
            raise DataError(f"{json_path((*at, name))}: {other[:60]} is not available")
    for name, on in (
        ("runSplitData", steps.run_split_data),
        ("runModelDevelopment", steps.run_model_development),
    ):
        if not on:
            raise DataError(f"{json_path((*at, 'executeSettings', name))} must be true")


def _require_population(read: DesignSettings, at: JsonPath) -> None:
    """Refuse counts of outcomes, and times at risk that end before they start."""
    population, sample = read.population_settings, read.restrict_plp_data_settings.sample_size
    place: JsonPath = (*at, "populationSettings")
    if not population.binary:
        raise DataError(f"{json_path((*place, 'binary'))} must be true")
    same = population.start_anchor == population.end_anchor
    if same and population.risk_window_end < population.risk_window_start:
        raise DataError(f"{json_path((*place, 'riskWindowEnd'))} is before riskWindowStart")
    if sample is not None and sample < 1:
        where = json_path((*at, "restrictPlpDataSettings", "sampleSize"))
        raise DataError(f"{where} must be positive")


def _require_split(split: SplitSettings, at: JsonPath) -> None:
    """Refuse other divisions than a random one, and impossible shares."""
    if split.function != "randomSplitter":
        raise DataError(
            f"{json_path((*at, 'attr_fun'))}: {split.function[:60]} is not available; people can "
            "be divided by randomSplitter"
        )
    if not (0 <= split.test < 1 and 0 < split.train <= 1 and split.test + split.train <= 1 + 1e-9):
        raise DataError(f"{json_path(at)}: test and train must be shares with a sum of at most 1")
    if split.nfold < 2:
        raise DataError(f"{json_path((*at, 'nfold'))} must be 2 or more")


def _variance(model: LassoSettings, at: JsonPath) -> float | None:
    """Return the variance of the prior; None if cross-validation chooses it.

    Raises
    ------
    DataError
        The model is no lasso logistic regression with an intercept that has no prior.
    """
    prior, fit = model.param.prior_params, model.fit
    place: JsonPath = (*at, "param", "priorParams")
    fixed = require_prior(prior, place, ("laplace",), exempt=True)
    if prior.force_intercept:
        raise DataError(
            f"{json_path((*place, 'forceIntercept'))}: a prior of the intercept is not available"
        )
    if model.param.prior_coefs not in (None, [], {}):
        raise DataError(
            f"{json_path((*at, 'param', 'priorCoefs'))}: coefficients of another model are not "
            "available"
        )
    if model.fit_function != "fitCyclopsModel" or fit.priorfunction != "Cyclops::createPrior":
        raise DataError(f"{json_path(at)}: the functions of the fit are not those of a lasso")
    types = {fit.model_type, fit.cyclops_model_type} - {None}
    if not types <= {"logistic", "binary"} or not fit.add_intercept:
        raise DataError(f"{json_path(at)}: the model is no logistic regression with an intercept")
    return None if fit.cross_validation_in_prior else fixed
