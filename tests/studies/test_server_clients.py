"""The clients of Snowflake, Databricks and Trino against servers that imitate the protocols.

DuckDB runs the queries behind all three: `fakesnow` imitates Snowflake, and modules in this folder
imitate Databricks and Trino. Clients that are not installed are skipped; ``make servers`` installs
them.
"""

import functools
import os
import shutil
import socket
import subprocess
import time
import urllib.request

import duckdb
import pytest
from server_tables import (
    assert_same_choices,
    assert_same_last_days,
    assert_same_tables,
    write_tables,
)

from steropes.errors import DataError
from steropes.studies import DEMO, OmopDatabase, StudySettings, comparative_study, demo_database
from steropes.studies.database.server_registry import connect
from steropes.studies.database.server_url import read_address

FAKESNOW = os.environ.get("STEROPES_FAKESNOW") or shutil.which("fakesnow")
# Snowflake's driver closes its sockets only when it is collected.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(scope="module")
def snowflake():
    """The options of a URL for a running fakesnow."""
    pytest.importorskip("adbc_driver_snowflake")
    if not FAKESNOW:
        pytest.skip("fakesnow is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([FAKESNOW, "--server", "--port", str(port)], **quiet) as process:
        try:
            _wait(f"http://127.0.0.1:{port}/", process)
            yield f"host=127.0.0.1&port={port}&protocol=http"
        finally:
            process.terminate()


def _wait(url, process):
    """Wait until a server answers."""
    for _ in range(240):
        assert process.poll() is None, "fakesnow does not start; does its own test suite run?"
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError as error:
            error.close()
            return
        except OSError:
            time.sleep(0.25)
    pytest.fail("fakesnow does not answer")


def _upload(source, folder, options, schema):
    """Create tables in fakesnow from Parquet files, with names in upper case as on Snowflake."""
    from adbc_driver_snowflake import dbapi

    address = read_address(f"snowflake://ann:secret@account?{options}")
    server = connect(address, writing=False)
    assert isinstance(server.connection, dbapi.Connection)
    with server.connection.cursor() as cursor, duckdb.connect(str(source), read_only=True) as file:
        cursor.execute("CREATE DATABASE IF NOT EXISTS omop")
        cursor.execute(f"CREATE SCHEMA IF NOT EXISTS omop.{schema}")
        for within, name in file.execute(
            "SELECT schema_name, table_name FROM duckdb_tables()"
        ).fetchall():
            place = f'"{within}"."{name}"'
            columns = [c for c, *_ in file.execute(f"DESCRIBE {place}").fetchall()]
            upper = ", ".join(f'"{c}" AS "{c.upper()}"' for c in columns)
            if file.sql(f"FROM {place} LIMIT 1").fetchall():
                path = folder / f"{name}.parquet"
                file.execute(f"COPY (SELECT {upper} FROM {place}) TO '{path}'")
                cursor.execute(
                    f"CREATE TABLE omop.{schema}.{name} AS SELECT * FROM read_parquet('{path}')"
                )
    server.close()


@pytest.fixture
def site(omop, tmp_path):
    return write_tables(omop, tmp_path / "site.duckdb")


@pytest.fixture(params=["databricks", "snowflake", "trino"])
def url(request, site, tmp_path, monkeypatch):
    """The URL of a server of each kind, which has the tables of the site."""
    if request.param == "snowflake":
        options = request.getfixturevalue("snowflake")
        schema = tmp_path.name
        _upload(site, tmp_path, options, schema)
        yield f"snowflake://ann:secret@account/omop?schema={schema}&{options}"
        return
    pytest.importorskip(request.param)
    with duckdb.connect(str(site), read_only=True) as connection:
        connection.execute("SET TimeZone = 'America/New_York'")
        if request.param == "trino":
            from trino_server import trino_server

            with trino_server(connection.cursor()) as server:
                place = f"127.0.0.1:{server.server_port}/hive"
                yield f"trino://ann@{place}?schema=cdm&http_scheme=http"
            assert {h["x-trino-user"] for h in server.headers} == {"ann"}
            assert {h["x-trino-catalog"] for h in server.headers} == {"hive"}
        else:
            from databricks import sql
            from databricks_server import databricks_server

            monkeypatch.setenv("STEROPES_DATABASE_TOKEN", "hush")
            with databricks_server(connection.cursor()) as (address, warehouse, tokens):
                local = functools.partial(
                    sql.connect, _connection_uri=address, enable_telemetry=False
                )
                monkeypatch.setattr(sql, "connect", local)
                yield "databricks://host/sql/1.0/warehouses/1?schema=cdm&catalog=main"
            assert {*tokens} == {"Bearer hush"}
            assert {s.initialNamespace.catalogName for s in warehouse.sessions} == {"main"}


def test_tables_arrive_unchanged(url, site):
    # fakesnow's tables of DuckDB instants are not Snowflake's, so their zone is not compared.
    without = ("measurement_datetime",) if url.startswith("snowflake") else ()
    for zone in ("UTC", "Asia/Tokyo"):
        assert_same_tables(url, site, zone, without)


def test_rows_of_some_people_words_and_concepts_are_the_same(url, site):
    assert_same_choices(url, site)
    assert_same_last_days(url, site)


def test_an_error_of_the_server_is_one_sentence(url):
    with OmopDatabase(url) as db, pytest.raises(DataError, match="cannot read the thing") as caught:
        db._source._cache.asked("the thing", lambda: db._source._cache.rows("SELECT nothing_here"))
    assert "hush" not in str(caught.value)
    assert "secret" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.slow
def test_a_study_on_snowflake_is_the_same(snowflake, tmp_path):
    _upload(demo_database(), tmp_path, snowflake, "demo")
    url = f"snowflake://ann:secret@account/omop?schema=demo&{snowflake}"
    settings = StudySettings(**DEMO, folds=2, tie_orders=0)
    expected = comparative_study(demo_database(), settings).to_dict()
    assert comparative_study(url, settings).to_dict() == expected
