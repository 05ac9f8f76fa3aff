"""Cohorts that the modules of a specification share: definitions, subsets, negative controls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import ConfigDict

from steropes.errors import DataError
from steropes.studies._optional_packages import need
from steropes.studies.cohorts.circe_schema import check_definition
from steropes.studies.strategus_plans.r_json_values import (
    Flag,
    Identifier,
    Items,
    JsonPath,
    LowerCase,
    RModel,
    Text,
    json_path,
    parsed,
    table_rows,
)
from steropes.studies.strategus_plans.specification_text import parsed_json
from steropes.studies.strategus_plans.subset_definitions import SubsetDefinition, subset_definition

__all__ = ["ControlOutcome", "ControlRules", "DefinedCohort", "SharedCohorts", "SubsetCohort"]


@dataclass(frozen=True)
class DefinedCohort:
    """A cohort with a Circe definition."""

    id: int
    name: str
    json_text: str


@dataclass(frozen=True)
class SubsetCohort:
    """A cohort of the entries of another one that pass the operators of a definition."""

    id: int
    target: int
    definition: SubsetDefinition
    json_text: str


class ControlOutcome(RModel):
    """A negative control: the records of a concept become a cohort with a separate id.

    Further columns are remarks of the author, which R does not read either.
    """

    model_config = ConfigDict(extra="ignore")

    cohort_id: Identifier
    cohort_name: Text
    outcome_concept_id: Identifier


class ControlRules(RModel):
    """Which records of negative controls become entries."""

    occurrence_type: Annotated[Literal["all", "first"], LowerCase] = "all"
    detect_on_descendants: Flag = False
    domains: Items[Text] = ("condition", "observation")


@dataclass(frozen=True)
class SharedCohorts:
    """All cohorts that a specification defines.

    Attributes
    ----------
    defined, subsets, controls : tuple
        The cohorts by origin.
    control_rules : ControlRules
        Rules of the negative controls.
    faults : dict of int to str
        Cohorts that cannot be made, by id, with the reason.
    """

    defined: tuple[DefinedCohort, ...] = ()
    subsets: tuple[SubsetCohort, ...] = ()
    controls: tuple[ControlOutcome, ...] = ()
    control_rules: ControlRules = field(default_factory=ControlRules)
    faults: Mapping[int, str] = field(default_factory=dict)

    @classmethod
    def read(cls, resources: object, path: JsonPath = ("sharedResources",)) -> SharedCohorts:
        """Read the shared resources of a specification.

        Raises
        ------
        DataError
            A resource is unknown or invalid. A fault of a single cohort is recorded instead.
        """
        listed = [resources] if isinstance(resources, Mapping) else resources or []
        if not isinstance(listed, list):
            raise DataError(f"{json_path(path)} must be a list of objects")
        faults: dict[int, str] = {}
        defined: list[DefinedCohort] = []
        subsets: list[SubsetCohort] = []
        controls: list[ControlOutcome] = []
        rules = ControlRules()
        for i, resource in enumerate(listed):
            place: JsonPath = (*path, i)
            if not isinstance(resource, Mapping):
                raise DataError(f"{json_path(place)} must be an object")
            known = {"cohortDefinitions", "subsetDefs", "cohortSubsets", "negativeControlOutcomes"}
            for name in resource:
                if name not in known and not name.startswith("attr_"):
                    raise DataError(f"{json_path((*place, name))} is not known")
            defined += _defined(
                resource.get("cohortDefinitions"), (*place, "cohortDefinitions"), faults
            )
            subsets += _subsets(resource, place, faults)
            if "negativeControlOutcomes" in resource:
                at: JsonPath = (*place, "negativeControlOutcomes")
                found, rules = _controls(resource["negativeControlOutcomes"], at)
                controls += found
        return cls(tuple(defined), tuple(subsets), tuple(controls), rules, faults).checked()

    def checked(self) -> SharedCohorts:
        """Return the cohorts with the faults that concern several of them."""
        return replace(self, faults={**self._collisions(), **self.faults})

    @cached_property
    def names(self) -> dict[int, str]:
        """Names of all cohorts by id."""
        names = {c.id: c.name for c in self.defined}
        for subset in self.subsets:
            base = names.get(subset.target, f"cohort {subset.target}")
            names.setdefault(subset.id, subset.definition.cohort_name(base))
        for control in self.controls:
            names.setdefault(control.cohort_id, control.cohort_name)
        return names

    def fault(self, cohort: int) -> str:
        """Return the reason why a cohort cannot be made; "" if it can."""
        found = self._faults_of_all.get(cohort)
        return f"cohort {cohort} is not defined in the specification" if found is None else found

    @cached_property
    def _faults_of_all(self) -> dict[int, str]:
        """The fault of every cohort, "" for none; a subset has those of the cohorts it needs."""
        found = {i: self.faults.get(i, "") for i in (*self.names, *self.faults)}
        for subset in self.subsets:  # They refer to cohorts that are made before them.
            for needed in (subset.target, *self._needed(subset.definition)):
                undefined = f"cohort {needed} is not defined in the specification"
                found[subset.id] = found[subset.id] or found.get(needed, undefined)
        return found

    def need_packages(self) -> None:
        """Raise `MissingExtraError` if a package is missing that generates the cohorts."""
        if any(not self.fault(c.id) for c in self.defined):
            need("duckcdm", "circe")

    @staticmethod
    def _needed(definition: SubsetDefinition) -> tuple[int, ...]:
        """Return the cohorts to which the operators of a definition refer."""
        ids: list[int] = []
        for operator in definition.subset_operators:
            ids += getattr(operator, "cohort_ids", ())
        return tuple(ids)

    def _collisions(self) -> dict[int, str]:
        """Describe ids that two cohorts have, and subsets that refer to themselves."""
        uses: dict[int, list[str]] = {}
        for cohort in self.defined:
            uses.setdefault(cohort.id, []).append(f"the cohort {cohort.name!r}")
        for subset in self.subsets:
            text = f"subset {subset.definition.name!r} of cohort {subset.target}"
            uses.setdefault(subset.id, []).append(text)
        for control in self.controls:
            text = f"the negative control {control.cohort_name!r}"
            uses.setdefault(control.cohort_id, []).append(text)
        found = {
            i: f"cohort {i} is {' and '.join(of)}: one id has one cohort, and R would keep the "
            "entries of the last one only"
            for i, of in uses.items()
            if len(of) > 1
        }
        made = {c.id for c in self.defined} | {c.cohort_id for c in self.controls}
        for subset in self.subsets:  # R makes subsets in the order of the file.
            later = [c for c in (subset.target, *self._needed(subset.definition)) if c not in made]
            if later:
                found.setdefault(
                    subset.id,
                    f"cohort {subset.id} is a subset by cohort {later[0]}, which is not made "
                    "before it",
                )
            made.add(subset.id)
        return found


class _Definition(RModel):
    """A cohort definition among the shared resources."""

    cohort_id: Identifier
    cohort_name: Text
    cohort_definition: Any


class _Subset(RModel):
    """A reference to a subset definition."""

    cohort_id: Identifier
    subset_id: Identifier
    target_cohort_id: Identifier


class _ControlSet(RModel):
    """The negative controls among the shared resources."""

    negative_control_outcome_cohort_set: Any
    occurrence_type: Any = "all"
    detect_on_descendants: Any = False


def _listed(values: object, path: JsonPath) -> list[object]:
    """Return a list of objects; one object alone is a list of one."""
    listed = [values] if isinstance(values, Mapping) else values or []
    if not isinstance(listed, list):
        raise DataError(f"{json_path(path)} must be a list")
    return listed


def _defined(values: object, path: JsonPath, faults: dict[int, str]) -> list[DefinedCohort]:
    """Read the cohort definitions; one that cannot be read is a fault of its cohort."""
    found = []
    for i, value in enumerate(_listed(values, path)):
        place: JsonPath = (*path, i)
        read = parsed(_Definition, value, place)
        at: JsonPath = (*place, "cohortDefinition")
        text = read.cohort_definition
        try:
            if not isinstance(text, str):
                raise DataError(f"{json_path(at)} must be JSON in a text")
            expression = parsed_json(text, json_path(at))
            check_definition(read.cohort_id, expression)
        except DataError as error:
            faults[read.cohort_id] = str(error)
        found.append(DefinedCohort(read.cohort_id, read.cohort_name, str(text)))
    return found


def _subsets(
    resource: Mapping[str, object], place: JsonPath, faults: dict[int, str]
) -> list[SubsetCohort]:
    """Read the subsets; a definition that cannot be read is a fault of its cohorts."""
    definitions: dict[int, tuple[SubsetDefinition, str]] = {}
    unread: dict[int, str] = {}
    at: JsonPath = (*place, "subsetDefs")
    texts = resource.get("subsetDefs")
    for i, text in enumerate([texts] if isinstance(texts, str) else _listed(texts, at)):
        try:
            definition = subset_definition(text, (*at, i))
        except DataError as error:
            unread[i] = str(error)
            continue
        definitions[definition.definition_id] = (definition, str(text))
    found = []
    at = (*place, "cohortSubsets")
    for i, value in enumerate(_listed(resource.get("cohortSubsets"), at)):
        read = parsed(_Subset, value, (*at, i))
        if read.subset_id in definitions:
            definition, text = definitions[read.subset_id]
            found.append(SubsetCohort(read.cohort_id, read.target_cohort_id, definition, text))
        else:
            gone = (
                f"{json_path((*at, i, 'subsetId'))}: there is no subset definition {read.subset_id}"
            )
            faults[read.cohort_id] = "; ".join(unread.values()) or gone
    if unread and not _listed(resource.get("cohortSubsets"), at):
        raise DataError(next(iter(unread.values())))
    return found


def _controls(values: object, path: JsonPath) -> tuple[list[ControlOutcome], ControlRules]:
    """Read the negative controls."""
    read = parsed(_ControlSet, values, path)
    at: JsonPath = (*path, "negativeControlOutcomeCohortSet")
    rows = table_rows(read.negative_control_outcome_cohort_set, at)
    rules = parsed(
        ControlRules,
        {"occurrenceType": read.occurrence_type, "detectOnDescendants": read.detect_on_descendants},
        path,
    )
    found = [parsed(ControlOutcome, row, (*at, i)) for i, row in enumerate(rows)]
    twice = [i for i, n in Counter(c.cohort_id for c in found).items() if n > 1]
    if twice:
        raise DataError(f"{json_path(at)}: two negative controls have the id {twice[0]}")
    return found, rules
