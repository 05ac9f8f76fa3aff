"""The queries of every dialect, translated by sqlglot, select the rows that DuckDB selects."""

from dataclasses import replace

import duckdb
import pytest
from server_tables import (
    assert_same_choices,
    assert_same_last_days,
    assert_same_tables,
    write_tables,
)
from transpiled_server import TranspiledServer

from steropes.errors import DataError
from steropes.studies import OmopDatabase, StudySettings, comparative_study
from steropes.studies.database import server_registry


@pytest.fixture(params=server_registry.DIALECTS)
def url(request, omop, tmp_path, monkeypatch):
    """The URL of a server of each kind, which has the tables of the file ``site.duckdb``."""
    name = request.param
    path = write_tables(omop, tmp_path / "site.duckdb")
    with duckdb.connect(str(path), read_only=True) as connection:
        # A session's time zone must not matter; without one, SQL Server stores local times.
        zone = "UTC" if name == "sqlserver" else "America/New_York"
        connection.execute(f"SET TimeZone = '{zone}'")
        served = TranspiledServer(connection.cursor(), name)
        kind = replace(server_registry.SERVERS[name], connect=lambda *_: served)
        monkeypatch.setitem(server_registry.SERVERS, name, kind)
        yield f"{kind.schemes[0]}://host/cdm?schema=cdm"


@pytest.mark.sampled
@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_tables_are_copied_unchanged(url, tmp_path, zone):
    # DuckDB has no type that keeps its own offset, as SQL Server's DATETIMEOFFSET does.
    own_zone = ("measurement_datetime",) if url.startswith("mssql") else ()
    assert_same_tables(url, tmp_path / "site.duckdb", zone, without=own_zone)


@pytest.mark.sampled
def test_rows_of_some_people_words_and_concepts_are_the_same(url, tmp_path):
    assert_same_choices(url, tmp_path / "site.duckdb")


@pytest.mark.sampled
def test_last_days_are_the_same(url, tmp_path):
    assert_same_last_days(url, tmp_path / "site.duckdb")


@pytest.mark.sampled
def test_a_schema_without_tables_is_an_error(url):
    with pytest.raises(DataError, match="no tables in schema 'elsewhere'"):
        OmopDatabase(url.replace("schema=cdm", "schema=elsewhere"))


@pytest.mark.slow
def test_a_study_is_the_same(url, tmp_path):
    settings = StudySettings(1, 2, 3, washout_days=0, folds=2, tie_orders=0)
    file = replace(settings, schema="cdm")
    expected = comparative_study(tmp_path / "site.duckdb", file).to_dict()
    found = comparative_study(url, settings).to_dict()
    assert {**found, "settings": 0} == {**expected, "settings": 0}
