"""Runs of grids: interrupted, in processes, with parts that cannot be made."""

import dataclasses
import hashlib
import os
import shutil
import signal
import subprocess
import sys

import duckdb
import joblib
import pandas as pd
import pytest

from steropes.designs import Match, OutcomeModel, PropensityRules, Stratify
from steropes.errors import DataError
from steropes.studies.cohorts import ComparisonRules, ConceptSet
from steropes.studies.comparative import Question, StudyAnalysis
from steropes.studies.comparative import analysis_of_one_outcome as answer
from steropes.studies.execution.result_store import ResultStore
from steropes.studies.grids.comparative_grid_run import run_grid
from steropes.studies.report.comparative_grid_page import grid_page
from steropes.studies.report.grid_page_data import View
from steropes.studies.specifications import ControlSet


def checksum(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_an_interrupted_run_goes_on_and_ends_the_same(
    database, spec, results, tmp_path, monkeypatch
):
    estimate, calls = answer.estimate_effect, []

    def interrupted(*args, **settings):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return estimate(*args, **settings)

    monkeypatch.setattr(answer, "estimate_effect", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_grid(database, spec, tmp_path)
    again = run_grid(database, spec, tmp_path)
    assert len(calls) == 12 + 1  # only what was cut short is done twice
    archive = results.path.parent / "release" / "results.zip"
    assert checksum(tmp_path / "release" / "results.zip") == checksum(archive)
    for name, table in results.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], table)
    run_grid(database, spec, tmp_path)
    assert len(calls) == 13


def test_results_do_not_depend_on_how_many_outcomes_are_answered_at_once(
    database, spec, results, tmp_path
):
    with joblib.parallel_config(backend="threading"):
        run_grid(database, spec, tmp_path, jobs=3)
    archive = results.path.parent / "release" / "results.zip"
    assert checksum(tmp_path / "release" / "results.zip") == checksum(archive)
    with pytest.raises(DataError, match="jobs must be"):
        run_grid(database, spec, tmp_path, jobs=0)


@pytest.mark.slow  # starts processes
def test_processes_find_the_same_and_can_be_killed(database, spec, results, tmp_path):
    code = (
        "import sys; from steropes.studies import read_spec, run_grid\n"
        "run_grid(sys.argv[1], read_spec(sys.argv[2]), sys.argv[3], jobs=2, progress=print)"
    )
    (tmp_path / "grid.json").write_text(spec.to_json())
    arguments = [str(database), str(tmp_path / "grid.json"), str(tmp_path / "out")]
    for _ in range(3):
        with subprocess.Popen(
            [sys.executable, "-u", "-c", code, *arguments],
            text=True,
            stdout=subprocess.PIPE,
            start_new_session=True,
        ) as run:
            for line in run.stdout:
                if line.startswith("weighted"):
                    os.killpg(run.pid, signal.SIGKILL)
                    break
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, capture_output=True)
    archive = results.path.parent / "release" / "results.zip"
    assert checksum(tmp_path / "out" / "release" / "results.zip") == checksum(archive)


def test_results_of_something_else_are_not_added_to(database, spec, results, tmp_path):

    other = dataclasses.replace(spec, database_id="other")
    with pytest.raises(DataError, match="holds results of another specification"):
        run_grid(database, other, results.path.parent)
    (tmp_path / "results.duckdb").write_text("no")
    with pytest.raises(DataError, match="cannot open"):
        ResultStore(tmp_path / "results.duckdb", "x", {}, {})


def test_one_bad_result_does_not_stop_the_others(database, spec, tmp_path):
    bad = StudyAnalysis(
        9, "nothing to adjust for", propensity=PropensityRules(include=(1,)), match=Match(),
        at_risk=spec.analysis[0].at_risk, features=spec.analysis[1].features,
    )  # fmt: skip
    many = dataclasses.replace(spec, analysis=(bad, spec.analysis[0]))
    found = run_grid(database, many, tmp_path).tables
    notes = found["note"].query("outcome_id == 13").set_index("analysis_id")["note"]
    assert "nobody among these people has any of those to use" in notes[9]
    assert notes[1] == ""


@pytest.mark.parametrize(
    ("change", "purpose"),
    [
        ({"propensity": PropensityRules(variance=0.1, exclude=(1,))}, "to exclude from the prop"),
        pytest.param(
            {"propensity": PropensityRules(variance=0.1, include=(1, 8532001))},
            "to include in the",
            marks=pytest.mark.slow,
        ),
        ({"outcome_model": OutcomeModel(interactions=(1,))}, "of interactions"),
        ({"outcome_model": OutcomeModel(covariates=True, include=(1,))}, "to include in the outc"),
        pytest.param(
            {"outcome_model": OutcomeModel(covariates=True, exclude=(1,))},
            "to exclude from the ou",
            marks=pytest.mark.slow,
        ),
        ({"match": Match(caliper=0, exact=(1,))}, "to match on exactly"),
        pytest.param({"stratify": Stratify(2, exact=(1,))}, "of strata", marks=pytest.mark.slow),
    ],
)
def test_covariates_that_nobody_has_are_ignored_with_a_note(
    database, spec, tmp_path, change, purpose
):
    weighted = dataclasses.replace(spec.analysis[1], outcome_model=OutcomeModel(), truncate=None)
    plain = {"propensity": PropensityRules(variance=0.1)}
    if "propensity" not in change:
        change = plain | change
    absent = dataclasses.replace(weighted, **change)
    present = dataclasses.replace(absent, id=5, **_without_one(change))
    one = dataclasses.replace(
        spec, analysis=(absent, present), controls=ControlSet(),
        question=(Question(11, 12, (13,), exclude=(1, 2)),),
    )  # fmt: skip
    found = run_grid(database, one, tmp_path)
    results = found.tables["cm_result"].set_index("analysis_id")["rr"]
    assert results[2] == pytest.approx(results[5], rel=1e-9)
    notes = found.tables["data_note"]
    assert notes["analysis_id"].tolist() == [2]
    said = f"Nobody in the comparison has 1 of the {len(_listed(change))} covariates {purpose}"
    assert notes["note"].iloc[0].startswith(said)
    assert said in grid_page(View(found))


def _listed(change):
    """The list of covariate ids that a changed setting has."""
    one = list(change.values())[-1]
    names = ("include", "exclude", "interactions", "exact")
    return next(ids for n in names if (ids := getattr(one, n, ())))


def _without_one(change):
    """The same change without covariate 1; a list that is then empty would mean all."""
    made = {}
    for name, value in change.items():
        for field in ("include", "exclude", "interactions", "exact"):
            if 1 in getattr(value, field, ()):
                left = tuple(i for i in getattr(value, field) if i != 1)
                if field == "include" and not left:
                    value = OutcomeModel()
                else:
                    value = dataclasses.replace(value, **{field: left})
        made[name] = value
    return made


def test_what_cannot_be_made_is_left_out_and_told(database, spec, tmp_path):

    crude, weighted = spec.analysis
    late = dataclasses.replace(crude, id=3, cohorts=ComparisonRules(washout_days=5000))
    sources = dataclasses.replace(
        spec.cohorts, drugs={**spec.cohorts.drugs, 15: ConceptSet((777,)), 16: ConceptSet((9,))}
    )
    questions = tuple(Question(t, 12, (13, 99)) for t in (11, 15, 16, 98))
    many = dataclasses.replace(
        spec, cohorts=sources, question=questions, analysis=(crude, weighted, late),
        controls=ControlSet(concepts=(888,)),
    )  # fmt: skip
    found = run_grid(database, many, tmp_path)
    t = found.tables
    notes = t["note"].merge(t["cm_target_comparator"], on="target_comparator_id")
    notes = notes.set_index(["target_id", "outcome_id", "analysis_id"])["note"]
    assert notes[11, 13, 1] == notes[11, 13, 2] == ""
    assert notes[11, 99, 1] == "cohort 99 is not defined"
    assert "cohort 888: concept 888 is unknown" in notes[11, 888, 2]
    said = "nobody of the target, newdrug, is left after the rule “5000 days of prior observation”"
    assert said in notes[11, 13, 3]
    assert "cohort 15: concept 777 is unknown" in notes[15, 13, 1]
    assert "there are no entries of the target, condition 9" in notes[16, 13, 1]
    assert notes[98, 13, 2] == "cohort 98 is not defined"
    assert "cohort 98 is not defined" in grid_page(View(found))
    with pytest.raises(DataError, match="cohort 15: concept 777 is unknown"):
        run_grid(database, dataclasses.replace(many, question=questions[1:2]), tmp_path / "no")


def test_observation_beyond_the_years_of_nanoseconds_changes_nothing(
    database, spec, results, tmp_path
):
    wide = tmp_path / "wide.duckdb"
    shutil.copy(database, wide)
    with duckdb.connect(str(wide)) as con:
        con.execute(
            "UPDATE observation_period SET observation_period_start_date = DATE '1600-01-01', "
            "observation_period_end_date = DATE '2500-12-31'"
        )
    far = run_grid(wide, spec, tmp_path / "results")
    for name in ("cm_result", "cm_attrition"):
        pd.testing.assert_frame_equal(far.tables[name], results.tables[name])


@pytest.mark.slow
@pytest.mark.parametrize("cycles", [-1, 1])
def test_four_hundred_years_earlier_or_later_the_results_are_the_same(
    database, spec, results, tmp_path, cycles
):
    """The calendar repeats after 400 years, so that nothing but the years may change."""
    moved = tmp_path / "moved.duckdb"
    shutil.copy(database, moved)
    dates = {
        "observation_period": ("observation_period_start_date", "observation_period_end_date"),
        "drug_era": ("drug_era_start_date", "drug_era_end_date"),
        "condition_occurrence": ("condition_start_date",),
    }
    with duckdb.connect(str(moved)) as con:
        con.execute(f"UPDATE person SET year_of_birth = year_of_birth + {400 * cycles}")
        for table, columns in dates.items():
            shift = ", ".join(f"{c} = {c}::DATE + {146_097 * cycles}" for c in columns)
            con.execute(f"UPDATE {table} SET {shift}")
    far = run_grid(moved, spec, tmp_path / "results")
    for name in ("cm_result", "cm_attrition", "cm_follow_up_dist"):
        pd.testing.assert_frame_equal(far.tables[name], results.tables[name])
