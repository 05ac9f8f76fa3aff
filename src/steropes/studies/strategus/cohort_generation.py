"""Generation of the cohorts of a specification: definitions, subsets and negative controls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from steropes.errors import DataError
from steropes.private_files import private_draft
from steropes.studies._optional_packages import need
from steropes.studies.cohorts.circe_cohort_definitions import cohorts_with_statistics
from steropes.studies.cohorts.cohort_sources import MadeCohorts
from steropes.studies.cohorts.cohort_table import COLUMNS, CohortTable
from steropes.studies.database.checked_concept_descendants import Descendants
from steropes.studies.database.data_quality_notes import DataNote, distinct
from steropes.studies.database.omop import OmopDatabase, Workspace
from steropes.studies.strategus.subset_queries import ENTRIES, make_subset
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts

__all__ = ["generate_cohorts", "write_cohort_table"]

# Tables and columns in which negative controls of a domain are recorded.
DOMAINS = {
    "condition": ("condition_occurrence", "condition_concept_id", "condition_start_date"),
    "observation": ("observation", "observation_concept_id", "observation_date"),
    "procedure": ("procedure_occurrence", "procedure_concept_id", "procedure_date"),
    "measurement": ("measurement", "measurement_concept_id", "measurement_date"),
    "drug": ("drug_exposure", "drug_concept_id", "drug_exposure_start_date"),
}
INSTEAD = "set detectOnDescendants to false in the specification"


Statistics = dict[str, pd.DataFrame]


def generate_cohorts(
    db: OmopDatabase, cohorts: SharedCohorts, say: Callable[[str], None], statistics: bool = False
) -> tuple[MadeCohorts, Statistics]:
    """Generate all cohorts that can be made.

    Parameters
    ----------
    say : callable
        Called with the description of each step.
    statistics : bool
        Whether to count how many meet the inclusion rules.

    Returns
    -------
    MadeCohorts
        The cohorts, and the reasons why some could not be made.
    dict of str to DataFrame
        Exact statistics of the inclusion rules by table; empty unless asked for.
    """
    names = cohorts.names
    refused = {i: why for i in names if (why := cohorts.fault(i))}
    definitions = {c.id: c.json_text for c in cohorts.defined if c.id not in refused}
    nobody, never = np.zeros(0, np.int64), np.zeros(0, "datetime64[D]")
    made = CohortTable(nobody, nobody, never, never, db.identity)
    notes: list[DataNote] = []
    counted: Statistics = {}
    if definitions:
        say(f"generating {len(definitions):,} cohorts")
        made, counted = cohorts_with_statistics(
            db, definitions, names=names, refused=refused, statistics=statistics
        )
    with db.workspace() as work:
        made.place(work, ENTRIES)
        notes += made.notes
        del made  # Millions of entries, which the workspace has now.
        if cohorts.subsets:
            say(f"generating {len(cohorts.subsets):,} subsets")
        _subsets(db, work, cohorts, refused)
        if cohorts.controls:
            say(f"generating {len(cohorts.controls):,} negative controls")
        notes += _controls(db, work, cohorts, refused)
        frame = work.frame(f"SELECT {', '.join(COLUMNS)} FROM {ENTRIES}")
    table = CohortTable.from_frame(frame, db.identity)
    known = {i: name for i, name in names.items() if i not in refused}
    table = CohortTable(
        table.definition, table.subject, table.start, table.end, db.identity, known,
        distinct(notes),
    )  # fmt: skip
    return MadeCohorts(table, refused), counted


def write_cohort_table(path: Path, table: CohortTable) -> None:
    """Write the cohorts to a DuckDB file with a table ``cohort`` in OMOP's layout.

    Parameters
    ----------
    path : Path
        The file, which contains people and is not for release.
    """
    duckdb = need("duckdb")
    with private_draft(path) as draft, duckdb.connect(str(draft)) as db:
        db.register("entries", pd.DataFrame(table.frame()))
        db.execute(
            "CREATE TABLE cohort AS SELECT cohort_definition_id, subject_id, "
            "cohort_start_date::DATE AS cohort_start_date, "
            "cohort_end_date::DATE AS cohort_end_date FROM entries"
        )


def _subsets(
    db: OmopDatabase, work: Workspace, cohorts: SharedCohorts, refused: dict[int, str]
) -> None:
    """Make the subsets in the order of the file, except those that depend on a refused cohort."""
    for subset in cohorts.subsets:
        if subset.id in refused:
            continue
        others = (
            i for o in subset.definition.subset_operators for i in getattr(o, "cohort_ids", ())
        )
        gone = next((refused[i] for i in (subset.target, *others) if i in refused), "")
        if gone:
            refused[subset.id] = f"cohort {subset.id} depends on another one: {gone}"
            continue
        try:
            make_subset(db, work, subset)
        except DataError as error:
            refused[subset.id] = f"cohort {subset.id}: {error}"


def _controls(
    db: OmopDatabase, work: Workspace, cohorts: SharedCohorts, refused: dict[int, str]
) -> list[DataNote]:
    """Make the negative controls, an entry of one day for each record or for the first one."""
    rules = cohorts.control_rules
    family = Descendants(db)
    tables = _recorded(db, rules.domains)
    known = db.concept_names(c.outcome_concept_id for c in cohorts.controls)
    unknown: list[int] = []
    for control in cohorts.controls:
        if control.cohort_id in refused:
            continue
        concept = control.outcome_concept_id
        if concept not in known:
            unknown.append(concept)
        members = [concept]
        try:
            if rules.detect_on_descendants and concept in known:
                purpose = f"negative control {control.cohort_id}"
                members = family.members([concept], [t for t, _, _ in tables], purpose, INSTEAD)
        except DataError as error:
            refused[control.cohort_id] = str(error)
            continue
        listed = ", ".join(map(str, members))
        records = " UNION ALL ".join(
            f"SELECT person_id::BIGINT AS subject_id, {day}::DATE AS day FROM {db.table(table)} "
            f"WHERE {column} IN ({listed}) AND {day} IS NOT NULL"
            for table, column, day in tables
        )
        if rules.occurrence_type == "first":
            records = f"SELECT subject_id, min(day) AS day FROM ({records}) GROUP BY subject_id"
        work.run(
            f"INSERT INTO {ENTRIES} SELECT {control.cohort_id}::BIGINT, subject_id, day, day "
            f"FROM ({records})"
        )
    notes = [*family.notes]
    if unknown:
        text = f"The vocabulary lacks the concepts of {len(unknown):,} negative controls"
        notes.append(DataNote("unknown_concepts", text, warning=True))
    return notes


def _recorded(db: OmopDatabase, domains: Iterable[str]) -> list[tuple[str, str, str]]:
    """Return table and columns of the domains that the database has.

    Raises
    ------
    DataError
        A domain is unknown.
    """
    found = []
    for domain in domains:
        if domain.lower() not in DOMAINS:
            raise DataError(f"negative controls of the domain {domain[:40]!r} have no counterpart")
        table, concept, day = DOMAINS[domain.lower()]
        if {"person_id", concept, day} <= {*db.columns(table)}:
            found.append((table, concept, day))
    if not found:
        raise DataError(f"{db.name} has no table in which negative controls may be recorded")
    return found
