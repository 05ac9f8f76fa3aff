"""Columns of CDM tables in the types that the CDM gives them, whatever a site declared.

The CDM has dates without a time, and ids that are whole numbers. Sites store timestamps with or
without a time zone, text, floating point and decimal numbers instead. Each of these is converted
here, in one way for all tables; what cannot be converted without a doubt is an error that names the
table and the column, and neither the value nor the person.

A value is converted where a query reads it, so that rows and columns that no query reads may hold
anything.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from steropes.errors import DataError
from steropes.studies.disclosure import LEAST, shown

if TYPE_CHECKING:
    from steropes.studies.database.protocols import Workspace

__all__ = ["MARK", "conformed", "meaning", "require_time_zone"]

MARK = "steropes: "  # begins the messages that statements raise by DuckDB's error()
Meaning = Literal["date", "whole", "real", ""]

WHOLE = {
    *("person_id", "subject_id", "cohort_definition_id"),
    *("concept_id", "concept_id_1", "concept_id_2"),
    *("year_of_birth", "month_of_birth", "day_of_birth"),
}
REAL = {"value_as_number", "range_low", "range_high", "quantity"}
INTEGERS = {"BIGINT", "INTEGER", "SMALLINT", "TINYINT", "UINTEGER", "USMALLINT", "UTINYINT"}
WIDER = {"UBIGINT", "HUGEINT", "UHUGEINT", "BIGNUM"}
# Whole numbers from this one on share their floating point number with a neighbour.
EXACT = {"DOUBLE": 2**53, "FLOAT": 2**24}


def meaning(column: str) -> Meaning:
    """Return the kind of value that the CDM has in a column: "" where any type will do.

    Parameters
    ----------
    column : str
        Its name in lower case.
    """
    if column in WHOLE or column.endswith("_concept_id"):
        return "whole"
    if column in REAL:
        return "real"
    return "date" if column.endswith("_date") else ""


def require_time_zone(name: object) -> str:
    """Return the name of a time zone.

    Raises
    ------
    DataError
        There is no such zone.
    """
    try:
        if isinstance(name, str):
            return zoneinfo.ZoneInfo(name).key
    except (KeyError, ValueError, OSError):  # not found, no path below the zones, a folder
        pass
    raise DataError(
        f'time_zone must be the name of a time zone, such as "UTC" or "Europe/Berlin", not {name!r}'
    )


def conformed(home: Workspace, source: str, table: str, types: Mapping[str, str], zone: str) -> str:
    """Return SQL for a table whose columns have the CDM's types.

    Parameters
    ----------
    home : Workspace
        The DuckDB in which the table can be read.
    source : str
        The table, for use in DuckDB's SQL.
    table : str
        Its name, for messages.
    types : mapping of str to str
        DuckDB's type of each column, by name in lower case.
    zone : str
        The time zone whose date counts where a column holds instants (``TIMESTAMP WITH TIME
        ZONE``), of which no zone is stored.

    Returns
    -------
    str
        ``source`` itself, where it has the types already.
    """
    of_people = not {"person_id", "subject_id"}.isdisjoint(types)
    replaced = []
    for column, declared in types.items():
        kind, name = meaning(column), '"' + column.replace('"', '""') + '"'
        where, declared = f"{table}: {column}", declared.upper()
        value = name
        if kind == "whole":
            value = _whole(name, where, declared)
        # from the validity of concepts and the dates of releases no days are counted
        elif kind == "date" and of_people:
            tried = _date(name, declared, zone)
            value = _or_refuse(name, tried, _no_date(where, declared)) if tried != name else name
            value = _within_calendar(home, source, value, tried, where)
        elif _is_instant(declared):
            value = f"timezone('{zone}', {name})"
        if value != name:
            replaced.append(f"{value} AS {name}")
    return f"(SELECT * REPLACE ({', '.join(replaced)}) FROM {source})" if replaced else source


def _date(value: str, declared: str, zone: str) -> str:
    """SQL of a column's dates; NULL where it holds something else."""
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
    return (
        f"{where} holds {_said(declared)} that cannot be read as dates; the column must be a DATE, "
        "or text like 2010-12-31, with NULL where no date is known"
    )


def _within_calendar(home: Workspace, source: str, value: str, tried: str, where: str) -> str:
    """A column of dates in which those that no days can be counted from are errors.

    They are looked for once: without any, queries read the column as it is.
    """
    inside = f"{tried} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'"
    bounds = (f"{tried} < DATE '0001-01-01'", f"{tried} > DATE '9999-12-31'")
    # each by itself can be answered from the bounds that are stored with blocks of rows
    if not any(home.rows(f"SELECT 1 FROM {source} WHERE {bound} LIMIT 1") for bound in bounds):
        return value
    [(infinite, others)] = home.rows(
        f"SELECT count(*) FILTER (WHERE NOT isfinite({tried})), "
        f"count(*) FILTER (WHERE isfinite({tried}) AND NOT {inside}) FROM {source}"
    )
    said, count = (
        ("is infinite", infinite) if infinite else ("is not in the years 1 to 9999", others)
    )
    refused = _error(
        f"{where} {said} in {shown(count, LEAST)} rows, and days are counted from it; put in its "
        "place the first or last day of which there are records"
    )
    return f"CASE WHEN {tried} IS NULL OR {inside} THEN {value} ELSE {refused} END"


def _whole(value: str, where: str, declared: str) -> str:
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
        f"{where} holds {_said(declared)} that cannot be read as whole numbers without a doubt; "
        "the column must be a BIGINT, with NULL where the number is not known",
    )


def _or_refuse(value: str, found: str, message: str) -> str:
    """A conversion that may fail; what is missing stays missing."""
    return f"CASE WHEN {value} IS NOT NULL THEN coalesce({found}, {_error(message)}) END"


def _error(message: str) -> str:
    said = (MARK + message).replace("'", "''")
    return f"error('{said}')"


def _is_instant(declared: str) -> bool:
    return declared.startswith("TIMESTAMP") and ("TIME ZONE" in declared or "TZ" in declared)


def _is_text(declared: str) -> bool:
    return declared.startswith(("VARCHAR", "ENUM", "TEXT"))


def _said(declared: str) -> str:
    return "values" if _is_text(declared) else f"values of type {declared}"
