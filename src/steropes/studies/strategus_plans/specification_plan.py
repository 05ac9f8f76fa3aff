"""The plan of a specification: its cohorts, the modules that run, and differences from R."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steropes.data.html_representations import FieldsInHtml
from steropes.errors import DataError
from steropes.studies._optional_packages import MissingExtraError
from steropes.studies.cohort_diagnostics.concept_sets_of_definitions import CohortDefinition
from steropes.studies.formatting.text_safety import plain_text
from steropes.studies.strategus_plans.r_json_values import Flag, JsonPath, RModel, json_path, parsed
from steropes.studies.strategus_plans.shared_cohorts import DefinedCohort, SharedCohorts
from steropes.studies.strategus_plans.specification_text import specification_values
from steropes.studies.strategus_plans.supported_parts import PartVerdict, runs, skipped

if TYPE_CHECKING:
    from steropes.studies.strategus_plans.characterization_plan import CharacterizationPlan
    from steropes.studies.strategus_plans.cohort_diagnostics_plan import CohortDiagnosticsPlan
    from steropes.studies.strategus_plans.comparative_plan import ComparativePlan
    from steropes.studies.strategus_plans.incidence_plan import IncidencePlan
    from steropes.studies.strategus_plans.model_transfer_plan import ModelTransferPlan
    from steropes.studies.strategus_plans.pathway_plan import PathwayPlan
    from steropes.studies.strategus_plans.prediction_model_files import ModelFiles
    from steropes.studies.strategus_plans.prediction_plan import PredictionPlan
    from steropes.studies.strategus_plans.series_plan import SeriesPlan
    from steropes.studies.strategus_plans.synthesis_plan import SynthesisPlan
    from steropes.studies.strategus_plans.validation_plan import ValidationPlan

__all__ = ["SpecificationPlan", "read_specification_plan", "specification_plan"]

COHORTS = "CohortGeneratorModule"
# The names of a module, of which only the settings influence results.
BESIDE = {"module", "settings", "version", "remoteRepo", "remoteUsername"}


@dataclass(frozen=True)
class SpecificationPlan(FieldsInHtml):
    """A specification in the terms of this package.

    Attributes
    ----------
    cohorts : SharedCohorts
        Cohorts that the specification defines.
    comparative : ComparativePlan or None
        The plan of CohortMethodModule.
    series : SeriesPlan or None
        The plan of SelfControlledCaseSeriesModule.
    incidence : IncidencePlan or None
        The plan of CohortIncidenceModule.
    characterization : CharacterizationPlan or None
        The plan of CharacterizationModule.
    diagnostics : CohortDiagnosticsPlan or None
        The plan of CohortDiagnosticsModule.
    prediction : PredictionPlan or None
        The plan of PatientLevelPredictionModule.
    transfer : ModelTransferPlan or None
        The plan of ModelTransferModule.
    validation : ValidationPlan or None
        The plan of PatientLevelPredictionValidationModule.
    pathways : PathwayPlan or None
        The plan of TreatmentPatternsModule.
    synthesis : SynthesisPlan or None
        The plan of EvidenceSynthesisModule.
    statistics : bool
        Whether to count how many meet the inclusion rules of defined cohorts.
    verdicts : tuple of PartVerdict
        A verdict on every part, in the order of the file.

    See Also
    --------
    read_specification_plan : Plan the file of a specification.

    Examples
    --------
    >>> import tempfile
    >>> from steropes.studies import read_specification_plan
    >>> text = '{"moduleSpecifications": [{"module": "CohortSurvivalModule"}]}'
    >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    ...     _ = file.write(text)
    ...     file.flush()
    ...     plan = read_specification_plan(file.name)
    >>> plan.complete
    False
    """

    cohorts: SharedCohorts
    comparative: ComparativePlan | None = None
    series: SeriesPlan | None = None
    incidence: IncidencePlan | None = None
    characterization: CharacterizationPlan | None = None
    diagnostics: CohortDiagnosticsPlan | None = None
    prediction: PredictionPlan | None = None
    transfer: ModelTransferPlan | None = None
    validation: ValidationPlan | None = None
    pathways: PathwayPlan | None = None
    synthesis: SynthesisPlan | None = None
    statistics: bool = False
    verdicts: tuple[PartVerdict, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every part runs."""
        return not any(v.reason for v in self.verdicts)

    def lines(self) -> list[str]:
        """Return the verdicts as lines of text, below the names of their modules.

        Returns
        -------
        list of str
            The lines, without line breaks.
        """
        found: list[str] = []
        module = ""
        for verdict in self.verdicts:
            if verdict.module != module:
                found.append(plain_text(verdict.module))
                module = verdict.module
            found.append(f"  {verdict.line()}")
        return found


# For each module of Strategus that runs here, the attribute of `SpecificationPlan` that holds its
# plan, the Python module with the function of the same name that plans its settings, and what the
# function needs beside them. A new module needs a line here and an attribute. Planners are imported
# when a specification has their module, because most of them import all estimators.
MODULES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "CohortMethodModule": ("comparative", "comparative_plan", ("cohorts",)),
    "SelfControlledCaseSeriesModule": ("series", "series_plan", ("cohorts",)),
    "CohortIncidenceModule": ("incidence", "incidence_plan", ("cohorts",)),
    "CharacterizationModule": ("characterization", "characterization_plan", ("cohorts",)),
    "CohortDiagnosticsModule": ("diagnostics", "cohort_diagnostics_plan", ("cohorts",)),
    "PatientLevelPredictionModule": ("prediction", "prediction_plan", ("cohorts",)),
    "ModelTransferModule": ("transfer", "model_transfer_plan", ("files",)),
    "PatientLevelPredictionValidationModule": (
        "validation", "validation_plan", ("cohorts", "files"),
    ),
    "TreatmentPatternsModule": ("pathways", "pathway_plan", ("cohorts",)),
    "EvidenceSynthesisModule": ("synthesis", "synthesis_plan", ()),
}  # fmt: skip


def _planned(
    name: str, settings: object, path: JsonPath, cohorts: SharedCohorts,
    files: Callable[[], ModelFiles],
) -> tuple[str, Any]:  # fmt: skip
    """Return the attribute of a module's plan, and the plan of its settings."""
    attribute, module, needs = MODULES[name]
    plan = getattr(importlib.import_module(f"{__package__}.{module}"), module)
    return attribute, plan(settings, path, *(files() if n == "files" else cohorts for n in needs))


def _model_files(models: Path | None = None, folder: Path | None = None) -> ModelFiles:
    """Return where the prediction models are that a specification validates."""
    from steropes.studies.strategus_plans.prediction_model_files import ModelFiles

    return ModelFiles(models, folder)


def read_specification_plan(
    path: str | Path, *, models: str | Path | None = None
) -> SpecificationPlan:
    """Read the file of a specification, and plan it.

    Parameters
    ----------
    path : str or Path
        A JSON file of Strategus or ATLAS.
    models : str or Path, optional
        Folder or zip file with the prediction models that the specification validates, such as a
        copy of the study's repository. They are also looked for in the folder of the file.

    Returns
    -------
    SpecificationPlan
        The plan.

    Raises
    ------
    DataError
        The file is no specification, or a part that its modules share is invalid.

    See Also
    --------
    run_specification : Run a plan.

    Examples
    --------
    >>> import tempfile
    >>> from steropes.studies import read_specification_plan
    >>> text = '{"moduleSpecifications": [{"module": "CohortSurvivalModule"}]}'
    >>> with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
    ...     _ = file.write(text)
    ...     file.flush()
    ...     plan = read_specification_plan(file.name)
    >>> plan.lines()[1]
    '  module: does not run: there is no module of this name in Strategus 1.5'
    """
    given = None if models is None else Path(models)
    try:
        return _plan(specification_values(path), lambda: _model_files(given, Path(path).parent))
    except DataError as error:
        said = str(error)
        raise DataError(said if said.startswith(str(path)) else f"{path}: {said}") from None


def specification_plan(
    values: Mapping[str, object], *, files: ModelFiles | None = None
) -> SpecificationPlan:
    """Plan a specification.

    Parameters
    ----------
    values : mapping
        The specification as parsed JSON.
    files : ModelFiles, optional
        Where the prediction models are that the specification validates. Default: nowhere.

    Returns
    -------
    SpecificationPlan
        The plan. A fault of a single module or analysis is a verdict, not an error.

    Raises
    ------
    DataError
        The values are no specification, or a part that its modules share is invalid.
    """
    return _plan(values, lambda: _model_files() if files is None else files)


def _plan(values: Mapping[str, object], files: Callable[[], ModelFiles]) -> SpecificationPlan:
    """Plan a specification; the models that it validates are asked for when they are needed."""
    files = functools.cache(files)  # One for all modules, because transferred models are kept.
    if "estimationAnalysisSettings" in values:
        from steropes.studies.strategus_plans.atlas_export import atlas_plan

        cohorts, comparative = atlas_plan(values)
        said = (*_cohort_verdicts(cohorts), *comparative.verdicts)
        return SpecificationPlan(cohorts, comparative, verdicts=said)
    if "moduleSpecifications" not in values:
        raise DataError(
            "there are neither moduleSpecifications, as in a specification of Strategus, nor "
            "estimationAnalysisSettings, as in an export of ATLAS"
        )
    for key in values:
        if key not in ("sharedResources", "moduleSpecifications") and key[:5] != "attr_":
            raise DataError(f"{json_path((key,))} is not known")
    modules = values["moduleSpecifications"]
    if isinstance(modules, Mapping):
        modules = [modules]
    if not isinstance(modules, list):
        raise DataError("moduleSpecifications must be a list")
    cohorts = SharedCohorts.read(values.get("sharedResources"))
    plans: dict[str, Any] = {}
    statistics = False
    verdicts = []
    generated = any(isinstance(m, Mapping) and m.get("module") == COHORTS for m in modules)
    if not generated:
        verdicts += _cohort_verdicts(cohorts)
    seen: set[str] = set()
    for i, module in enumerate(modules):
        path: JsonPath = ("moduleSpecifications", i)
        name = module_name(module, path)
        try:
            unknown = [k for k in module if k not in BESIDE and k[:5] != "attr_"]
            if unknown:
                raise DataError(f"{json_path((*path, unknown[0]))} is not known")
            if name in seen:
                raise DataError(f"{json_path(path)}: the module occurs before")
            seen.add(name)
            settings, place = module.get("settings"), (*path, "settings")
            if name == COHORTS:
                statistics = parsed(_GeneratorSettings, settings or {}, place).generate_stats
                verdicts += _cohort_verdicts(cohorts)
            elif name in MODULES:
                attribute, plan = _planned(name, settings, place, cohorts, files)
                plans[attribute] = plan
                verdicts += plan.verdicts
            else:
                reason = "there is no module of this name in Strategus 1.5"
                verdicts.append(skipped(name, "module", reason))
        except DataError as error:
            verdicts.append(skipped(name, "settings", str(error)))
    return SpecificationPlan(cohorts, **plans, statistics=statistics, verdicts=tuple(verdicts))


def module_name(module: object, path: JsonPath) -> str:
    """Return the name of a module.

    Raises
    ------
    DataError
        The module has no name.
    """
    name = module.get("module") if isinstance(module, Mapping) else None
    if not isinstance(name, str) or not plain_text(name).strip():
        raise DataError(f"{json_path(path)} must be an object with the name of a module")
    return name


class _GeneratorSettings(RModel):
    """Settings of CohortGeneratorModule."""

    generate_stats: Flag = False
    incremental: Flag = False


def _without_concepts(cohort: DefinedCohort) -> str:
    """Return a remark on a cohort whose entry events are of empty concept sets; "" for others."""
    definition = CohortDefinition(cohort.id, cohort.name, cohort.json_text)
    asked = {number for _, number in definition.entry_events}
    filled = {number for number, _, of in definition.concept_sets if of.get("items")}
    if not asked or asked & {None, *filled}:
        return ""
    return "the concept sets of its entry events are empty, so that nobody enters it"


def _cohort_verdicts(cohorts: SharedCohorts) -> list[PartVerdict]:
    """Return the verdicts on cohorts: one per origin and one per fault."""
    found = []
    try:
        cohorts.need_packages()
        gone = ""
    except MissingExtraError as error:
        gone = str(error)
    origins = {
        "defined cohort": [c.id for c in cohorts.defined],
        "subset": [c.id for c in cohorts.subsets],
        "negative control": [c.cohort_id for c in cohorts.controls],
    }
    for origin, ids in origins.items():
        good = [i for i in ids if not cohorts.fault(i)]
        if good:
            part = f"{len(good):,} {origin}{'s' if len(good) > 1 else ''}"
            absent = gone if origin == "defined cohort" else ""
            made = runs(COHORTS, part, needs=[(i,) for i in good])
            found.append(skipped(COHORTS, part, absent) if absent else made)
    found += [
        PartVerdict(COHORTS, f"cohort {c.id} ({c.name})", remark=text)
        for c in cohorts.defined
        if not cohorts.fault(c.id) and (text := _without_concepts(c))
    ]
    every = dict.fromkeys(i for listed in origins.values() for i in listed)
    found += [skipped(COHORTS, f"cohort {i}", why) for i in every if (why := cohorts.fault(i))]
    return found
