"""Random databases with the irregularities of real ones give what a slow reference finds."""

import pytest

pytest.importorskip("duckdb")
pytest.importorskip("pyarrow")

from benchmarks.random_databases.check import judge


@pytest.mark.parametrize("seed", [3, 6, 13, 20, 24, 31])
def test_a_random_database_is_read_as_the_reference_reads_it(seed):
    said = judge(seed)
    assert said.status != "DIFFERENT", said.findings


@pytest.mark.slow
def test_many_random_databases():
    wrong = [(seed, said.findings) for seed in range(1000, 1200) if (said := judge(seed)).findings]
    assert not wrong
