"""Cohorts of a study of one question, with errors that call them target and comparator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from steropes.errors import DataError
from steropes.studies.comparative.analysis_cache import Workbench
from steropes.studies.comparative.analysis_result import AnalysisResult
from steropes.studies.database.checked_concept_descendants import Descendants
from steropes.studies.database.concept_domain_hints import domain_hint
from steropes.studies.database.data_quality_notes import DataNote, explained
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.specifications.grid_specification import GridSpec
from steropes.studies.specifications.one_question_specification import (
    ROLES,
    study_roles,
    study_specification,
)

if TYPE_CHECKING:
    from steropes.studies.specifications.study_settings import StudySettings

# The roles of the compared cohorts and of the outcome, by their numbers in the tables.
OWN_NUMBERS = dict(enumerate(ROLES, 1))

__all__ = ["QuestionCohorts", "emptied_arm", "in_roles", "make_question_cohorts"]


@dataclass(frozen=True, repr=False, eq=False)
class QuestionCohorts:
    """The specification of a one-question study, its cohorts, and the steps that analyses share.

    Attributes
    ----------
    notes : tuple of DataNote
        Irregularities of the data that affect the cohorts.
    refused : dict of int to str
        Reasons why further outcomes and negative controls cannot be made, by their number.
    """

    spec: GridSpec
    bench: Workbench
    notes: tuple[DataNote, ...]
    refused: dict[int, str]


def make_question_cohorts(db: OmopDatabase, settings: StudySettings) -> QuestionCohorts:
    """Make the cohorts of both drugs and of the outcome.

    Raises
    ------
    DataError
        A cohort cannot be made, the drugs overlap, or no one took one of them.
    """
    spec, numbered = study_specification(settings, db.tables), study_roles(settings)
    roles = {given: role for given, (_, role) in numbered.items()}
    found = spec.cohorts.make(db, {*numbered})
    made = found.renumbered({given: number for given, (number, _) in numbered.items()})
    refused = {cohort: _in_roles(why, roles) for cohort, why in made.refused.items()}
    needed = [settings.target, settings.comparator, settings.outcome, settings.nesting]
    why = [refused[numbered[i][0]] for i in needed if i and numbered[i][0] in refused]
    if why or made.table is None:
        raise DataError("; ".join(why))
    if settings.cohorts is None:
        _refuse_overlap(db, spec, settings)
    notes = tuple(in_roles(made.table.notes, roles))
    for cohort, role in enumerate(ROLES[:2], 1):
        if cohort not in made.table.ids:
            _refuse_nobody(db, settings, role, notes)
    compared = spec.cohorts.compared(db, {settings.target, settings.comparator})
    bench = Workbench(compared, made.table, spec.thresholds)
    return QuestionCohorts(spec, bench, notes, refused)


def emptied_arm(settings: StudySettings, crude: AnalysisResult) -> str:
    """Name the empty arm and the rule that emptied it; "" if both arms have people."""
    for role in ROLES[:2]:
        left = crude.attrition[f"{role}_people"].to_numpy()
        if left[-1] == 0:
            rule = crude.attrition["rule"].iloc[int(np.argmax(left == 0))]
            drug = f"{getattr(settings, role)} ({crude.names[role]})"
            return f"nobody is left in the {role} arm, {drug}, after the rule: {rule}"
    return ""


def in_roles(notes: Iterable[DataNote], roles: Mapping[int, str] = OWN_NUMBERS) -> list[DataNote]:
    """Replace the ids of cohorts in notes by their roles."""
    return [replace(note, text=_in_roles(note.text, roles)) for note in notes]


def _in_roles(why: str, roles: Mapping[int, str]) -> str:
    """Replace a cohort's id in a sentence by its role, and a grid's options by the study's."""
    for cohort, role in roles.items():
        for of, article in (("cohort", "the"), ("Cohort", "The")):
            why = re.sub(rf"\b{of} {cohort}\b", f"{article} {role}", why)
    return why.replace(
        "list the descendants too in a ConceptSet with descendants=False (descendants = false)",
        "take concepts alone with descendants=False (--no-descendants)",
    )


def _refuse_overlap(db: OmopDatabase, spec: GridSpec, settings: StudySettings) -> None:
    """Raise if the two drugs share a concept."""
    family = Descendants(db, [getattr(settings, role) for role in ROLES])
    target, comparator = (
        {*s.members(family, ("drug_era",), "the drug")} for s in spec.cohorts.drugs.values()
    )
    if target & comparator:
        drugs = " and ".join(
            f"{role} {getattr(settings, role)} ({db.concept_name(getattr(settings, role))})"
            for role in ROLES[:2]
        )
        raise DataError(f"{drugs} overlap: both hold concept {min(target & comparator)}")


def _refuse_nobody(
    db: OmopDatabase, settings: StudySettings, role: str, notes: Iterable[DataNote]
) -> None:
    """Raise because no one took a drug: a wrong concept rather than a result."""
    drug = getattr(settings, role)
    if settings.cohorts is not None:
        raise DataError(explained(f"nobody is in the {role}, cohort {drug}", notes))
    hint = domain_hint(db, drug, "drug_era")
    reason = f"nobody has a drug era of the {role} {drug} ({db.concept_name(drug)}){hint}"
    raise DataError(explained(reason, notes))
