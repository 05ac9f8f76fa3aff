"""Cohorts from ATLAS definitions: Circe's JSON, translated to SQL by the package ``duckcdm``.

Each definition runs in its own workspace, so that two definitions on one connection never share a
temporary table, whatever their ids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from steropes.errors import DataError
from steropes.studies._optional_packages import need
from steropes.studies.cohorts.circe_concept_set_checks import concept_set_notes
from steropes.studies.cohorts.circe_missing_columns import completed_tables
from steropes.studies.cohorts.circe_repaired_tables import regular_tables
from steropes.studies.cohorts.circe_schema import check_definition
from steropes.studies.cohorts.cohort_table import COLUMNS, CohortTable, cohort_id
from steropes.studies.database.data_quality_notes import DataNote, distinct
from steropes.studies.database.omop import OmopDatabase, RecordsOf, Workspace

__all__ = ["circe_cohorts", "cohorts_with_statistics", "definition_text", "entry_records"]

MOST_BYTES = 20_000_000  # The largest accepted definition; large ones have a million bytes.

CDM, RESULTS, TARGET = "the_cdm", "the_results", "circe_entries"
# Tables of Circe's inclusion statistics with their columns. Mode 0 counts events, and mode 1 people
# by the event that meets the most rules; bit k of a mask is set if rule k is met.
STATISTICS = {
    "cohort_inclusion_result": ("inclusion_rule_mask", "person_count", "mode_id"),
    "cohort_inclusion_stats": (
        "rule_sequence", "person_count", "gain_count", "person_total", "mode_id",
    ),
    "cohort_summary_stats": ("base_count", "final_count", "mode_id"),
    "cohort_censor_stats": ("lost_count",),
}  # fmt: skip
# Temporary tables of all events and of the rules that they meet. Statistics of events are counted
# in people too, and so Circe's statements that drop these tables at the end are left out.
EVENT_TABLES = ("qualified_events", "inclusion_events")
DROPPED = re.compile(rf"(?:DELETE FROM|DROP TABLE) (?:{'|'.join(EVENT_TABLES)})\s*", re.IGNORECASE)
PEOPLE_BY_MASK = """
    SELECT mask, count(DISTINCT person_id) AS people FROM (
        SELECT person_id, CAST(coalesce(sum(2 ** inclusion_rule_id), 0) AS BIGINT) AS mask
        FROM qualified_events LEFT JOIN inclusion_events USING (person_id, event_id)
        GROUP BY person_id, event_id
    ) GROUP BY mask
"""
PEOPLE_BY_RULE = """
    SELECT inclusion_rule_id AS rule, count(DISTINCT person_id) AS people
    FROM inclusion_events GROUP BY inclusion_rule_id
"""
TABLE = re.compile(rf"\b{CDM}\.(\w+)", re.IGNORECASE)
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
) -> tuple[CohortTable, dict[str, pd.DataFrame]]:
    """Build cohorts like `circe_cohorts`, and count how many meet their inclusion rules.

    Parameters
    ----------
    definitions : mapping of int to path, str or mapping
        The definitions by cohort id.

    Returns
    -------
    CohortTable
        The cohorts.
    dict of str to DataFrame
        Circe's exact statistics, which are not for release, with ``cohort_definition_id``. Each
        count has a column with the suffix ``_people``: the number of people whose events it counts.
    """
    counted: dict[str, list[pd.DataFrame]] = {}
    table = _built(db, definitions, names, counted)
    return table, {name: pd.concat(of, ignore_index=True) for name, of in counted.items()}


def _built(
    db: OmopDatabase,
    definitions: Mapping[int, str | Path | Mapping[str, Any]],
    names: Mapping[int, str] | None,
    counted: dict[str, list[pd.DataFrame]] | None = None,
) -> CohortTable:
    """Build cohorts, and append their inclusion statistics to ``counted`` if it is given."""
    if not definitions:
        raise DataError("no cohort requested: give an id and its definition")
    need("duckcdm", "circe")
    called: dict[int, str] = {}
    frames = []
    notes: list[DataNote] = []
    for cohort, source in definitions.items():
        cohort = cohort_id(cohort)
        values = _values(cohort, source)
        called |= {cohort: str(values["name"])} if values.get("name") else {}
        expression = values.get("expression", values)
        check_definition(cohort, expression)
        statements = _statements(cohort, expression, counted is not None)
        notes += concept_set_notes(db, cohort, expression)
        entries, found = _entries(db, cohort, expression, statements, counted)
        frames.append(entries)
        notes += found
    made = CohortTable.from_frame(pd.concat(frames, ignore_index=True), db.identity)
    given = {cohort_id(i): str(name) for i, name in (names or {}).items()}
    return replace(made, names={**called, **given}, notes=distinct(notes))


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


def _entries(
    db: OmopDatabase,
    cohort: int,
    expression: object,
    statements: Sequence[str],
    counted: dict[str, list[pd.DataFrame]] | None,
) -> tuple[pd.DataFrame, tuple[DataNote, ...]]:
    """Run the statements of one cohort; return its entries and notes on irregular tables."""
    duckdb = need("duckdb")
    people = entry_records(db, expression)
    narrow = db if people is None else db.narrowed(people)
    named = {table.lower() for s in statements for table in TABLE.findall(s)}
    try:
        with narrow.workspace() as work:
            complete, lacking = completed_tables(narrow, work, named, " ".join(statements))
            regular, notes = regular_tables(narrow, work, named, complete)
            notes += lacking

            def place(table: re.Match[str]) -> str:
                name = table[1].lower()
                return regular.get(name) or complete.get(name) or narrow.table(name)

            found = _run(work, [TABLE.sub(place, s) for s in statements])
            if counted is not None:
                for name, rows in _counted(work).items():
                    counted.setdefault(name, []).append(rows.assign(**{COLUMNS[0]: cohort}))
    except (DataError, duckdb.Error) as error:
        reason = str(error).strip().splitlines()[0]
        if reason.startswith("Binder Error") and ("not found" in reason or "column" in reason):
            reason = f"it reads a column that the database lacks ({reason})"
        raise DataError(
            f"the definition of cohort {cohort} cannot be run on {db.name}: {reason}"
        ) from None
    return found.assign(**{COLUMNS[0]: cohort})[list(COLUMNS)], notes


def _run(work: Workspace, statements: Iterable[str]) -> pd.DataFrame:
    """Run the statements in order and return the entries that they insert."""
    work.run(
        f"CREATE TEMP TABLE {TARGET} (cohort_definition_id BIGINT, subject_id BIGINT, "
        "cohort_start_date DATE, cohort_end_date DATE)"
    )
    for name, columns in STATISTICS.items():
        listed = ", ".join(f"{column} BIGINT" for column in columns)
        work.run(f"CREATE TEMP TABLE {name} (cohort_definition_id BIGINT, {listed})")
    for statement in statements:
        if statement.strip() and not DROPPED.fullmatch(statement.strip()):
            work.run(statement)
    return work.frame(
        f"SELECT subject_id, cohort_start_date, cohort_end_date FROM {TARGET} ORDER BY ALL"
    )


def _counted(work: Workspace) -> dict[str, pd.DataFrame]:
    """Return the statistics of one cohort, with the numbers of people that they count."""
    found = {
        name: work.frame(f"SELECT {', '.join(columns)} FROM {name} ORDER BY ALL")
        for name, columns in STATISTICS.items()
    }
    by_mask = work.frame(PEOPLE_BY_MASK).set_index("mask")["people"]
    by_rule = work.frame(PEOPLE_BY_RULE).set_index("rule")["people"]
    everybody = work.frame("SELECT count(DISTINCT person_id) FROM qualified_events").iat[0, 0]
    result, rules, summary, censored = (found[name] for name in STATISTICS)
    every_rule = 2 ** rules["rule_sequence"].nunique() - 1
    all_but_one = every_rule - 2 ** rules["rule_sequence"]
    met = {
        "cohort_inclusion_result": {"person_count": result["inclusion_rule_mask"].map(by_mask)},
        "cohort_inclusion_stats": {
            "person_count": rules["rule_sequence"].map(by_rule),
            "gain_count": all_but_one.map(by_mask),
            "person_total": pd.Series(everybody, rules.index),
        },
        "cohort_summary_stats": {
            "base_count": pd.Series(everybody, summary.index),
            "final_count": pd.Series(by_mask.get(every_rule, 0), summary.index),
        },
    }
    for name, columns in met.items():
        people = found[name].get("mode_id") == 1
        for column, of in columns.items():
            own = of.fillna(0).astype(int).mask(people, found[name][column])
            found[name] = found[name].assign(**{f"{column}_people": own})
    return found | {
        "cohort_censor_stats": censored.assign(lost_count_people=censored["lost_count"])
    }


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
