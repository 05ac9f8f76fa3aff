"""The rows of the vocabulary that explain the concepts of diagnostics, as R's package exports them.

Links between concepts are those among the concepts of the results; R exports all ancestors and
descendants of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from steropes.studies.database.omop import OmopDatabase, RecordsOf

__all__ = ["vocabulary_tables"]

# Types by column of the tables that are exported for some concepts, and of those that are whole.
CONCEPT = {
    "concept_id": "BIGINT", "concept_name": "VARCHAR", "domain_id": "VARCHAR",
    "vocabulary_id": "VARCHAR", "concept_class_id": "VARCHAR", "standard_concept": "VARCHAR",
    "concept_code": "VARCHAR", "valid_start_date": "VARCHAR", "valid_end_date": "VARCHAR",
    "invalid_reason": "VARCHAR",
}  # fmt: skip
LINKED = {
    "concept_ancestor": {
        "ancestor_concept_id": "BIGINT", "descendant_concept_id": "BIGINT",
        "min_levels_of_separation": "BIGINT", "max_levels_of_separation": "BIGINT",
    },
    "concept_relationship": {
        "concept_id_1": "BIGINT", "concept_id_2": "BIGINT", "relationship_id": "VARCHAR",
        "valid_start_date": "DATE", "valid_end_date": "DATE", "invalid_reason": "VARCHAR",
    },
    "concept_synonym": {
        "concept_id": "BIGINT", "concept_synonym_name": "VARCHAR", "language_concept_id": "BIGINT",
    },
}  # fmt: skip
# The columns of those tables of which all concepts are in the results.
KEYS = {
    "concept_ancestor": ("ancestor_concept_id", "descendant_concept_id"),
    "concept_relationship": ("concept_id_1", "concept_id_2"),
    "concept_synonym": ("concept_id",),
}
WHOLE = {
    "domain": {"domain_id": "VARCHAR", "domain_name": "VARCHAR", "domain_concept_id": "BIGINT"},
    "relationship": {
        "relationship_id": "VARCHAR", "relationship_name": "VARCHAR", "is_hierarchical": "VARCHAR",
        "defines_ancestry": "VARCHAR", "reverse_relationship_id": "VARCHAR",
        "relationship_concept_id": "BIGINT",
    },
    "vocabulary": {
        "vocabulary_id": "VARCHAR", "vocabulary_name": "VARCHAR", "vocabulary_reference": "VARCHAR",
        "vocabulary_version": "VARCHAR", "vocabulary_concept_id": "BIGINT",
    },
}  # fmt: skip


def vocabulary_tables(db: OmopDatabase, ids: Iterable[int]) -> dict[str, pd.DataFrame]:
    """Return the vocabulary's rows of some concepts, and its domains, relationships and sources.

    A table that the database lacks, or of which it lacks a column, is left out; of ``concept`` the
    columns are returned that the database has.

    Parameters
    ----------
    ids : iterable of int
        The concepts.

    Returns
    -------
    dict of str to DataFrame
        Rows by the name of the table.
    """
    wanted = tuple(sorted({int(i) for i in ids}))
    found: dict[str, pd.DataFrame] = {}
    with db.workspace() as work:
        work.run("CREATE TEMP TABLE wanted AS SELECT unnest($1::BIGINT[]) AS wanted_id",
                 [list(wanted)])  # fmt: skip
        have = {name: kind for name, kind in CONCEPT.items() if name in db.columns("concept")}
        found["concept"] = work.frame(
            f"SELECT {_listed(have)} FROM {db.concepts(lambda: wanted)} "
            "JOIN wanted ON concept_id = wanted_id ORDER BY concept_id"
        )
        for table, columns in LINKED.items():
            if wanted and {*columns} <= {*db.columns(table)}:
                of = KEYS[table]
                rows = db.records(RecordsOf(table, of[0], wanted))
                among = " AND ".join(f"{name} IN (SELECT wanted_id FROM wanted)" for name in of)
                found[table] = work.frame(
                    f"SELECT {_listed(columns)} FROM {rows} WHERE {among} ORDER BY ALL"
                )
        for table, columns in WHOLE.items():
            if {*columns} <= {*db.columns(table)}:
                found[table] = work.frame(
                    f"SELECT {_listed(columns)} FROM {db.table(table)} ORDER BY ALL"
                )
    return found


def _listed(columns: Mapping[str, str]) -> str:
    """Return the columns of a SELECT with their types."""
    return ", ".join(f"{name}::{kind} AS {name}" for name, kind in columns.items())
