"""Cohorts from ATLAS definitions: Circe's JSON, translated to SQL by the package ``duckcdm``.

`StatementRuns` runs the SQL.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from steropes.errors import DataError
from steropes.studies._optional_packages import need
from steropes.studies.cohorts.circe_concept_set_checks import ConceptSetChecks, listed_concepts
from steropes.studies.cohorts.circe_schema import check_definition
from steropes.studies.cohorts.circe_statement_runs import (
    CDM,
    RESULTS,
    TARGET,
    Entries,
    InclusionCounts,
    StatementRuns,
)
from steropes.studies.cohorts.cohort_table import COLUMNS, CohortTable, cohort_id
from steropes.studies.database.data_quality_notes import DataNote, distinct
from steropes.studies.database.omop import OmopDatabase, RecordsOf

Of = TypeVar("Of")
Made = TypeVar("Made")

__all__ = ["circe_cohorts", "cohorts_with_statistics", "definition_text", "entry_records"]

MOST_BYTES = 20_000_000  # The largest accepted definition; large ones have a million bytes.

TOGETHER = 200  # The number of definitions whose concepts are read together.
# Kinds of entry events with the table and the concept column that a concept set selects by.
EVENTS = {
    "ConditionEra": ("condition_era", "condition_concept_id"),
    "ConditionOccurrence": ("condition_occurrence", "condition_concept_id"),
    "Death": ("death", "cause_concept_id"),
    "DeviceExposure": ("device_exposure", "device_concept_id"),
    "DrugEra": ("drug_era", "drug_concept_id"),
    "DrugExposure": ("drug_exposure", "drug_concept_id"),
    "Measurement": ("measurement", "measurement_concept_id"),
    "Observation": ("observation", "observation_concept_id"),
    "ProcedureOccurrence": ("procedure_occurrence", "procedure_concept_id"),
    "VisitOccurrence": ("visit_occurrence", "visit_concept_id"),
}


def circe_cohorts(
    db: OmopDatabase,
    definitions: Mapping[int, str | Path | Mapping[str, object]],
    *,
    names: Mapping[int, str] | None = None,
) -> CohortTable:
    """Build cohorts from definitions that ATLAS exports.

    Parameters
    ----------
    db : OmopDatabase
        The database.
    definitions : mapping of int to path, str or mapping
        By cohort id: a JSON file, its text, or its values. The ``name`` and ``expression`` of
        WebAPI's format are unwrapped.
    names : mapping of int to str, optional
        Names of the cohorts. Default: those in the definitions.

    Returns
    -------
    CohortTable
        A cohort without people has no entries.

    Raises
    ------
    DataError
        A definition cannot be read, or requires something that the database lacks, such as the
        links of the vocabulary for a concept set with descendants.
    MissingExtraError
        ``duckcdm`` is not installed: ``pip install "steropes[circe]"``.

    See Also
    --------
    read_cohorts : Read an existing cohort table.
    drug_era_cohorts : Build cohorts from drug eras without a definition.

    Examples
    --------
    >>> from steropes.studies import synthetic_database
    >>> from steropes.studies.cohorts import circe_cohorts
    >>> drug = {"concept": {"CONCEPT_ID": 1118084}, "includeDescendants": True}
    >>> definition = {
    ...     "ConceptSets": [{"id": 0, "name": "celecoxib", "expression": {"items": [drug]}}],
    ...     "PrimaryCriteria": {
    ...         "CriteriaList": [{"DrugEra": {"CodesetId": 0}}],
    ...         "ObservationWindow": {"PriorDays": 0, "PostDays": 0},
    ...         "PrimaryCriteriaLimit": {"Type": "First"},
    ...     },
    ... }
    >>> cohorts = circe_cohorts(synthetic_database(200), {1: definition}, names={1: "celecoxib"})
    >>> cohorts.ids, cohorts.name(1)
    ((1,), 'celecoxib')
    """
    return _built(db, definitions, names)


def cohorts_with_statistics(
    db: OmopDatabase,
    definitions: Mapping[int, str | Path | Mapping[str, object]],
    *,
    names: Mapping[int, str] | None = None,
    refused: dict[int, str] | None = None,
    statistics: bool = True,
) -> tuple[CohortTable, dict[str, pd.DataFrame]]:
    """Build cohorts like `circe_cohorts`, and count how many meet their inclusion rules.

    Parameters
    ----------
    definitions : mapping of int to path, str or mapping
        The definitions by cohort id.
    refused : dict of int to str, optional
        Gets the cohorts that cannot be built, with the reason, and the others are built. Default:
        the first such cohort is an error.
    statistics : bool, default True
        Whether to count.

    Returns
    -------
    CohortTable
        The cohorts.
    dict of str to DataFrame
        Circe's exact statistics, which are not for release, with ``cohort_definition_id``. Each
        count has a column with the suffix ``_people``: the number of people whose events it counts.
    """
    counted = InclusionCounts() if statistics else None
    table = _built(db, definitions, names, counted, refused)
    return table, {} if counted is None else counted.frames()


def _built(
    db: OmopDatabase,
    definitions: Mapping[int, str | Path | Mapping[str, Any]],
    names: Mapping[int, str] | None,
    counted: InclusionCounts | None = None,
    refused: dict[int, str] | None = None,
) -> CohortTable:
    """Build cohorts; append their statistics and refusals to ``counted`` and ``refused``."""
    if not definitions:
        raise DataError("no cohort requested: give an id and its definition")
    need("duckcdm", "circe")
    given = {cohort_id(i): source for i, source in definitions.items()}
    called: dict[int, str] = {}
    parts: list[Entries] = []
    notes: list[DataNote] = []
    checks = ConceptSetChecks(db)
    with StatementRuns.of(db) as runs:
        for first in range(0, len(given), TOGETHER):
            some = dict(islice(given.items(), first, first + TOGETHER))
            read = dict(_each(some, refused, lambda i, source: _read(i, source, counted)))
            concepts = {c for one in read.values() for c in listed_concepts(one.expression)}
            checks.read(concepts)
            if not db.copies:
                runs.read_concepts(concepts)
            called |= {i: one.name for i, one in read.items() if one.name}

            def run(cohort: int, one: _Definition) -> None:
                """Run a definition."""
                found = checks.notes(cohort, one.expression)
                entries, more = _entries(db, runs, cohort, one, counted)
                parts.append(entries)
                notes.extend((*found, *more))

            for _ in _each(read, refused, run):
                pass
    made = _table(parts, db)
    own = {cohort_id(i): str(name) for i, name in (names or {}).items()}
    return replace(made, names={**called, **own}, notes=distinct(notes))


@dataclass(frozen=True)
class _Definition:
    """A definition with its name and Circe's SQL."""

    name: str
    expression: Mapping[str, Any]
    statements: Sequence[str]


def _each(
    of: Mapping[int, Of], refused: dict[int, str] | None, compute: Callable[[int, Of], Made]
) -> Iterator[tuple[int, Made]]:
    """Compute something for each cohort; an error is raised, or kept in ``refused``."""
    for cohort, one in of.items():
        try:
            yield cohort, compute(cohort, one)
        except DataError as error:
            if refused is None:
                raise
            refused[cohort] = str(error)


def _read(
    cohort: int, source: str | Path | Mapping[str, object], counted: InclusionCounts | None
) -> _Definition:
    """Read, check and translate a definition."""
    values = _values(cohort, source)
    expression = values.get("expression", values)
    check_definition(cohort, expression)
    statements = _statements(cohort, expression, counted is not None)
    return _Definition(str(values.get("name") or ""), expression, statements)


def _entries(
    db: OmopDatabase,
    runs: StatementRuns,
    cohort: int,
    one: _Definition,
    counted: InclusionCounts | None,
) -> tuple[Entries, tuple[DataNote, ...]]:
    """Run a definition, on a server on its own copies of the rows that it may read."""
    people = entry_records(db, one.expression) if db.copies else None
    if people is None:
        return runs.entries(cohort, one.statements, counted)
    with StatementRuns.of(db.narrowed(people)) as alone:
        return alone.entries(cohort, one.statements, counted)


def _table(parts: Sequence[Entries], db: OmopDatabase) -> CohortTable:
    """Put the entries of cohorts together."""
    if not parts:
        nobody, never = np.zeros(0, np.int64), np.zeros(0, "datetime64[D]")
        return CohortTable(nobody, nobody, never, never, db.identity)
    columns = {c: np.concatenate([part[c] for part in parts]) for c in COLUMNS}
    return CohortTable.from_frame(pd.DataFrame(columns), db.identity)


def definition_text(source: str | Path, folder: Path | None = None, confined: bool = False) -> str:
    """Return the JSON of a definition given as text or as a file.

    Parameters
    ----------
    folder : Path, optional
        Folder that relative paths refer to.
    confined : bool
        Require the file to be in the folder or below it, as for a specification received from
        someone else.

    Raises
    ------
    DataError
        A file cannot be read or is outside of the folder.
    """
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return source
    path = Path(source) if folder is None else folder / source
    if confined and not path.resolve().is_relative_to((folder or Path()).resolve()):
        raise DataError(
            f"the cohort definition {source} is outside of the specification's folder; put it there"
        )
    try:
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path} has more than {MOST_BYTES:,} bytes, too many for a definition")
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise DataError(f"cannot read the cohort definition {path}: {reason}") from None
    if not text.lstrip().startswith("{"):  # The reader would take it for the name of a file.
        raise DataError(f"cannot read the cohort definition {path}: it is not a JSON object")
    return text


def _values(cohort: int, source: str | Path | Mapping[str, object]) -> Mapping[str, Any]:
    """Parse a definition given as values, JSON or a file."""
    if isinstance(source, Mapping):
        return source
    text = definition_text(source)
    try:
        values = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(
            f"the definition of cohort {cohort} is not JSON: line {error.lineno}, {error.msg}"
        ) from None
    except (RecursionError, ValueError):
        raise DataError(
            f"the definition of cohort {cohort} is nested too deeply or has a number of too many "
            "digits"
        ) from None
    if not isinstance(values, dict):
        raise DataError(f"the definition of cohort {cohort} must be a JSON object")
    return values


def _statements(cohort: int, expression: object, statistics: bool) -> list[str]:
    """Translate a definition to DuckDB's SQL, with a placeholder for the CDM's schema."""
    from duckcdm.circe import CirceError, build_cohort_query
    from duckcdm.sqlrender import render, split_sql

    try:
        sql = build_cohort_query(
            json.dumps(expression),
            cdm_schema=CDM,
            vocabulary_schema=CDM,
            result_schema=RESULTS,
            target_table=TARGET,
            cohort_id=1,
            generate_stats=statistics,
        )
        return [text for each in split_sql(render(sql)) for text in _translated(str(each))]
    except CirceError as error:
        problem = f"is not one that ATLAS exports: {error}"
    except Exception as error:  # The translator may fail in any way on text that users supply.
        kind = type(error).__name__
        problem = f"cannot be translated (duckcdm: {kind}: {' '.join(str(error).split())[:200]})"
    raise DataError(f"the definition of cohort {cohort} {problem}")


@lru_cache(maxsize=1000)
def _translated(statement: str) -> tuple[str, ...]:
    """Translate a statement, of which definitions have many in common."""
    from duckcdm.sqlrender import split_sql, translate

    return tuple(split_sql(str(translate(f"{statement};", "duckdb")).replace(f"{RESULTS}.", "")))


# -- records that everybody in a cohort has --------------------------------------------------------


def entry_records(db: OmopDatabase, definition: Any) -> list[RecordsOf] | None:
    """List records of which everybody in a cohort has at least one, by its definition.

    A server is then asked only for people with such records. None if there is no such list: for
    kinds of events without concepts, or with any concept.
    """
    try:
        expression = json.loads(definition) if isinstance(definition, str) else definition
        expression = expression.get("expression", expression)
        events = list(_entry_events(expression))
        sets = {s["id"]: s["expression"]["items"] for s in expression["ConceptSets"]}
        found = []
        for kind, codeset in events:
            table, column = EVENTS[kind]
            if any(item.get("includeMapped") for item in sets[codeset]):
                return None
            members = db.descendants(int(i["concept"]["CONCEPT_ID"]) for i in sets[codeset])
            found.append(RecordsOf(table, column, tuple(members)))
        return found if all(db.columns(r.table) for r in found) else None
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _entry_events(expression: Any) -> Iterator[tuple[str, int]]:
    """Yield the kind and the concept set of each entry event."""
    for criterion in expression["PrimaryCriteria"]["CriteriaList"]:
        for kind, settings in criterion.items():
            yield kind, settings["CodesetId"]
