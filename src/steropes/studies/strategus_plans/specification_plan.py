"""The plan of a specification: its cohorts, the modules that run, and differences from R."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steropes.data.html_representations import FieldsInHtml
from steropes.errors import DataError
from steropes.studies._optional_packages import MissingExtraError
from steropes.studies.cohort_diagnostics.concept_sets_of_definitions import CohortDefinition
from steropes.studies.formatting.text_safety import plain_text
from steropes.studies.strategus_plans.atlas_export import atlas_plan, is_atlas_export
from steropes.studies.strategus_plans.characterization_plan import (
    CHARACTERIZATION,
    CharacterizationPlan,
    characterization_plan,
)
from steropes.studies.strategus_plans.cohort_diagnostics_plan import (
    COHORT_DIAGNOSTICS,
    CohortDiagnosticsPlan,
    cohort_diagnostics_plan,
)
from steropes.studies.strategus_plans.comparative_plan import (
    COHORT_METHOD,
    ComparativePlan,
    comparative_plan,
)
from steropes.studies.strategus_plans.incidence_plan import INCIDENCE, IncidencePlan, incidence_plan
from steropes.studies.strategus_plans.model_transfer_plan import (
    MODEL_TRANSFER,
    ModelTransferPlan,
    model_transfer_plan,
)
from steropes.studies.strategus_plans.pathway_plan import PATHWAYS, PathwayPlan, pathway_plan
from steropes.studies.strategus_plans.prediction_model_files import ModelFiles
from steropes.studies.strategus_plans.prediction_plan import (
    PREDICTION,
    PredictionPlan,
    prediction_plan,
)
from steropes.studies.strategus_plans.r_json_values import Flag, JsonPath, RModel, json_path, parsed
from steropes.studies.strategus_plans.series_plan import CASE_SERIES, SeriesPlan, series_plan
from steropes.studies.strategus_plans.shared_cohorts import DefinedCohort, SharedCohorts
from steropes.studies.strategus_plans.specification_text import specification_values
from steropes.studies.strategus_plans.supported_parts import PartVerdict, runs, skipped
from steropes.studies.strategus_plans.synthesis_plan import SYNTHESIS, SynthesisPlan, synthesis_plan
from steropes.studies.strategus_plans.validation_plan import (
    VALIDATION,
    ValidationPlan,
    validation_plan,
)

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


Planner = Callable[[object, JsonPath, SharedCohorts, ModelFiles], Any]


def _without_models(plan: Callable[[object, JsonPath, SharedCohorts], Any]) -> Planner:
    """Return the planner of a module that uses no models in files."""
    return lambda settings, path, cohorts, _: plan(settings, path, cohorts)


# For each module of Strategus that runs here, the attribute of `SpecificationPlan` that holds its
# plan, and the function that plans its settings. A new module needs a line here and an attribute.
MODULES: dict[str, tuple[str, Planner]] = {
    COHORT_METHOD: ("comparative", _without_models(comparative_plan)),
    CASE_SERIES: ("series", _without_models(series_plan)),
    INCIDENCE: ("incidence", _without_models(incidence_plan)),
    CHARACTERIZATION: ("characterization", _without_models(characterization_plan)),
    COHORT_DIAGNOSTICS: ("diagnostics", _without_models(cohort_diagnostics_plan)),
    PREDICTION: ("prediction", _without_models(prediction_plan)),
    MODEL_TRANSFER: (
        "transfer",
        lambda settings, path, _, files: model_transfer_plan(settings, path, files),
    ),
    VALIDATION: ("validation", validation_plan),
    PATHWAYS: ("pathways", _without_models(pathway_plan)),
    SYNTHESIS: ("synthesis", lambda settings, path, *_: synthesis_plan(settings, path)),
}


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
    files = ModelFiles(None if models is None else Path(models), Path(path).parent)
    try:
        return specification_plan(specification_values(path), files=files)
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
    if is_atlas_export(values):
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
    files = ModelFiles() if files is None else files
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
                attribute, planner = MODULES[name]
                plans[attribute] = planner(settings, place, cohorts, files)
                verdicts += plans[attribute].verdicts
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
