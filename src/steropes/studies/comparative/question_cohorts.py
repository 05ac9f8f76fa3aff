"""Cohorts and shared steps of a one-question study, and its refusals in the study's own words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from steropes.errors import DataError
from steropes.studies.comparative.outcome_analysis import AnalysisResult
from steropes.studies.comparative.study_specification import ROLES, study_specification
from steropes.studies.database.data_notes import DataNote, explained
from steropes.studies.database.descendants import Descendants
from steropes.studies.database.domain_hints import domain_hint
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.execution.analysis_cache import Workbench
from steropes.studies.execution.specification import GridSpec

if TYPE_CHECKING:
    from steropes.studies.comparative.study_settings import StudySettings

__all__ = ["QuestionCohorts", "emptied_arm", "in_roles", "make_question_cohorts"]


@dataclass(frozen=True, repr=False, eq=False)
class QuestionCohorts:
    """The specification of a one-question study, its cohorts, and the steps that analyses share.

    Attributes
    ----------
    spec : GridSpec
    bench : Workbench
    notes : tuple of DataNote
        Irregularities of the data that affect the cohorts.
    """

    spec: GridSpec
    bench: Workbench
    notes: tuple[DataNote, ...]


def make_question_cohorts(db: OmopDatabase, settings: StudySettings) -> QuestionCohorts:
    """Make the cohorts of both drugs and of the outcome.

    Raises
    ------
    DataError
        A cohort cannot be made, the drugs overlap, or nobody took one of them.
    """
    spec = study_specification(settings, db.tables)
    made = spec.make_cohorts(db)
    if made.refused or made.table is None:
        raise DataError("; ".join(map(_in_roles, made.refused.values())))
    _refuse_overlap(db, spec, settings)
    notes = tuple(in_roles(made.table.notes))
    for cohort, role in enumerate(ROLES[:2], 1):
        if cohort not in made.table.ids:
            _refuse_nobody(db, settings, role, notes)
    bench = Workbench(spec.of_compared(db, {}), made.table, spec.thresholds)
    return QuestionCohorts(spec, bench, notes)


def emptied_arm(db: OmopDatabase, settings: StudySettings, crude: AnalysisResult) -> str:
    """Name the empty arm and the rule that emptied it; "" if both arms have people."""
    for role in ROLES[:2]:
        left = crude.attrition[f"{role}_people"].to_numpy()
        if left[-1] == 0:
            rule = crude.attrition["rule"].iloc[int(np.argmax(left == 0))]
            drug = getattr(settings, role)
            name = db.concept_name(drug)
            return f"nobody is left in the {role} arm, {drug} ({name}), after the rule: {rule}"
    return ""


def in_roles(notes: Iterable[DataNote]) -> list[DataNote]:
    """Replace the ids of cohorts in notes by their roles."""
    return [replace(note, text=_in_roles(note.text)) for note in notes]


def _in_roles(why: str) -> str:
    """Replace a cohort's id in a sentence by its role, and a grid's options by the study's."""
    for cohort, role in enumerate(ROLES, 1):
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
    """Raise because nobody took a drug: a wrong concept rather than a result."""
    drug = getattr(settings, role)
    hint = domain_hint(db, drug, "drug_era")
    reason = f"nobody has a drug era of the {role} {drug} ({db.concept_name(drug)}){hint}"
    raise DataError(explained(reason, notes))
