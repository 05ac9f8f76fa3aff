"""A grid of case series: one file of results, resumable, calibrated by negative controls."""

import dataclasses
import math
import re
import shutil
import zipfile
from pathlib import Path

import duckdb
import joblib
import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from tests.studies.conftest import OUTCOME, TARGET, TinyOmop

from steropes import DataError
from steropes.studies import CaseSeriesSettings, OmopDatabase, case_series
from steropes.studies.cli.command_line import run
from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.grids.sccs_grid import (
    CaseSeriesGrid,
    SeriesAnalysis,
    SeriesQuestion,
    run_case_series_grid,
)
from steropes.studies.grids.sccs_positive_controls import add_to_exposed_time
from steropes.studies.monitoring.released_estimates_by_look import monitor_releases
from steropes.studies.sccs import CaseRules, ExposureWindow, Thresholds
from steropes.studies.sccs.cases.case_population import find_cases
from steropes.studies.sccs.cases.series_preparation import SharedCases
from steropes.studies.sccs.specification.case_series_grid_settings import SeriesPositives
from steropes.studies.series_report.sccs_grid_page import case_series_grid_page, series_controls

CONTROLS = (61, 62, 63, 64, 65, 66)
FAST = {"end_of_observation_days": 0, "pre_exposure_days": 0}


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """Cases of an outcome and of six controls, in whom exposure raises every rate by half."""
    omop = TinyOmop(tmp_path_factory.mktemp("omop"))
    rng = np.random.default_rng(11)
    for outcome in (OUTCOME, *CONTROLS):
        if outcome != OUTCOME:
            omop.concept(outcome, f"control {outcome}")
        for _ in range(36):
            person = omop.person(observed=(0, 400))
            start = int(rng.integers(20, 350))
            omop.drug(person, TARGET, start, start + 40)
            ratio = 4.0 if outcome == OUTCOME else 1.5
            inside = rng.random() < 41 * ratio / (41 * ratio + 360)
            day = start + int(rng.integers(0, 41)) if inside else int(rng.integers(0, 401))
            omop.condition(person, outcome, day)
    return omop.write()


def a_grid(**more):
    more = {"thresholds": Thresholds(prevalence=1.0, detectable=20), **more}
    questions = [SeriesQuestion(TARGET, OUTCOME), SeriesQuestion(TARGET, 999)]
    questions += [SeriesQuestion(TARGET, c, 1.0) for c in CONTROLS]
    analyses = (
        SeriesAnalysis(1, "the era", FAST),
        SeriesAnalysis(2, "a month", {**FAST, "risk_end": 30, "risk_end_at": "start"}),
    )
    return CaseSeriesGrid(tuple(questions), analyses, **more)


@pytest.fixture(scope="module")
def run_of_grid(database, tmp_path_factory):
    """The results, and the outcomes whose cases were looked for."""
    found = []

    def counted(db, work, rules, sources):
        found.append(rules.outcome)
        return find_cases(db, work, rules, sources)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("steropes.studies.sccs.cases.series_preparation.find_cases", counted)
        return run_case_series_grid(database, a_grid(), tmp_path_factory.mktemp("out")), found


@pytest.fixture(scope="module")
def results(run_of_grid):
    return run_of_grid[0]


def test_every_question_has_a_result_or_a_note(results):
    t = results.tables
    assert len(t["sccs_result"]) == len(t["note"]) == 2 * 8
    missing = t["sccs_result"]["log_rr"].isna()
    assert missing.sum() == 2
    notes = t["note"].loc[t["note"]["note"] != "", "note"]
    assert notes.str.contains("concept 999 is unknown").sum() == 2


def test_looks_at_a_case_series_are_monitored(results):
    folder = results.path.parent
    found = monitor_releases([folder, folder], planned=3, unblind=True)
    assert found["design"].unique().tolist() == ["sccs"]
    own = found[found["comparison"].notna() & found["log_rr"].notna()]
    first, second = (own[own["look"] == k] for k in (1, 2))
    assert len(first) == len(second) == 2  # two analyses; controls are not tested
    assert (first["z"] > 2).all()
    assert np.isfinite(first["error_mean"]).all()
    assert set(second["note"]) == {"no new information"}


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_processes(database, results, tmp_path):
    with joblib.parallel_config(backend="threading"):
        run_case_series_grid(database, a_grid(), tmp_path, jobs=3)
    archive = Path("release") / "results.zip"
    assert (tmp_path / archive).read_bytes() == (results.path.parent / archive).read_bytes()
    with pytest.raises(DataError, match="jobs must be"):
        run_case_series_grid(database, a_grid(), tmp_path, jobs=0)


def test_series_with_the_same_rules_share_their_cases(run_of_grid):
    _, found = run_of_grid
    assert sorted(found) == sorted([OUTCOME, 999, 999, *CONTROLS])  # 999 is refused each time.


def test_notes_of_a_series_are_not_those_of_the_next_one(database):
    note = DataNote("links", "a concept of the first series has no links")
    with OmopDatabase(database) as db, db.workspace() as work:
        shared = SharedCases(db, work)
        first, population = shared.find(CaseRules(OUTCOME), None)
        first.family.notes.append(note)
        second, again = shared.find(CaseRules(OUTCOME), None)
        assert again is population
        assert note not in second.family.notes


def test_a_grid_runs_at_a_site_with_rules(database, tmp_path, monkeypatch):
    grid = dataclasses.replace(
        a_grid(), questions=a_grid().questions[:2], analyses=a_grid().analyses[:1]
    )
    without = run_case_series_grid(database, grid, tmp_path / "without")
    monkeypatch.setenv("STEROPES_DISCLOSURE", "ohdsi:5")
    found = run_case_series_grid(database, grid, tmp_path / "with")
    assert len(found.tables["sccs_result"]) == 2
    for name, table in without.tables.items():
        pd.testing.assert_frame_equal(found.tables[name], table)


def test_estimates_are_calibrated_by_the_controls(results):
    t = results.tables["sccs_result"].merge(
        results.tables["sccs_exposure"], on="exposures_outcome_set_id"
    )
    for _, rows in t.groupby("analysis_id"):
        known = rows[rows["true_effect_size"] == 1]
        asked = rows[rows["true_effect_size"].isna() & rows["rr"].notna()].iloc[0]
        # the six controls are off by about the same
        w = 1 / known["se_log_rr"] ** 2
        mean = float((w * known["log_rr"]).sum() / w.sum())
        assert mean > 0.1
        assert asked["calibrated_log_rr"] == pytest.approx(asked["log_rr"] - mean, abs=0.05)
        z = norm.ppf(0.975)
        upper = asked["calibrated_log_rr"] + z * asked["calibrated_se_log_rr"]
        assert math.log(asked["calibrated_ci_95_ub"]) == pytest.approx(upper)
    checks = results.tables["sccs_diagnostics_summary"]
    assert checks["ease"].notna().all()
    assert set(checks["ease_diagnostic"]) <= {"PASS", "FAIL"}


def test_estimates_that_fail_a_diagnostic_are_hidden(results):
    hidden, shown = results.estimates(), results.estimates(unblind=True)
    assert shown["rr"].notna().sum() == 2
    failed = shown["unblind"] == 0
    assert (
        hidden.loc[failed, ["rr", "calibrated_rr", "p", "covariate_outcomes"]].isna().all(axis=None)
    )
    assert hidden.loc[~failed, "rr"].equals(shown.loc[~failed, "rr"])


def test_that_no_outcome_fell_in_a_hidden_exposure_is_hidden_too(omop, tmp_path):
    for k in range(30):
        person = omop.person(observed=(0, 400), outcome=10 + k)
        omop.drug(person, TARGET, 200, 210)
    grid = CaseSeriesGrid(
        (SeriesQuestion(TARGET, OUTCOME),),
        (SeriesAnalysis(1, "the era", {"pre_exposure_days": 0, "end_of_observation_days": 0}),),
        thresholds=Thresholds(detectable=1),
    )
    results = run_case_series_grid(omop.write(), grid, tmp_path)
    assert "no event in it" in results.estimates(unblind=True)["note"].iloc[0]
    names = "time stability, rarity, detectable ratio"
    assert results.estimates()["note"].tolist() == [f"not shown: a diagnostic failed ({names})"]
    assert "no event in it" not in case_series_grid_page(results)


def test_an_interrupted_run_goes_on_and_ends_the_same(database, results, tmp_path):
    def stop(line):
        if "(5 of" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_case_series_grid(database, a_grid(), tmp_path, progress=stop)
    said = []
    again = run_case_series_grid(database, a_grid(), tmp_path, progress=said.append)
    assert "(1 of 12)" in said[0]
    for name, table in results.tables.items():
        assert table.equals(again.tables[name]), name
    archive = tmp_path / "release" / "results.zip"
    with zipfile.ZipFile(archive) as packed:
        assert "sccs_result.csv" in packed.namelist()
    assert archive.read_bytes() == (results.path.parent / "release" / "results.zip").read_bytes()
    assert case_series_grid_page(again) == case_series_grid_page(results)


@pytest.mark.slow
def test_a_resumed_run_makes_the_same_positive_controls(database, with_positives, tmp_path):
    """Positive controls are made again when a run is resumed, and must be the same ones."""

    def stop(line):
        if "(6 of" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_case_series_grid(database, with_positives.grid, tmp_path, progress=stop)
    run_case_series_grid(database, with_positives.grid, tmp_path)
    whole = with_positives.path.parent / "release"
    names = {"manifest.json", "results.zip"}
    assert names == {p.name for p in (tmp_path / "release").iterdir()}
    for name in names:
        assert (tmp_path / "release" / name).read_bytes() == (whole / name).read_bytes()


def test_results_of_another_grid_are_not_mixed_in(database, results):
    with pytest.raises(DataError, match="another specification"):
        run_case_series_grid(database, a_grid(database_id="another"), results.path.parent)


SPEC = """
database_id = "tiny"
controls = [61, 62]

[[question]]
exposure = 1
outcome = 3

[[analysis]]
id = 1
description = "the era"
pre_exposure_days = 0
end_of_observation_days = 0

[thresholds]
ease = 0.5
"""


def test_a_wrong_setting_of_an_analysis_is_refused_before_the_work(database, tmp_path):
    analysis = SeriesAnalysis(3, "x", {"naive_days": -5})
    grid = CaseSeriesGrid((SeriesQuestion(TARGET, OUTCOME),), (analysis,))
    with pytest.raises(DataError, match="naive_days"):
        run_case_series_grid(database, grid, tmp_path)


def test_the_command_runs_a_grid(database, tmp_path, capsys):
    path = tmp_path / "spec.toml"
    path.write_text(SPEC)
    arguments = ["sccs-grid", path, "--database", database, "--output", tmp_path / "o", "--unblind"]
    assert run([str(a) for a in arguments]) == 0
    out = capsys.readouterr().out
    assert "3 results" in out
    assert (tmp_path / "o" / "release" / "report.html").is_file()
    assert re.search(r"^ *Newdrug +Bleeding +1 \S", out, re.MULTILINE)


@pytest.fixture(scope="module")
def with_positives(database, tmp_path_factory):
    asked = SeriesPositives(ratios=(2.0, 4.0), min_outcomes=5)
    grid = a_grid(positive=asked)
    questions = [q for q in grid.questions if q.outcome in (OUTCOME, *CONTROLS[:2])]
    grid = dataclasses.replace(grid, questions=questions, analyses=grid.analyses[:1])
    return run_case_series_grid(database, grid, tmp_path_factory.mktemp("positive"))


def test_positive_controls_are_made_in_exposed_time(with_positives):
    t = with_positives.tables
    made = t["positive_control"]
    assert sorted(made["negative_control_id"]) == [61, 61, 62, 62]
    assert (made["outcomes_added"] > 0).all()
    counted = (made["outcomes_before"] + made["outcomes_added"]) / made["outcomes_before"]
    np.testing.assert_allclose(counted, made["true_effect_size"])
    assert "control 61, 2 times" in set(made["name"])
    result = t["sccs_result"].merge(t["sccs_exposures_outcome_set"], on="exposures_outcome_set_id")
    own = result.set_index("exposures_outcome_set_id")
    negative = result.set_index("outcome_id")["log_rr"]
    for row in made.itertuples():
        moved = own.at[row.exposures_outcome_set_id, "log_rr"] - negative[row.negative_control_id]
        assert abs(moved - math.log(row.true_effect_size)) < 0.35
    assert with_positives.estimates()["outcome_id"].tolist() == [OUTCOME]


def test_a_negative_control_without_positive_controls_is_reported(database, tmp_path):
    grid = a_grid(positive=SeriesPositives(min_outcomes=10_000))
    question = next(q for q in grid.questions if q.outcome == CONTROLS[0])
    grid = dataclasses.replace(grid, questions=(question,), analyses=grid.analyses[:1])
    lines = []
    run_case_series_grid(database, grid, tmp_path, progress=lines.append)
    told = f"no positive controls from {CONTROLS[0]}: fewer than 10000 outcomes in exposed time"
    assert told in lines


def test_people_with_two_rows_have_their_outcomes_once(database, tmp_path):
    twice = shutil.copy(database, tmp_path / "twice.duckdb")
    with duckdb.connect(str(twice)) as con:
        con.execute("INSERT INTO person FROM person")
    question, rule = SeriesQuestion(TARGET, CONTROLS[0], 1.0), SeriesPositives(min_outcomes=5)
    made = []
    for path in (database, twice):
        with OmopDatabase(path) as db:
            made.append(add_to_exposed_time(db, question, CaseRules(CONTROLS[0]), rule))
    (once, _), (repeated, _) = (found[0] for found in made)
    assert once == repeated


def test_controls_of_an_exposure_are_grouped_by_what_they_were_made_of(with_positives):
    found = series_controls(with_positives, TARGET)[1]
    assert sorted(found.target) == [1, 1, 2, 2, 4, 4]
    assert sorted(found.group) == [61] * 3 + [62] * 3


def test_the_page_is_whole_by_itself_and_blind_where_a_diagnostic_fails(results, with_positives):
    for page in (case_series_grid_page(results), case_series_grid_page(with_positives)):
        assert "<script" not in page
        assert "src=" not in page
        assert page.count('role="img"') == page.count("<svg")
        assert "Newdrug" in page
        assert "Bleeding" in page
    one = results.estimates(unblind=True).dropna(subset="rr").iloc[0]
    said = f"{one['rr']:.2f} ({one['ci_95_lb']:.2f} to {one['ci_95_ub']:.2f})"
    assert said in case_series_grid_page(results, unblind=True)
    checks = results.tables["sccs_diagnostics_summary"].assign(unblind=0)
    blind = dataclasses.replace(
        results, tables={**results.tables, "sccs_diagnostics_summary": checks}
    )
    assert said not in case_series_grid_page(blind)


def test_an_interrupted_grid_says_that_it_goes_on(database, tmp_path, monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("steropes.studies.grids.sccs_grid.prepare_series", stop)
    spec = tmp_path / "grid.toml"
    spec.write_text(
        f'database_id = "tiny"\n[[question]]\nexposure = {TARGET}\noutcome = {OUTCOME}\n'
        "[[analysis]]\nid = 1\n"
    )
    arguments = ["sccs-grid", spec, "--database", database, "--output", tmp_path / "out"]
    assert run([str(a) for a in arguments]) == 130
    assert "goes on from there" in capsys.readouterr().err


def test_the_days_after_an_era_and_each_concept_by_itself(database, tmp_path):
    with OmopDatabase(database) as db:
        by_hand = CaseSeriesSettings(
            CaseRules(OUTCOME),
            (ExposureWindow("exposure", (TARGET,), start=1, end=30, start_at="end",
                            of_interest=True, profile=True, by_concept=True),),
            end_of_observation_days=0,
        )  # fmt: skip
        expected = case_series(db, by_hand).estimates.iloc[0]
    after = {**FAST, "risk_start": 1, "risk_end": 30, "risk_start_at": "end", "by_concept": True}
    grid = CaseSeriesGrid((SeriesQuestion(TARGET, OUTCOME),), (SeriesAnalysis(1, "after", after),))
    found = run_case_series_grid(database, grid, tmp_path).tables["sccs_result"]
    assert found["rr"].tolist() == pytest.approx([expected["rr"]])
    assert "after" in case_series_grid_page(run_case_series_grid(database, grid, tmp_path))
