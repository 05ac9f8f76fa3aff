"""Notes on irregularities of the database, for modules that R describes by counts alone."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.data_quality_notes import note_rows, released_notes
from steropes.studies.database.irregular_rows import unknown_people
from steropes.studies.database.observation_periods import joined_periods, people_notes
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.disclosure import DisclosureRules

__all__ = ["module_notes"]

ENTRIES = "noted_entries"
PEOPLE = f"SELECT subject_id FROM {ENTRIES}"
COLUMNS = ["topic", "note", "counted", "count", "warning"]


def module_notes(
    db: OmopDatabase,
    cohorts: CohortTable,
    used: Iterable[int],
    rules: DisclosureRules,
    database_id: str,
) -> pd.DataFrame:
    """Return the released table ``data_note`` of the people in the cohorts that a module uses."""
    with db.workspace() as work:
        cohorts.only(used).place(work, ENTRIES)
        notes = (
            *unknown_people(db, work, PEOPLE),
            *people_notes(db, work, PEOPLE, joined_periods(db, PEOPLE)),
        )
    rows = pd.DataFrame(note_rows(notes, {}), columns=COLUMNS)
    return released_notes(rows, rules).assign(database_id=database_id)
