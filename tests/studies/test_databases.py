"""Where databases are: addresses without secrets, dialects, folders of Parquet files."""

import datetime as dt
import gc
import json
import os
import subprocess
import sys
import types

import duckdb
import pyarrow as pa
import pytest
import sqlglot

from steropes.errors import DataError
from steropes.studies import (
    OmopDatabase,
    StudySettings,
    comparative_study,
    synthetic_database,
)
from steropes.studies.database.open_database import open_source
from steropes.studies.database.server_registry import DIALECTS, connect
from steropes.studies.database.server_url import read_address
from steropes.studies.database.sources.sql_dialects import Column, Table
from steropes.studies.database.sources.table_source import RecordsOf

SQLGLOT = {"postgresql": "postgres", "sqlserver": "tsql"}
MEASUREMENT = Table(
    "cdm",
    "MEASUREMENT",
    (
        Column("PERSON_ID", "whole"),
        Column("MEASUREMENT_CONCEPT_ID", "whole"),
        Column("MEASUREMENT_DATE", "date"),
        Column("MEASUREMENT_DATETIME", "time"),
        Column("VALUE_AS_NUMBER", "real"),
        Column("odd `name]\"'", "text"),
    ),
)


# -- addresses -----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _nothing_in_the_environment(monkeypatch):
    for name in ("USER", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"STEROPES_DATABASE_{name}", raising=False)
    monkeypatch.delenv("STEROPES_CREDENTIALS", raising=False)


# -- dialects ------------------------------------------------------------------------------------


def queries(dialect):
    person, concept = MEASUREMENT.columns[:2]
    some = list(dialect.among(concept, [1, 2, 3]))
    text = list(dialect.among(MEASUREMENT.columns[5], ["Maps to", "it's \\ `odd`"]))
    yield dialect.listing("cdm")
    yield from filter(None, [dialect.schemas()])
    yield dialect.select(MEASUREMENT, MEASUREMENT.columns)
    yield from (dialect.distinct_days(MEASUREMENT, c) for c in MEASUREMENT.columns)
    for condition in (*some, *text):
        yield dialect.select(MEASUREMENT, MEASUREMENT.columns, condition)
        yield dialect.exists(MEASUREMENT, condition)
    records = [(MEASUREMENT, person, some[0]), (MEASUREMENT, person, text[0])]
    yield dialect.select(MEASUREMENT, MEASUREMENT.columns, dialect.has_record(person, records))


@pytest.mark.parametrize("name", DIALECTS)
def test_every_query_is_a_select_that_the_dialect_parses(name):
    for sql in queries(DIALECTS[name]):
        [statement] = sqlglot.parse(sql, dialect=SQLGLOT.get(name, name))
        assert isinstance(statement, sqlglot.exp.Select)


@pytest.mark.parametrize("name", DIALECTS)
def test_names_and_texts_mean_what_they_are(name):
    dialect = DIALECTS[name]
    odd = "it's \\ `odd`"
    [condition] = dialect.among(MEASUREMENT.columns[5], [odd])
    sql = dialect.select(MEASUREMENT, MEASUREMENT.columns[5:], condition)
    statement = sqlglot.parse_one(sql, dialect=SQLGLOT.get(name, name))
    assert [x.this for x in statement.find_all(sqlglot.exp.Literal)] == [odd]
    names = {c.name for c in statement.find_all(sqlglot.exp.Column)}
    assert names == {MEASUREMENT.columns[5].name}


def test_long_lists_come_in_parts():
    parts = list(DIALECTS["postgresql"].among(MEASUREMENT.columns[1], range(4_500)))
    assert [p.count(",") + 1 for p in parts] == [2_000, 2_000, 500]


@pytest.mark.parametrize(
    ("declared", "scale", "name", "kind"),
    [
        ("bigint", 0, "person_id", "whole"),
        ("INT64", None, "person_id", "whole"),
        ("NUMBER", 0, "year_of_birth", "whole"),
        ("NUMBER(38,0)", 0, "year_of_birth", "whole"),
        ("numeric", None, "person_id", "whole"),
        ("numeric", 2, "value_as_number", "real"),
        ("double precision", None, "range_low", "real"),
        ("character varying", None, "value_as_number", "real"),
        ("character varying", None, "value_as_concept_id", "whole"),
        ("nvarchar", None, "drug_era_start_date", "date"),
        ("date", None, "drug_era_start_date", "date"),
        ("timestamp without time zone", None, "drug_era_start_date", "time"),
        ("DATETIME2", None, "x", "time"),
        ("interval", None, "x", "text"),
        ("point", None, "x", "text"),
        ("uniqueidentifier", None, "x", "text"),
        ("STRING", None, "concept_name", "text"),
    ],
)
def test_types_are_understood(declared, scale, name, kind):
    assert Column.declared(name, declared, scale).kind == kind


# -- folders of Parquet --------------------------------------------------------------------------


@pytest.fixture
def people(omop):
    for k in range(30):
        omop.person(target=k % 7, outcome=300 if k % 3 else None, born=1950 + k)
        omop.person(comparator=k % 5, outcome=200 if k % 4 else None, born=1950 + k)
    return omop.write()


def export(path, folder, *, split=()):
    folder.mkdir()
    with duckdb.connect(str(path), read_only=True) as con:
        for (name,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            if name in split:
                (folder / name).mkdir()
                for part in range(2):
                    con.execute(
                        f"COPY (FROM {name} WHERE rowid % 2 = {part}) "
                        f"TO '{folder / name / f'{part}.parquet'}'"
                    )
            else:
                con.execute(f"COPY {name} TO '{folder / f'{name.upper()}.parquet'}'")
    return folder


def test_a_folder_of_parquet_files_is_a_database(people, tmp_path):
    folder = export(people, tmp_path / "odd [1] *", split=("drug_era", "person"))
    settings = StudySettings(1, 2, 3, washout_days=0, folds=2, tie_orders=0)
    found = comparative_study(folder, settings).to_dict()
    assert json.dumps(found) == json.dumps(comparative_study(people, settings).to_dict())
    with OmopDatabase(folder) as db:
        assert db.name == folder.name
        assert db.narrowed([RecordsOf("drug_era", "drug_concept_id", (1,))]).tables == db.tables


def test_a_table_that_is_there_twice_is_refused(people, tmp_path):
    folder = export(people, tmp_path / "cdm")
    (folder / "person.parquet").write_bytes((folder / "PERSON.parquet").read_bytes())
    with pytest.raises(DataError, match="has the table person twice"):
        OmopDatabase(folder)


def test_a_file_that_is_no_parquet_is_named(people, tmp_path):
    folder = export(people, tmp_path / "cdm")
    (folder / "CONCEPT.parquet").write_text("not at all")
    with pytest.raises(DataError, match="cannot read the Parquet files of"):
        OmopDatabase(folder)


def test_an_open_database_serves_a_study_and_stays_open(people):
    settings = StudySettings(1, 2, 3, washout_days=0, folds=2, tie_orders=0)
    with OmopDatabase(people) as db:
        first = comparative_study(db, settings)
        assert not db.closed
        assert comparative_study(db, settings).to_dict() == first.to_dict()


# -- clients without a server --------------------------------------------------------------------


class RecordedCursor:
    """A cursor that answers as Trino's client does."""

    description = (
        ("PERSON_ID", "bigint"),
        ("day", "date"),
        ("at", "timestamp(6)"),
        ("x", "varchar"),
    )

    def __init__(self, rows):
        self.rows, self.asked = list(rows), []

    def execute(self, sql):
        self.asked.append(sql)

    def fetchmany(self, size):
        part, self.rows = self.rows[:2], self.rows[2:]
        return part


@pytest.mark.parametrize("count", [0, 1, 5])
def test_rows_of_trino_s_client_become_typed_batches(count):
    from steropes.studies.database.servers.trino import TrinoServer

    moment = dt.datetime(2010, 1, 2, 3, 4, 5)
    rows = [[k, moment.date(), None if k else moment, "a"] for k in range(count)]
    connection = types.SimpleNamespace(cursor=lambda: RecordedCursor(rows))
    batches = list(TrinoServer(connection).batches("SELECT 1"))
    assert batches[0].num_rows == 0
    assert [str(kind) for kind in batches[0].schema.types] == [
        "int64", "date32[day]", "timestamp[us]", "string",
    ]  # fmt: skip
    found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    assert found == [tuple(row) for row in rows]


def test_redshift_s_address_is_postgresql_s_with_another_port(monkeypatch):
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    asked = []
    monkeypatch.setattr(dbapi, "connect", lambda uri, autocommit: asked.append((uri, autocommit)))
    connect(read_address("redshift://ann:p%40ss@cluster.example/dev?schema=cdm&sslmode=require"))
    assert asked == [("postgresql://ann:p%40ss@cluster.example:5439/dev?sslmode=require", True)]


# -- options of drivers that no imitation receives ----------------------------------------------


def recorded(monkeypatch, module, names):
    """Replace a driver's module by one that records the arguments of some functions."""
    calls = []

    def record(*args, **kwargs):
        calls.append((*args, kwargs))
        return object()

    fake = types.ModuleType(module)
    for name in names:
        setattr(fake, name, record)
    if "." in module:
        parent = types.ModuleType(module.partition(".")[0])
        setattr(parent, module.rpartition(".")[2], fake)
        monkeypatch.setitem(sys.modules, parent.__name__, parent)
    monkeypatch.setitem(sys.modules, module, fake)
    return calls


def test_bigquery_gets_project_dataset_and_location(monkeypatch):
    calls = recorded(monkeypatch, "adbc_driver_bigquery.dbapi", ["connect"])
    connect(read_address("bigquery://my-project?schema=cdm&location=EU"))
    assert calls == [
        (
            {
                "db_kwargs": {
                    "adbc.bigquery.sql.project_id": "my-project",
                    "adbc.bigquery.sql.dataset_id": "cdm",
                    "adbc.bigquery.sql.location": "EU",
                },
                "autocommit": True,
            },
        )
    ]
    with pytest.raises(DataError, match="has no option region; the options are schema, location"):
        connect(read_address("bigquery://my-project?region=EU"))


def test_snowflake_gets_a_token_or_a_password(monkeypatch):
    calls = recorded(monkeypatch, "adbc_driver_snowflake.dbapi", ["connect"])
    connect(read_address("snowflake://ann:hush@account/omop?warehouse=w&role=r"))
    monkeypatch.setenv("STEROPES_DATABASE_TOKEN", "t0ken")
    connect(read_address("snowflake://ann@account/omop"))
    [(by_password,), (by_token,)] = calls
    sent = by_password["db_kwargs"]
    assert (sent["username"], sent["password"]) == ("ann", "hush")
    assert sent["adbc.snowflake.sql.warehouse"] == "w"
    assert sent["adbc.snowflake.sql.role"] == "r"
    sent = by_token["db_kwargs"]
    assert sent["adbc.snowflake.sql.auth_type"] == "auth_oauth"
    assert sent["adbc.snowflake.sql.client_option.auth_token"] == "t0ken"
    assert "password" not in sent


@pytest.mark.parametrize(
    ("url", "expected", "login"),
    [
        (
            "mssql://ann:hu%7Dsh@host:1433/omop?encrypt=yes",
            "Driver={ODBC Driver 18 for SQL Server};Server={host,1433};Database={omop};"
            "ApplicationIntent={ReadOnly};Encrypt={yes}",
            ("ann", "hu}sh"),
        ),
        (
            "sqlserver://host/a}b;c?driver=FreeTDS&trust=yes",
            "Driver={FreeTDS};Server={host};Database={a}}b;c};ApplicationIntent={ReadOnly};"
            "TrustServerCertificate={yes};Trusted_Connection={yes}",
            (None, None),
        ),
    ],
)
def test_sql_server_gets_a_connection_string_without_credentials(monkeypatch, url, expected, login):
    asked = []

    def read(**given):
        asked.append(given)
        return pa.RecordBatchReader.from_batches(pa.schema([("one", pa.int32())]), [])

    driver = types.ModuleType("arrow_odbc")
    driver.read_arrow_batches_from_odbc = read
    monkeypatch.setitem(sys.modules, "arrow_odbc", driver)
    connect(read_address(url))
    [given] = asked
    assert (given["user"], given["password"]) == login
    assert given["query"] == "SELECT 1 AS one"
    assert given["connection_string"] == expected


# -- a new kind of server ----------------------------------------------------------------------

TOY = '''
"""A toy server: a DuckDB file on another path."""

from steropes.studies.database.sources.server_connection import Server, empty_batch
from steropes.studies.database.sources.server_kind import ServerKind
from steropes.studies.database.sources.sql_dialects import Dialect

__all__ = ["SERVER"]


class ToyServer(Server):
    def __init__(self, path):
        import duckdb

        self.connection = duckdb.connect(path, read_only=True)

    def batches(self, sql):
        table = self.connection.sql(sql).to_arrow_table()
        yield empty_batch(table.schema)
        yield from table.to_batches()

    def close(self):
        self.connection.close()


SERVER = ServerKind(
    ("toy",), Dialect("toy", "main"), lambda address, writing: ToyServer("/" + address.path)
)
'''
STUDY = """
import sys

from steropes.studies.database import servers

servers.__path__.append(sys.argv[1])
from steropes.studies import OmopDatabase, find_concepts
from steropes.studies.database.omop import RecordsOf

with OmopDatabase(f"toy://host{sys.argv[2]}") as toy, OmopDatabase(sys.argv[2]) as file:
    assert find_concepts(toy, "newdrug").equals(find_concepts(file, "newdrug"))
    part = toy.narrowed([RecordsOf("drug_era", "drug_concept_id", (1,))])
    found = part.rows(f"SELECT * FROM {part.table('drug_era')} ORDER BY ALL")
    expected = file.rows(
        f"SELECT * FROM {file.table('drug_era')} WHERE drug_concept_id = 1 ORDER BY ALL"
    )
assert found == expected
"""


def test_a_new_kind_of_server_is_one_file(people, tmp_path):
    folder = tmp_path / "servers"
    folder.mkdir()
    (folder / "toy.py").write_text(TOY)
    command = [sys.executable, "-c", STUDY, str(folder), str(people)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONWARNINGS": "default"})


def test_databases_in_memory_never_share_an_identity():
    """Python reuses ids, and stored results of one would be taken for those of the next."""
    seen = set()
    for _ in range(10):
        connection = duckdb.connect()
        connection.execute("CREATE TABLE person (person_id INTEGER)")
        seen.add(open_source(connection).identity)
        assert open_source(connection).identity in seen
        connection.close()
        del connection
        gc.collect()
    assert len(seen) == 10
    assert repr(synthetic_database(20)) == "OmopDatabase('memory in memory', schema='main')"
