"""Estimation designs exported from ATLAS, in the terms of a Strategus specification."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from steropes.errors import DataError
from steropes.studies.cohorts.circe_schema import check_definition
from steropes.studies.strategus_plans.comparative_plan import (
    COHORT_METHOD,
    ComparativePlan,
    comparative_plan,
)
from steropes.studies.strategus_plans.r_json_values import (
    Flag,
    Identifier,
    JsonPath,
    Objects,
    RModel,
    Text,
    json_path,
    parsed,
)
from steropes.studies.strategus_plans.shared_cohorts import (
    ControlOutcome,
    ControlRules,
    DefinedCohort,
    SharedCohorts,
)
from steropes.studies.strategus_plans.supported_parts import runs, skipped

__all__ = ["atlas_plan", "is_atlas_export"]

ANALYSES: JsonPath = ("estimationAnalysisSettings", "analysisSpecification")
# Arguments that count only if the flag is true; ATLAS exports them in any case.
FLAGS = {
    "createPs": "createPsArgs",
    "trimByPs": "trimByPsArgs",
    "trimByPsToEquipoise": "trimByPsToEquipoiseArgs",
    "trimByIptw": "trimByIptwArgs",
    "truncateIptw": "truncateIptwArgs",
    "matchOnPs": "matchOnPsArgs",
    "matchOnPsAndCovariates": "matchOnPsAndCovariatesArgs",
    "stratifyByPs": "stratifyByPsArgs",
    "stratifyByPsAndCovariates": "stratifyByPsAndCovariatesArgs",
    "fitOutcomeModel": "fitOutcomeModelArgs",
}
# Fields on the origin of the design, and settings of positive controls, which are not made.
REMARKS = {
    "skeletonType", "skeletonVersion", "version", "organizationName", "name", "description", "id",
    "packageName", "createdBy", "createdDate", "modifiedBy", "modifiedDate", "conceptSets",
    "conceptSetCrossReference", "positiveControlSynthesisArgs",
}  # fmt: skip


class _NegativeControl(RModel):
    """A negative control outcome of a comparison."""

    target_id: Identifier
    comparator_id: Identifier
    outcome_id: Identifier
    outcome_name: Text = ""
    type: Text = "outcome"


class _Definition(RModel):
    """A cohort definition."""

    id: Identifier
    name: Text
    expression: Any
    description: Any = None
    expression_type: Any = None
    created_by: Any = None
    created_date: Any = None
    modified_by: Any = None
    modified_date: Any = None


class _Specification(RModel):
    """The analyses and questions of an export."""

    cohort_method_analysis_list: Objects[Any]
    target_comparator_outcomes: Objects[Any]


class _Question(RModel):
    """Target, comparator and outcomes of interest."""

    target_id: Identifier
    comparator_id: Identifier
    outcome_ids: Any = ()
    excluded_covariate_concept_ids: Any = ()
    included_covariate_concept_ids: Any = ()


def is_atlas_export(values: Mapping[str, object]) -> bool:
    """Check whether values are an estimation design of ATLAS."""
    return "estimationAnalysisSettings" in values


def atlas_plan(values: Mapping[str, object]) -> tuple[SharedCohorts, ComparativePlan]:
    """Translate an estimation design.

    Parameters
    ----------
    values : mapping
        The export as parsed JSON.

    Returns
    -------
    SharedCohorts
        The cohorts and negative controls.
    ComparativePlan
        The questions and analyses.

    Raises
    ------
    DataError
        A field is unknown or invalid; the message has its JSON path.
    """
    known = REMARKS | {
        "estimationAnalysisSettings", "cohortDefinitions", "negativeControls",
        "negativeControlOutcomeCohortDefinition", "negativeControlExposureCohortDefinition",
        "doPositiveControlSynthesis",
    }  # fmt: skip
    for name in values:
        if name not in known:
            raise DataError(f"{json_path((name,))} is not known")
    settings = values["estimationAnalysisSettings"]
    if not isinstance(settings, Mapping):
        raise DataError("estimationAnalysisSettings must be an object")
    for name in settings:
        if name not in ("estimationType", "analysisSpecification"):
            raise DataError(f"{json_path(('estimationAnalysisSettings', name))} is not known")
    if settings.get("estimationType", "ComparativeCohortAnalysis") != "ComparativeCohortAnalysis":
        raise DataError(
            "estimationAnalysisSettings.estimationType must be a comparative cohort study"
        )
    read = parsed(_Specification, settings.get("analysisSpecification"), ANALYSES)
    controls = _negative_controls(values)
    cohorts = _cohorts(values, controls)
    analyses = [_analysis(a) for a in read.cohort_method_analysis_list]
    questions = [
        _question(q, (*ANALYSES, "targetComparatorOutcomes", i), controls)
        for i, q in enumerate(read.target_comparator_outcomes)
    ]
    plan = comparative_plan(
        {"cmAnalysisList": analyses, "targetComparatorOutcomesList": questions},
        ANALYSES,
        cohorts,
        ("cohortMethodAnalysisList", "targetComparatorOutcomes"),
    )
    return cohorts, _with_remarks(plan, values)


def _with_remarks(plan: ComparativePlan, values: Mapping[str, object]) -> ComparativePlan:
    """Add verdicts on the diagnostics and the positive controls of the whole design."""
    verdicts = list(plan.verdicts)
    verdicts.append(
        runs(
            COHORT_METHOD,
            "diagnostics",
            ["the diagnostics of CohortMethod 6 decide what is shown; ATLAS has none"],
        )
    )
    synthesis = parsed(_Synthesis, {"on": values.get("doPositiveControlSynthesis") or False}, ())
    if synthesis.on:
        verdicts.append(
            skipped(COHORT_METHOD, "positive controls", "they are not made from this design")
        )
    return ComparativePlan(
        plan.questions, plan.analyses, plan.exclude, plan.thresholds, tuple(verdicts)
    )


class _Synthesis(RModel):
    """Whether positive controls are to be made."""

    on: Flag


def _negative_controls(values: Mapping[str, object]) -> list[_NegativeControl]:
    """Read the negative controls."""
    listed = values.get("negativeControls") or []
    if not isinstance(listed, list):
        raise DataError("negativeControls must be a list")
    found = []
    for i, value in enumerate(listed):
        control = parsed(_NegativeControl, value, ("negativeControls", i))
        if control.type != "outcome":
            at = json_path(("negativeControls", i, "type"))
            raise DataError(f"{at}: controls are outcomes here, not {control.type[:40]!r}")
        found.append(control)
    return found


def _cohorts(values: Mapping[str, object], controls: list[_NegativeControl]) -> SharedCohorts:
    """Read the cohort definitions; a negative control has the id of its concept."""
    faults: dict[int, str] = {}
    defined = []
    listed = values.get("cohortDefinitions") or []
    if not isinstance(listed, list):
        raise DataError("cohortDefinitions must be a list")
    for i, value in enumerate(listed):
        read = parsed(_Definition, value, ("cohortDefinitions", i))
        try:
            check_definition(read.id, read.expression)
        except DataError as error:
            faults[read.id] = str(error)
        defined.append(DefinedCohort(read.id, read.name, json.dumps(read.expression)))
    at = "negativeControlOutcomeCohortDefinition"
    rules = parsed(ControlRules, values.get(at) or {}, (at,))
    made = {c.outcome_id: c.outcome_name for c in controls}
    outcomes = tuple(
        ControlOutcome.model_validate(
            {"cohortId": i, "cohortName": name or f"concept {i}", "outcomeConceptId": i}
        )
        for i, name in made.items()
    )
    return SharedCohorts(tuple(defined), (), outcomes, rules, faults).checked()


def _analysis(values: object) -> object:
    """Write an analysis as CohortMethod 5 does: arguments without their flag are dropped."""
    if not isinstance(values, Mapping):
        return values
    made = {name: value for name, value in values.items() if name not in FLAGS}
    for flag, name in FLAGS.items():
        if values.get(flag) is False:
            made.pop(name, None)
    people = values.get("createStudyPopArgs")
    if isinstance(people, Mapping):
        made["createStudyPopArgs"] = _population(people)
    return made


def _population(values: Mapping[str, object]) -> dict[str, object]:
    """Write the flags of early versions as anchors."""
    made = dict(values)
    for flag, anchor in (
        ("addExposureDaysToStart", "startAnchor"),
        ("addExposureDaysToEnd", "endAnchor"),
    ):
        if flag in made and isinstance(made[flag], bool):
            made.setdefault(anchor, "cohort end" if made[flag] else "cohort start")
            del made[flag]
    return made


def _question(
    values: object, path: JsonPath, controls: list[_NegativeControl]
) -> dict[str, object]:
    """Write a question as CohortMethod 5 does, with the negative controls of its cohorts."""
    read = parsed(_Question, values, path)
    ids = [read.outcome_ids] if isinstance(read.outcome_ids, int) else read.outcome_ids
    if not isinstance(ids, list | tuple):
        raise DataError(f"{json_path((*path, 'outcomeIds'))} must be a list of ids")
    of_interest = [{"outcomeId": i} for i in ids]
    negative = [
        {"outcomeId": c.outcome_id, "outcomeOfInterest": False, "trueEffectSize": 1}
        for c in controls
        if (c.target_id, c.comparator_id) == (read.target_id, read.comparator_id)
    ]
    return {
        "targetId": read.target_id,
        "comparatorId": read.comparator_id,
        "outcomes": [*of_interest, *negative],
        "excludedCovariateConceptIds": read.excluded_covariate_concept_ids,
        "includedCovariateConceptIds": read.included_covariate_concept_ids,
    }
