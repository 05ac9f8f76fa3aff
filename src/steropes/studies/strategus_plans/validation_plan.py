"""The validations of prediction models of other databases, and the models that they apply."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from steropes.errors import DataError
from steropes.studies.formatting.text_safety import plain_text
from steropes.studies.strategus_plans.prediction_model_files import (
    ModelFiles,
    PredictionModel,
    model_of,
)
from steropes.studies.strategus_plans.prediction_settings import (
    DataRestriction,
    PopulationSettings,
    SplitSettings,
)
from steropes.studies.strategus_plans.r_json_values import (
    Flag,
    Items,
    JsonPath,
    MaybeIdentifier,
    RModel,
    Text,
    json_path,
    parsed,
)
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts
from steropes.studies.strategus_plans.supported_parts import PartVerdict, runs, skipped

__all__ = [
    "IN_THE_LARGE",
    "VALIDATION",
    "WEAK",
    "ValidationDesign",
    "ValidationPlan",
    "validation_plan",
]

VALIDATION = "PatientLevelPredictionValidationModule"
WEAK, IN_THE_LARGE = "weakRecalibration", "recalibrationInTheLarge"
WHOLE = SplitSettings(test=0.0, train=1.0)  # Nobody is left out of a validation.
BOTH = (
    "each recalibration starts from the risks of the model; R recalibrates recalibrated risks too"
)


@dataclass(frozen=True)
class ValidationDesign:
    """Models to apply to one population, and how to recalibrate their risks.

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
    models : tuple of PredictionModel
        The models.
    recalibrate : tuple of str
        Names of recalibrations, as R has them.
    summary : bool
        Whether to summarise the covariates.
    json_texts : tuple of (str, str)
        Names and texts of the settings of the population.
    """

    number: int
    target: int
    outcome: int
    restriction: DataRestriction
    population: PopulationSettings
    models: tuple[PredictionModel, ...]
    recalibrate: tuple[str, ...]
    summary: bool
    json_texts: tuple[tuple[str, str], ...]

    @property
    def split(self) -> SplitSettings:
        """The division of the population, all of which is evaluated."""
        return WHOLE

    @property
    def cohorts(self) -> frozenset[int]:
        """The cohorts that the validation needs."""
        used = (c.cohort for m in self.models for c in m.of_cohorts)
        return frozenset({self.target, self.outcome, *used})


@dataclass(frozen=True)
class ValidationPlan:
    """Validations of prediction models, and verdicts on all of them."""

    designs: tuple[ValidationDesign, ...]
    verdicts: tuple[PartVerdict, ...]

    @property
    def targets(self) -> frozenset[int]:
        """The cohorts whose outcomes are predicted."""
        return frozenset(d.target for d in self.designs)

    def without(self, refused: Mapping[int, str]) -> ValidationPlan:
        """Return the plan without validations of cohorts that could not be made."""
        left = tuple(d for d in self.designs if not d.cohorts & {*refused})
        return replace(self, designs=left)


class _Recalibration(RModel):
    """Settings of a validation, as earlier versions nest them."""

    recalibrate: Items[Text] = ()
    run_covariate_summary: Flag = True


class _Validation(RModel):
    """One validation. Versions before 1.0 name the cohorts of the models that it applies."""

    target_id: MaybeIdentifier = None
    outcome_id: MaybeIdentifier = None
    model_target_id: MaybeIdentifier = None
    model_outcome_id: MaybeIdentifier = None
    population_settings: Any = None
    restrict_plp_data_settings: Any = None
    plp_model_list: Any = None
    recalibrate: Items[Text] = ()
    run_covariate_summary: Flag = True
    validation_settings: _Recalibration | None = None


def validation_plan(
    settings: object, path: JsonPath, cohorts: SharedCohorts, files: ModelFiles
) -> ValidationPlan:
    """Read the validations, and the models that they apply.

    Parameters
    ----------
    settings : object
        The settings as parsed JSON.
    files : ModelFiles
        Where the models are.

    Raises
    ------
    DataError
        There is no list of validations, or another field is unknown.
    """
    listed = settings
    if isinstance(settings, Mapping) and "validationList" in settings:
        unknown = {*settings} - {"validationList", "logLevel", "attr_class"}
        if unknown:
            raise DataError(f"{json_path((*path, min(unknown)))} is not known")
        listed, path = settings["validationList"], (*path, "validationList")
    listed = [listed] if isinstance(listed, Mapping) else listed
    if not isinstance(listed, list) or not listed:
        raise DataError(f"{json_path(path)} must be a list of validations")
    designs: list[ValidationDesign] = []
    verdicts: list[PartVerdict] = []
    for i, values in enumerate(listed):
        part = f"validation {i + 1}"
        try:
            read = parsed(_Validation, values, (*path, i))
            named = _named_models(read, files)
            models, absent = _readable(named, files)
            verdicts += [
                skipped(VALIDATION, f"{part}, model {plain_text(name)[:80]}", why)
                for name, why in absent
            ]
            if not models:
                raise DataError("none of its models can be applied")
            design, said = _design(i + 1, read, models, (*path, i), cohorts)
        except DataError as error:
            verdicts.append(skipped(VALIDATION, part, str(error)))
            continue
        designs.append(design)
        count = "1 model" if len(models) == 1 else f"{len(models)} models"
        part += f" ({count}, {design.outcome} in {design.target})"
        verdicts.append(runs(VALIDATION, part, said, needs=[(design.target, design.outcome)]))
    return ValidationPlan(tuple(designs), tuple(verdicts))


def _named_models(read: _Validation, files: ModelFiles) -> list[tuple[str, Any]]:
    """Return the models of a validation by name: their folders, or their parsed files.

    Raises
    ------
    DataError
        No models are named or transferred.
    """
    if read.plp_model_list is None:
        if files.transferred is None:
            raise DataError(
                "it has no plpModelList, and no ModelTransferModule with models comes before it"
            )
        return [(place.name, place) for place in files.transferred]
    listed = read.plp_model_list
    listed = [listed] if isinstance(listed, Mapping | str) else listed
    if not isinstance(listed, list) or not listed:
        raise DataError("plpModelList must be a list of models")
    return [(_name(one, i), _found(one, files)) for i, one in enumerate(listed)]


def _name(model: object, i: int) -> str:
    """Name a model of a list."""
    if isinstance(model, Mapping):
        model = model.get("modelFolder")
    return model if isinstance(model, str) else f"{i + 1}"


def _found(model: object, files: ModelFiles) -> object:
    """Return the folder of a model, or the model itself; the reason if there is neither."""
    try:
        if isinstance(model, str):
            return files.find(model)
        if isinstance(model, Mapping) and isinstance(model.get("modelFolder"), str):
            return files.find(model["modelFolder"])
    except DataError as error:
        return error
    return model if isinstance(model, Mapping) else DataError("the model must be a folder")


def _readable(
    named: Iterable[tuple[str, Any]], files: ModelFiles
) -> tuple[tuple[PredictionModel, ...], list[tuple[str, str]]]:
    """Read models; return those that can be applied, and the reasons of the others by name."""
    models, absent = [], []
    for name, given in named:
        try:
            if isinstance(given, DataError):
                raise given
            own = model_of(given, name) if isinstance(given, Mapping) else files.read(given)
            models.append(own)
        except DataError as error:
            absent.append((name, str(error)))
    return tuple(models), absent


def _design(
    number: int, read: _Validation, models: tuple[PredictionModel, ...], at: JsonPath,
    cohorts: SharedCohorts,
) -> tuple[ValidationDesign, list[str]]:  # fmt: skip
    """Translate a validation, and return it with the differences from R."""
    if read.plp_model_list is None:
        models = tuple(
            m for m in models
            if (read.model_target_id or m.target) == m.target
            and (read.model_outcome_id or m.outcome) == m.outcome
        )  # fmt: skip
        if not models:
            raise DataError("no model was fitted for modelTargetId and modelOutcomeId")
    target = models[0].target if read.target_id is None else read.target_id
    outcome = models[0].outcome if read.outcome_id is None else read.outcome_id
    if target is None or outcome is None:
        raise DataError("targetId and outcomeId are missing, also in the model")
    used = (c.cohort for m in models for c in m.of_cohorts)
    for cohort in (target, outcome, *used):
        if why := cohorts.fault(cohort):
            raise DataError(why)
    nested = read.validation_settings or _Recalibration()
    recalibrate = tuple(dict.fromkeys((*read.recalibrate, *nested.recalibrate)))
    unknown = [name for name in recalibrate if name not in (WEAK, IN_THE_LARGE)]
    if unknown:
        raise DataError(f"{json_path((*at, 'recalibrate'))} must be {WEAK} or {IN_THE_LARGE}")
    texts = {}
    population, restriction = models[0].population, models[0].restriction
    for name, given, own in (
        ("populationSettings", read.population_settings, "population"),
        ("restrictPlpDataSettings", read.restrict_plp_data_settings, "restriction"),
    ):
        if given is not None:
            texts[name] = json.dumps(given, ensure_ascii=False)
        elif len({getattr(m, own) for m in models}) > 1:
            raise DataError(f"{name} is missing, and those of the models differ")
        else:
            texts[name] = dict(models[0].json_texts).get(name, "null")
    if read.population_settings is not None:
        population = parsed(
            PopulationSettings, read.population_settings, (*at, "populationSettings")
        )
    if read.restrict_plp_data_settings is not None:
        place: JsonPath = (*at, "restrictPlpDataSettings")
        restriction = parsed(DataRestriction, read.restrict_plp_data_settings, place)
    design = ValidationDesign(
        number, target, outcome, restriction, population, models, recalibrate,
        read.run_covariate_summary and nested.run_covariate_summary, tuple(texts.items()),
    )  # fmt: skip
    return design, [BOTH] if len(recalibrate) > 1 else []
