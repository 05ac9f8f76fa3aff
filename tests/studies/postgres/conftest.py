"""A PostgreSQL server with the demonstration's database, which all tests here share."""

import contextlib

import duckdb
import pytest
from postgres_server import PASSWORD, address, programs
from postgres_server import server as running_server

from steropes.studies import demo_database

COHORTS = """
CREATE TABLE results.cohort AS
SELECT 1 AS cohort_definition_id, person_id AS subject_id, drug_era_start_date AS cohort_start_date,
       drug_era_end_date AS cohort_end_date FROM cdm.drug_era WHERE drug_concept_id = 1118084
UNION ALL SELECT 2, person_id, drug_era_start_date, drug_era_end_date
FROM cdm.drug_era WHERE drug_concept_id = 1124300
UNION ALL SELECT 3, person_id, condition_start_date, condition_start_date
FROM cdm.condition_occurrence WHERE condition_concept_id = 192671
"""


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """The demonstration's database in schema cdm, cohorts in schema results; gives the socket."""
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    if programs() is None:
        pytest.skip("there is no PostgreSQL server to start")
    with running_server(tmp_path_factory.mktemp("pg")) as host:
        with (
            duckdb.connect(str(demo_database()), read_only=True) as con,
            contextlib.closing(dbapi.connect(address(host, PASSWORD))) as to,
            to.cursor() as cursor,
        ):
            cursor.execute("CREATE SCHEMA cdm")
            cursor.execute("CREATE SCHEMA results")
            cursor.execute("CREATE SCHEMA mine")
            cursor.execute("CREATE SCHEMA whole")
            for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                rows = con.sql(f"FROM {name}").to_arrow_table()
                rows = rows.rename_columns([c.lower() for c in rows.column_names])
                if rows.num_rows or name in ("device_exposure", "note"):
                    cursor.adbc_ingest(name, rows, mode="create", db_schema_name="cdm")
            cursor.execute(COHORTS)
            to.commit()
        yield host


@pytest.fixture
def url(server, monkeypatch):
    monkeypatch.setenv("STEROPES_DATABASE_PASSWORD", PASSWORD)
    return address(server, schema="cdm")
