"""Conversion of the columns of CDM tables to the types of the CDM.

The CDM has dates without a time and integer ids. Some sites store timestamps with or without a time
zone, text, floating point or decimal numbers instead. These are converted here, in the same way for
all tables. A value that cannot be converted unambiguously is an error that names the table and the
column, and neither the value nor the person.

A value is converted when a query reads it, so that rows and columns that no query reads may contain
anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from steropes.studies.database.sources.table_source import MARK, Workspace
from steropes.studies.disclosure import shown_count

__all__ = ["conformed", "date_or_null", "meaning"]

Meaning = Literal["date", "whole", "real", ""]

WHOLE = {
    *("person_id", "subject_id", "cohort_definition_id"),
    *("concept_id", "concept_id_1", "concept_id_2"),
    *("year_of_birth", "month_of_birth", "day_of_birth"),
}
REAL = {"value_as_number", "range_low", "range_high", "quantity"}
INTEGERS = {"BIGINT", "INTEGER", "SMALLINT", "TINYINT", "UINTEGER", "USMALLINT", "UTINYINT"}
WIDER = {"UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM"}
# From these values on, floating point numbers do not distinguish neighbouring integers.
EXACT = {"DOUBLE": 2**53, "FLOAT": 2**24}


def meaning(column: str) -> Meaning:
    """Return the kind of value that the CDM has in a column: "" if any type is accepted.

    Parameters
    ----------
    column : str
        Name of the column in lower case.
    """
    if column in WHOLE or column.endswith("_concept_id"):
        return "whole"
    if column in REAL:
        return "real"
    return "date" if column.endswith("_date") else ""


def conformed(home: Workspace, source: str, table: str, types: Mapping[str, str], zone: str) -> str:
    """Return SQL for a table whose columns have the CDM's types.

    Parameters
    ----------
    home : Workspace
        The DuckDB database in which the table can be read.
    source : str
        The table, for use in DuckDB's SQL.
    table : str
        Name of the table, for messages.
    types : mapping of str to str
        DuckDB's type of each column, by name in lower case.
    zone : str
        Time zone that determines the dates of instants (``TIMESTAMP WITH TIME ZONE``), which are
        stored without a zone.

    Returns
    -------
    str
        ``source`` itself if its types are already right.
    """
    of_people = not {"person_id", "subject_id"}.isdisjoint(types)
    replaced = []
    for column, declared in types.items():
        kind, name = meaning(column), '"' + column.replace('"', '""') + '"'
        where, declared = f"{table}: {column}", declared.upper()
        value = name
        if kind == "whole":
            value = _whole(name, where, declared)
        # Days are not counted from the validity of concepts or the dates of releases.
        elif kind == "date" and of_people:
            tried = date_or_null(name, declared, zone)
            value = _or_refuse(name, tried, _no_date(where, declared)) if tried != name else name
            value = _within_calendar(home, source, value, tried, where)
        elif _is_instant(declared):
            value = f"timezone('{zone}', {name})"
        if value != name:
            replaced.append(f"{value} AS {name}")
    return f"(SELECT * REPLACE ({', '.join(replaced)}) FROM {source})" if replaced else source


def date_or_null(value: str, declared: str, zone: str) -> str:
    """Return SQL of a column's dates; NULL for any other value.

    Parameters
    ----------
    value : str
        The quoted name of the column.
    declared : str
        DuckDB's type of the column, in capitals.
    zone : str
        Time zone that determines the dates of instants.
    """
    if declared == "DATE":
        return value
    if declared.startswith("TIMESTAMP"):
        return f"timezone('{zone}', {value})::DATE" if _is_instant(declared) else f"{value}::DATE"
    if _is_text(declared):
        text = f"trim({value}::VARCHAR)"
        written = rf"regexp_extract({text}, '^(\d{{4}}-\d{{2}}-\d{{2}})([T ]\d.*)?$', 1)"
        return (
            f"(CASE WHEN lower({text}) IN ('infinity', '-infinity') THEN {text}::DATE "
            f"ELSE try_cast({written} AS DATE) END)"
        )
    return "NULL::DATE"


def _no_date(where: str, declared: str) -> str:
    """Describe a column that cannot be read as dates."""
    return (
        f"{where} has {_described(declared)} that cannot be read as dates; the column must be a "
        "DATE, or text like 2010-12-31, with NULL where no date is known"
    )


def _within_calendar(home: Workspace, source: str, value: str, tried: str, where: str) -> str:
    """Make dates outside the years 1 to 9999 an error, because days are counted from them.

    They are searched once; if there are none, queries read the column without a check.
    """
    inside = f"{tried} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
    bounds = (f"{tried} < DATE '0001-01-01'", f"{tried} > DATE '9999-12-31'")
    # Separate queries can be answered from the bounds that are stored with blocks of rows.
    if not any(home.rows(f"SELECT 1 FROM {source} WHERE {bound} LIMIT 1") for bound in bounds):
        return value
    [(infinite, others)] = home.rows(
        f"SELECT count(*) FILTER (WHERE NOT isfinite({tried})), "
        f"count(*) FILTER (WHERE isfinite({tried}) AND NOT {inside}) FROM {source}"
    )
    problem, count = (
        ("is infinite", infinite) if infinite else ("is not in the years 1 to 9999", others)
    )
    refused = _error(
        f"{where} {problem} in {shown_count(count)} rows, and days are counted from it; replace "
        "it by the first or last day with records"
    )
    return f"CASE WHEN {tried} IS NULL OR {inside} THEN {value} ELSE {refused} END"


def _whole(value: str, where: str, declared: str) -> str:
    """Return SQL of a column's integers that raises for any other value."""
    if declared in INTEGERS:
        return value
    if declared in EXACT:
        found = (
            f"CASE WHEN {value} = trunc({value}) AND abs({value}) < {EXACT[declared]} "
            f"THEN {value}::BIGINT END"
        )
        value = f"nullif({value}, 'nan'::{declared})"
    elif declared in WIDER:
        found = f"try_cast({value} AS BIGINT)"
    elif declared.startswith("DECIMAL"):
        found = f"CASE WHEN {value} = trunc({value}) THEN try_cast({value} AS BIGINT) END"
    elif _is_text(declared):
        text = f"trim({value}::VARCHAR)"
        found = (
            rf"CASE WHEN regexp_full_match({text}, '[+-]?\d+(\.0*)?') "
            f"THEN try_cast({text} AS BIGINT) END"
        )
    else:
        found = "NULL::BIGINT"
    return _or_refuse(
        value,
        found,
        f"{where} has {_described(declared)} that cannot be read as whole numbers unambiguously; "
        "the column must be a BIGINT, with NULL where the number is not known",
    )


def _or_refuse(value: str, found: str, message: str) -> str:
    """Return SQL that raises if a conversion fails; NULL stays NULL."""
    return f"CASE WHEN {value} IS NOT NULL THEN coalesce({found}, {_error(message)}) END"


def _error(message: str) -> str:
    """Return SQL that raises a marked message."""
    text = (MARK + message).replace("'", "''")
    return f"error('{text}')"


def _is_instant(declared: str) -> bool:
    """Check whether a type is a timestamp with time zone."""
    return declared.startswith("TIMESTAMP") and ("TIME ZONE" in declared or "TZ" in declared)


def _is_text(declared: str) -> bool:
    """Check whether a type is text."""
    return declared.startswith(("VARCHAR", "ENUM", "TEXT"))


def _described(declared: str) -> str:
    """Describe the values of a column for messages."""
    return "values" if _is_text(declared) else f"values of type {declared}"
