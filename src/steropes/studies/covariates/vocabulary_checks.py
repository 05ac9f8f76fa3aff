"""Checks that the vocabulary has the links that some covariates require."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from steropes.errors import DataError
from steropes.studies.covariates.covariate_analysis_catalogue import Analysis
from steropes.studies.database.checked_concept_descendants import has_links
from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.omop import OmopDatabase, RecordsOf

__all__ = ["FINDING", "check_vocabulary"]

FINDING = 441840  # SNOMED's clinical finding, an ancestor of all conditions.
COMPLICATIONS = 902  # The diabetes complications severity index, which needs mapped ICD-9-CM codes.


def check_vocabulary(db: OmopDatabase, analyses: Iterable[Analysis]) -> list[DataNote]:
    """Reject groups and scores without any links in the vocabulary, and note incomplete links.

    Parameters
    ----------
    analyses : iterable of Analysis
        Covariate analyses. Those without records in the database need no vocabulary.

    Raises
    ------
    DataError
        ``concept_ancestor`` has no links at all, or none below the clinical findings that define
        groups of conditions.
    """
    linked = [a for a in analyses if a.kind in ("group", "score") and _recorded(db, a)]
    if not linked:
        return []
    if not has_links(db):
        raise DataError(
            f"{_listed(linked)} derived from the links of concept_ancestor, and {db.name} has "
            "none; load the vocabulary's concept_ancestor, or leave these analyses out"
        )
    groups = [a for a in linked if a.kind == "group" and a.domain == "Condition"]
    if groups and not db.holds(
        "concept_ancestor", lambda quote: f"{quote('ancestor_concept_id')} = {FINDING}"
    ):
        raise DataError(
            f"{_listed(groups)} derived from the descendants of concept {FINDING} (clinical "
            f"finding), and concept_ancestor of {db.name} has none; load the vocabulary's "
            "concept_ancestor, or leave these analyses out"
        )
    tables = dict.fromkeys(a.table for a in linked)
    notes = [note for table in tables for note in _unlinked(db, linked, table)]
    if any(a.id == COMPLICATIONS for a in linked) and not _has_map(db):
        notes.append(
            DataNote(
                "missing_links",
                f"Covariate analysis {COMPLICATIONS} (Dcsi) is zero for everybody, because the "
                "vocabulary maps no ICD-9-CM codes to conditions",
            )
        )
    return notes


def _recorded(db: OmopDatabase, a: Analysis) -> bool:
    """Check whether the database has any record that an analysis reads."""
    columns = db.columns(a.table)
    if "person_id" not in columns or a.concept not in columns:
        return False
    return db.holds(a.table, lambda quote: f"{quote(a.concept)} <> 0")


def _unlinked(db: OmopDatabase, linked: Sequence[Analysis], table: str) -> list[DataNote]:
    """Note the recorded concepts of a table that no link of the vocabulary includes."""
    own = [a for a in linked if a.table == table and a.id != COMPLICATIONS]
    if not own:
        return []
    concept = own[0].concept
    recorded = db.recorded_concepts(db.table(table), concept)
    links = db.links("descendant_concept_id", lambda: recorded)
    found = {
        int(c) for (c,) in db.rows(f"SELECT DISTINCT descendant_concept_id::BIGINT FROM {links}")
    }
    gone = [c for c in recorded if c and c not in found]
    if not gone:
        return []
    text = (
        f"{_listed(own)} derived from the links of concept_ancestor, which has no row of "
        f"{len(gone):,} of the {len(recorded):,} concepts recorded in {table}: these belong to no "
        "group and count in no score"
    )
    return [DataNote("missing_links", text, warning=True)]


def _has_map(db: OmopDatabase) -> bool:
    """Check whether the vocabulary maps ICD-9-CM codes to other concepts."""
    if not {"vocabulary_id", "concept_code"} <= {*db.columns("concept")}:
        return False
    if "relationship_id" not in db.columns("concept_relationship"):
        return False
    codes = db.holding("concept", lambda: RecordsOf("concept", "vocabulary_id", ("ICD9CM",)))
    has_codes = db.rows(f"SELECT 1 FROM {codes} WHERE vocabulary_id = 'ICD9CM' LIMIT 1")
    return bool(has_codes) and db.holds(
        "concept_relationship", lambda quote: f"{quote('relationship_id')} = 'Maps to'"
    )


def _listed(analyses: Sequence[Analysis]) -> str:
    """List the analyses as the subject of a sentence, with its verb."""
    if len(analyses) == 1:
        return f"Covariate analysis {analyses[0].id} ({analyses[0].name}) is"
    return f"Covariate analyses {', '.join(str(a.id) for a in analyses)} are"
