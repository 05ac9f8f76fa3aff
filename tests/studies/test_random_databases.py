"""Random databases with the irregularities of real ones give what a slow reference finds."""

import tempfile
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

from benchmarks.random_databases.check import judge
from tests.studies import postgres_server


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("seed", "engine"), [(3, "duckdb"), (13, "parquet"), (24, "duckdb"), (31, "parquet")]
)
def test_a_random_database_is_read_as_the_reference_reads_it(seed, engine):
    said = judge(seed, (engine,))
    assert said.status != "DIFFERENT", said.findings


@pytest.mark.slow
def test_many_random_databases():
    wrong = [(seed, said.findings) for seed in range(1000, 1200) if (said := judge(seed)).findings]
    assert not wrong


@pytest.mark.slow
def test_measured_values_that_are_text_are_read_from_a_server_as_from_a_file():
    pytest.importorskip("adbc_driver_postgresql")
    if postgres_server.programs() is None:
        pytest.skip("there is no PostgreSQL server to start")
    # Its values are numbers in text, words, NaN and infinity.
    with (
        tempfile.TemporaryDirectory() as folder,
        postgres_server.server(Path(folder)) as socket,
    ):
        password = quote(postgres_server.PASSWORD, safe="")
        url = f"postgresql://site:{password}@/postgres?host={socket}"
        said = judge(3006, ("postgresql",), url)
    assert said.status == "agree", (said.findings, said.refusals)
