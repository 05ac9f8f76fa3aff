"""Tables with values that servers, drivers and dialects are likely to change, and a comparison.

They have text with quotation marks, backslashes and accents; decimal numbers and numbers as text;
instants on both sides of midnight; times beyond the range of nanoseconds; dates as text; and
missing values.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb

from steropes.studies import OmopDatabase, find_concepts
from steropes.studies.database.omop import RecordsOf

ODD = """
CREATE TABLE cdm.measurement AS SELECT * FROM (VALUES
    (1::BIGINT, 7::BIGINT, DATE '2010-06-15', 2.5::DOUBLE, '3.25', TIMESTAMPTZ '2010-06-15 16:00Z'),
    (2, 7, DATE '2010-06-16', NULL, NULL, TIMESTAMPTZ '2010-06-15 14:59:59Z'),
    (2, 8, NULL, 0.1, '-1e3', NULL)
) AS t(person_id, measurement_concept_id, measurement_date, value_as_number, range_low,
       measurement_datetime);
CREATE TABLE cdm.visit_occurrence AS SELECT * FROM (VALUES
    (1::BIGINT, 1::DECIMAL(38, 0), '2010-01-31', TIMESTAMP '9999-12-31 23:59:59'),
    (2, 2, '2011-02-28', TIMESTAMP '2011-02-28 00:00:00.000001')
) AS t(person_id, visit_concept_id, visit_start_date, visit_end_datetime);
INSERT INTO cdm.concept VALUES
    (50, 'it''s \\ 5 % of "Ménière"'), (51, 'its 5 of Meniere'), (52, 'Celecoxib_200');
"""
TABLES = ("person", "drug_era", "concept", "concept_ancestor", "measurement", "visit_occurrence")


def write_tables(omop: Any, path: Path) -> Path:
    """Write a DuckDB file with the tables of 48 people in a schema ``cdm``."""
    for k in range(24):
        omop.person(target=k % 7, outcome=300 if k % 3 else None, born=1950 + k)
        omop.person(comparator=k % 5, outcome=200 if k % 4 else None, born=1950 + k)
    with duckdb.connect(str(path)) as made:
        made.execute("CREATE SCHEMA cdm")
        made.execute(f"ATTACH '{omop.write()}' AS tiny (READ_ONLY)")
        for (name,) in made.execute(
            "SELECT table_name FROM duckdb_tables() WHERE database_name = 'tiny'"
        ).fetchall():
            if name != "measurement":
                made.execute(f"CREATE TABLE cdm.{name} AS FROM tiny.{name}")
        made.execute(ODD)
    return path


def assert_same_tables(url: str, path: Path, zone: str, without: tuple[str, ...] = ()) -> None:
    """Compare all values that a study reads from a server and from the file."""
    with (
        OmopDatabase(url, time_zone=zone) as server,
        OmopDatabase(path, "cdm", time_zone=zone) as file,
    ):
        assert set(TABLES) <= server.tables
        for table in TABLES:
            listed = ", ".join(c for c in file.columns(table) if c not in without)
            [found, expected] = (
                db.rows(f"SELECT {listed} FROM {db.table(table)} ORDER BY ALL")
                for db in (server, file)
            )
            assert found == expected, table
            assert expected


def assert_same_choices(url: str, path: Path) -> None:
    """Compare the rows of some people, words and concepts."""
    people = [
        RecordsOf("drug_era", "drug_concept_id", (1,)),
        RecordsOf("person", "person_id", (2,)),
    ]
    with OmopDatabase(url) as server, OmopDatabase(path, "cdm") as file:
        narrowed = server.narrowed(people)
        found = narrowed.rows(f"SELECT person_id FROM {narrowed.table('person')}")
        expected = file.rows(
            f"SELECT DISTINCT person_id FROM {file.table('drug_era')} WHERE drug_concept_id = 1"
        )
        assert {*found} == {*expected, (2,)}
        for words in ("it's", "\\ 5 %", "Ménière", "celecoxib_2", "51"):
            [found, expected] = (find_concepts(db, words) for db in (server, file))
            assert found.equals(expected), words
            assert len(expected) == 1
        for concept in (7, 99):
            found = server.holds(
                "measurement", lambda q, c=concept: f"{q('measurement_concept_id')} = {c}"
            )
            assert found == (concept == 7)


def assert_same_last_days(url: str, path: Path) -> None:
    """Compare the last days of dates, of dates as text, and of instants in the study's zone."""
    columns = {"measurement": ["measurement_date"], "visit_occurrence": ["visit_start_date"]}
    if not url.startswith("mssql"):  # Its instants are local times already.
        columns["measurement"].append("measurement_datetime")
    with (
        OmopDatabase(url, time_zone="Asia/Tokyo") as server,
        OmopDatabase(path, "cdm", time_zone="Asia/Tokyo") as file,
    ):
        for until in (dt.date(2010, 6, 15), dt.date(2026, 12, 31), dt.date(1999, 12, 31)):
            for table, names in columns.items():
                found, expected = (
                    [db.last_day(table, name, until) for name in names] for db in (server, file)
                )
                assert found == expected
        assert found == [None] * len(names)
        assert file.last_day("measurement", "measurement_datetime", dt.date.max).day == 16
