"""Tables and columns of the CDM that studies read, and the check that a database has them."""

from __future__ import annotations

from steropes.errors import DataError
from steropes.studies.database.sources.table_source import Layout

__all__ = ["OPTIONAL", "REQUIRED", "require_cdm_tables"]

# The CDM tables (v5.x) and columns that a study reads.
REQUIRED = {
    "person": ("person_id", "gender_concept_id", "year_of_birth"),
    "observation_period": (
        "person_id",
        "observation_period_start_date",
        "observation_period_end_date",
    ),
    "drug_era": ("person_id", "drug_concept_id", "drug_era_start_date", "drug_era_end_date"),
    "condition_occurrence": ("person_id", "condition_concept_id", "condition_start_date"),
    "concept": ("concept_id", "concept_name"),
}
OPTIONAL = {
    "procedure_occurrence": ("person_id", "procedure_concept_id", "procedure_date"),
    "measurement": ("person_id", "measurement_concept_id", "measurement_date"),
    "observation": ("person_id", "observation_concept_id", "observation_date"),
    "concept_ancestor": ("ancestor_concept_id", "descendant_concept_id"),
    "cdm_source": ("cdm_source_name",),
}


def require_cdm_tables(found: Layout, schema: str, name: str) -> frozenset[str]:
    """Check that the required tables and columns exist, and return the names of all tables.

    Parameters
    ----------
    found : mapping
        Columns by schema and table.
    schema : str
        The schema of the CDM tables, in any case.
    name : str
        The name of the database, for messages.

    Raises
    ------
    DataError
        The schema, a table or a column is missing.
    """
    if schema.lower() not in found:
        others = ", ".join(sorted(found)) or "no tables at all"
        raise DataError(f"{name} has no tables in schema {schema!r} (it has: {others})")
    tables = found[schema.lower()]
    absent = [table for table in REQUIRED if table not in tables]
    if absent:
        raise DataError(
            f"{name} is not an OMOP database: schema {schema!r} "
            f"lacks the tables {', '.join(absent)}{_hint(found)}"
        )
    for table, columns in {**REQUIRED, **OPTIONAL}.items():
        gone = [c for c in columns if table in tables and c not in tables[table]]
        if gone:
            raise DataError(
                f"{name} is not an OMOP database: table {table} lacks the columns {', '.join(gone)}"
            )
    return frozenset(tables)


def _hint(found: Layout) -> str:
    """Name another schema that contains the tables, if there is one."""
    whole = [s for s, t in sorted(found.items()) if all(name in t for name in REQUIRED)]
    return f"; schema {whole[0]!r} has them" if whole else ""
