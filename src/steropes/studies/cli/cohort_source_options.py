"""Options for cohorts from cohort tables and ATLAS definitions, and for lists of concepts."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steropes.errors import DataError

if TYPE_CHECKING:
    from steropes.studies.cohorts.cohort_sources import CohortSources

__all__ = ["CohortTableName", "Definition", "cohort_sources", "listed_concepts"]

CohortTableName = Annotated[
    str | None, typer.Option(help="Cohort table (schema.table), if ids are cohorts.")
]
Definition = Annotated[
    list[str] | None,
    typer.Option(
        help="Cohort definition from ATLAS, as ID=FILE; repeatable. Options that name cohorts may "
        "refer to its id."
    ),
]
# Columns of concept ids in lists of negative controls, in lower case without underscores.
ID_COLUMNS = ("conceptid", "outcomeconceptid", "outcomeid", "cohortid", "id")
# Columns of the compared exposures in lists that repeat controls for every comparison.
EXPOSURE_COLUMNS = ("targetid", "comparatorid")


def cohort_sources(
    table: str | None, definitions: list[str] | None, nesting: int | None = None
) -> CohortSources | None:
    """Combine a cohort table and files from ATLAS to sources of cohorts, if there are any."""
    from steropes.studies.cohorts.cohort_sources import CohortSources, file_names

    files: dict[int, str] = {}
    for text in definitions or ():
        number, equals, path = text.partition("=")
        if not (equals and path and number.strip().isdigit()):
            raise DataError(f"a definition is ID=FILE, such as 3=bleeding.json, not {text!r}")
        if int(number) in files:
            raise DataError(f"cohort {int(number)} is defined twice")
        files[int(number)] = path
    if table is None and nesting is not None and nesting not in files:
        table = "cohort"
    if table is None and not files:
        return None
    schema, _, name = (table or "").rpartition(".")
    names = file_names(files)
    return CohortSources(name, schema, definitions=files, names=names)


def listed_concepts(values: Iterable[str], target: int, comparator: int) -> tuple[int, ...]:
    """Read concept ids from numbers and from CSV files, such as OHDSI's lists of controls.

    A file has a column ``concept_id``, ``outcomeConceptId``, ``outcomeId``, ``cohortId`` or ``id``;
    without a header its first column is read. Of a file with the columns ``targetId`` and
    ``comparatorId``, or one of them, the rows of the given comparison are read, and of one with a
    column ``type`` those of outcomes, because exposures as controls need other studies.
    """
    found: list[int] = []
    for value in values:
        asked = (target, comparator)
        found += [int(value)] if value.isdigit() else _listed_in(Path(value), asked)
    return tuple(found)


def _listed_in(path: Path, asked: tuple[int, int]) -> list[int]:
    """Read the concept ids of a CSV file."""
    rows = _rows_of(path)
    heads = []
    if rows and not rows[0][0].strip().isdigit():
        heads = [head.replace("_", "").strip().lower() for head in rows[0]]
    column, first = 0, 0
    if heads:
        named = [heads.index(name) for name in ID_COLUMNS if name in heads]
        if not named:
            raise DataError(f"{path}: no column is named concept_id or outcomeId")
        column, first = named[0], 1
    compared = {
        heads.index(name): i
        for name, i in zip(EXPOSURE_COLUMNS, asked, strict=True)
        if name in heads
    }
    found = []
    for number, row in enumerate(rows[first:], first + 1):
        if "type" in heads and _cell(row, heads.index("type")).lower() == "exposure":
            continue
        if any(_id(row, at, path, number) != i for at, i in compared.items()):
            continue
        found.append(_id(row, column, path, number))
    if not found and len(rows) > first and compared:
        raise DataError(f"{path}: no row lists an outcome for {asked[0]} against {asked[1]}")
    if not found:
        raise DataError(f"{path}: the file lists no concepts")
    return [*dict.fromkeys(found)] if compared else found


def _rows_of(path: Path) -> list[list[str]]:
    """Read the rows of a CSV file that are not empty."""
    try:
        return [row for row in csv.reader(path.read_text("utf-8-sig").splitlines()) if any(row)]
    except OSError as error:
        raise DataError(
            f"a control is a concept id or a CSV file of ids, and {path}: {error.strerror}"
        ) from None
    except UnicodeDecodeError:
        raise DataError(f"{path}: not UTF-8; save the file in UTF-8") from None


def _cell(row: list[str], column: int) -> str:
    """Return the text of a cell; "" beyond the end of the row."""
    return row[column].strip() if len(row) > column else ""


def _id(row: list[str], column: int, path: Path, number: int) -> int:
    """Return the id in a cell."""
    text = _cell(row, column)
    if not text.isdigit():
        raise DataError(f"{path}, row {number}: {text!r} is not a concept id")
    return int(text)
