"""Recorded values that are no finite numbers: without effect on a grid, and said everywhere."""

import zipfile

import duckdb
import numpy as np
import pytest
from tests.studies.conftest import TinyOmop, day

from steropes.studies.cli.command_line import run as command
from steropes.studies.grids.comparative_grid_run import run_grid
from steropes.studies.report.comparative_grid_page import grid_page
from steropes.studies.report.grid_page_data import View
from steropes.studies.specifications.grid_specification_file import read_spec

SPEC = """
database_id = "tiny"
[cohorts.drugs]
11 = { include = [1] }
12 = { include = [2] }
[cohorts.conditions]
13 = { include = [3] }
[thresholds]
balance = 5
equipoise = 0
[[question]]
target = 11
comparator = 12
outcomes = [13]
exclude = [1, 2]
[[analysis]]
id = 1
description = "weighted"
truncate = 10
[analysis.at_risk]
end = 500
end_anchor = "cohort start"
[analysis.features]
analyses = [706, 710]
[analysis.propensity]
variance = 0.5
[analysis.outcome_model]
weighted = true
"""
WORDS = (
    "MeasurementValueLongTerm: 1 record left out, whose value is no finite number (not a number, "
    "infinite, beyond single precision, or text)"
)


def written(folder, extra):
    """240 people with a measured value that goes with drug and outcome; then more records."""
    folder.mkdir()
    omop, rng = TinyOmop(folder), np.random.default_rng(1)
    omop.concept(600, "glucose")
    rows = []
    for _ in range(240):
        value = rng.normal()
        drug = "target" if rng.random() < 1 / (1 + np.exp(-value)) else "comparator"
        person = omop.person(**{drug: 0})
        if rng.random() < 0.3 + 0.1 * value:
            omop.condition(person, 3, int(rng.integers(5, 400)))
        rows.append((person, 600, day(-9), 5 + value, 4.0, 6.0))
    path = omop.write()
    with duckdb.connect(str(path)) as con:
        con.execute(
            "CREATE OR REPLACE TABLE measurement (person_id BIGINT, measurement_concept_id BIGINT, "
            "measurement_date DATE, value_as_number DOUBLE, range_low DOUBLE, range_high DOUBLE)"
        )
        con.execute("ALTER TABLE measurement ADD COLUMN unit_concept_id BIGINT")
        con.executemany("INSERT INTO measurement VALUES (?, ?, ?, ?, ?, ?, 8753)", rows)
        if extra is not None:
            con.execute(
                f"INSERT INTO measurement VALUES (7, 600, DATE '{day(-1)}', {extra}, 4, 6, 8753)"
            )
    return path


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "grid.toml"
    path.write_text(SPEC)
    return path


@pytest.fixture(scope="module")
def clean(spec, tmp_path_factory):
    folder = tmp_path_factory.mktemp("clean")
    return run_grid(
        written(folder / "omop", None), read_spec(spec), folder / "out", disclosure="none"
    )


@pytest.mark.parametrize("extra", ["'inf'", "'nan'", "-1e39"])
def test_one_value_that_is_not_finite_moves_no_estimate_and_is_said(spec, clean, extra, tmp_path):
    found = run_grid(
        written(tmp_path / "omop", extra), read_spec(spec), tmp_path / "out", disclosure="none"
    )
    columns = ["rr", "ci_95_lb", "ci_95_ub"]
    wanted, got = (r.tables["cm_result"][columns].to_numpy() for r in (clean, found))
    assert np.isfinite(wanted).all()
    np.testing.assert_array_equal(got, wanted)
    table = found.tables["unusable_value"]
    assert table[["covariate_analysis_id", "records"]].to_numpy().tolist() == [[706, 1], [710, 1]]
    assert f"{WORDS}." in grid_page(View(found))
    with zipfile.ZipFile(tmp_path / "out" / "release" / "results.zip") as archive:
        assert archive.read("unusable_value.csv").decode().count("\n") == 3


def test_a_clean_database_says_nothing_of_values(clean):
    assert clean.tables["unusable_value"].empty
    assert "left out, whose" not in grid_page(View(clean))


def test_few_records_left_out_are_said_as_a_bound_in_the_terminal(spec, tmp_path, capsys):
    path = tmp_path / "grid.toml"
    path.write_text(spec.read_text())
    database = written(tmp_path / "omop", "'inf'")
    arguments = ["grid", str(path), "--database", str(database)]
    assert command([*arguments, "--output", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "MeasurementValueLongTerm: fewer than 5 records left out, whose values are no" in said
