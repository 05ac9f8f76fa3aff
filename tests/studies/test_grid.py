"""Grids: specifications and their errors, runs that are interrupted, result tables, the page."""

import dataclasses
import hashlib
import html.parser
import json
import math
import os
import signal
import subprocess
import sys
import tomllib
import zipfile

import joblib
import numpy as np
import pandas as pd
import pytest
from tests.studies.test_features import made

from steropes.errors import DataError
from steropes.studies import (
    ComparisonRules,
    ConceptSet,
    ControlSet,
    OmopDatabase,
    Outcome,
    OutcomeModel,
    Question,
    StudyAnalysis,
    covariate_balance,
)
from steropes.studies.cli import run as command
from steropes.studies.concepts import find_concepts
from steropes.studies.controls import ErrorModel
from steropes.studies.grid import answer
from steropes.studies.grid.blinding import blinded
from steropes.studies.grid.calibrating import _fill
from steropes.studies.grid.report import grid_page, write_grid_report
from steropes.studies.grid.run import run_grid
from steropes.studies.grid.shared_tables import balance_rows, told_worst
from steropes.studies.grid.spec import GridSpec, grid_schema, read_spec
from steropes.studies.grid.store import ResultStore
from steropes.studies.grid.tables import KEYS, TABLES

SPEC = """
database_id = "tiny"
[cohorts.drugs]
11 = { include = [1] }
12 = { include = [2] }
[cohorts.conditions]
13 = { include = [3] }
14 = { include = [4] }
[controls]
concepts = [5, 6, 7, 8, 9]

[thresholds]
balance = 0.5

[[question]]
target = 11
comparator = 12
outcomes = [13, 14]
exclude = [1, 2]

[[analysis]]
id = 1
description = "crude"
propensity = false
features = false
[analysis.at_risk]
end = 500
end_anchor = "cohort start"

[[analysis]]
id = 2
description = "weighted"
truncate = 10
[analysis.at_risk]
end = 500
end_anchor = "cohort start"
[analysis.features]
analyses = [1, 3, 6]
[analysis.propensity]
variance = 0.1
[analysis.outcome_model]
weighted = true
"""


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    """400 people, two drugs, an outcome (3), one that nobody has (4), and controls (5 to 9)."""
    from tests.studies.conftest import TinyOmop

    omop, rng = TinyOmop(tmp_path_factory.mktemp("omop")), np.random.default_rng(1)
    for concept in range(4, 10):
        omop.concept(concept, f"condition {concept}")
    for _ in range(400):
        born, sex = int(rng.integers(1930, 1990)), int(rng.choice([8507, 8532]))
        drug = "target" if rng.random() < 0.3 + 0.4 * (born < 1960) else "comparator"
        person = omop.person(**{drug: int(rng.integers(0, 100))}, born=born, sex=sex)
        for concept in (3, 5, 6, 7, 8, 9):
            if rng.random() < 0.25:
                omop.condition(person, concept, int(rng.integers(101, 600)))
    return omop.write()


@pytest.fixture(scope="module")
def spec(tmp_path_factory):
    path = tmp_path_factory.mktemp("spec") / "grid.toml"
    path.write_text(SPEC)
    return read_spec(path)


@pytest.fixture(scope="module")
def results(database, spec, tmp_path_factory):
    return run_grid(database, spec, tmp_path_factory.mktemp("results"))


def checksum(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("old", "new", "at", "message"),
    [
        ("target = 11", "target = 11\ncolour = 2", "colour", "there is no setting 'colour'"),
        ("target = 11", "target = 'x'", "target", "must be a whole number, not 'x'"),
        ("end = 500\n", "end = 1.5\n", "end = 1.5", "must be a whole number, not 1.5"),
        ('"cohort start"', '"start"', 'end_anchor = "start"', "must be one of 'cohort start'"),
        ("variance = 0.1", "variance = -1", "[analysis.propensity]", "variance must be a finite"),
        ("comparator = 12", "comparator = 11", "[[question]]", "the same cohort, 11"),
        ("comparator = 12\n", "", "[[question]]", "comparator is missing"),
        ("include = [2]", "include = []", "12 = { include = []", "must include a concept"),
        ('description = "crude"', 'preset = "x"', 'preset = "x"', "there is no preset 'x'"),
    ],
)
def test_errors_name_the_line(tmp_path, old, new, at, message):
    path = tmp_path / "grid.toml"
    text = SPEC.replace(old, new, 1)
    path.write_text(text)
    line = text[: text.index(at)].count("\n") + 1
    with pytest.raises(DataError, match=message) as caught:
        read_spec(path)
    assert f"grid.toml, line {line} " in str(caught.value)


def test_errors_in_json_name_the_line(tmp_path):
    path = tmp_path / "grid.json"
    text = json.dumps(tomllib.loads(SPEC), indent=2, default=str)
    path.write_text(text)
    assert read_spec(path) == read_spec(tomllib.loads(SPEC))
    wrong = text.replace('"end": 500', '"end": [["}, {", 1.5], {"a": "\\"]"}]', 1)
    path.write_text(wrong)
    line = wrong[: wrong.index('"end": [')].count("\n") + 1
    with pytest.raises(DataError, match=rf"grid.json, line {line} \(.*\.end\): must be a whole"):
        read_spec(path)


def test_a_missing_definition_file_names_the_line_that_names_it(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(SPEC + "[cohorts.definitions]\n31 = 'none.json'\n")
    line = path.read_text().count("\n")
    with pytest.raises(DataError, match=rf"grid.toml, line {line} .*cannot read .*none\.json"):
        read_spec(path)


def test_what_is_no_toml_or_no_file_is_refused(tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(SPEC.replace("[[question]]", "[[question", 1))
    with pytest.raises(DataError, match=r"grid.toml: .*line \d+"):
        read_spec(path)
    with pytest.raises(DataError, match=r"is a .toml or a .json file"):
        read_spec(tmp_path / "grid.yaml")
    with pytest.raises(DataError, match="No such file"):
        read_spec(tmp_path / "none.toml")
    path.write_text(SPEC.replace("id = 2", "id = 1", 1))
    with pytest.raises(DataError, match="two analyses have the id 1"):
        read_spec(path)


def test_a_file_is_read_with_a_mark_before_it_and_refused_in_another_encoding(spec, tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(SPEC, encoding="utf-8-sig")
    assert read_spec(path) == spec
    path.write_bytes(b"schema = 'main'\ndatabase_id = 'caf\xe9'\n")
    with pytest.raises(DataError, match=r"grid.toml, line 2: not UTF-8"):
        read_spec(path)
    deep = tmp_path / "grid.json"
    deep.write_text("[" * 100_000)
    with pytest.raises(DataError, match=r"grid.json: lists are nested too deeply"):
        read_spec(deep)


def test_json_and_toml_and_objects_are_one_specification(spec, tmp_path):
    path = tmp_path / "grid.json"
    path.write_text(spec.to_json())
    assert read_spec(path) == spec
    assert read_spec(json.loads(spec.to_json())) == spec
    assert spec.analysis[0].propensity is None
    assert [o.true_ratio for o in spec.questions[0].outcomes] == [None] * 2 + [1.0] * 5


def test_the_schema_knows_every_setting():
    schema = grid_schema()
    assert set(schema["properties"]) == set(GridSpec.__dataclass_fields__)
    assert schema["$defs"]["TimeAtRisk"]["properties"]["end"] == {"type": "integer"}
    assert schema["$defs"]["Question"]["required"] == ["target", "comparator", "outcomes"]
    json.dumps(schema)


def test_every_result_is_there_and_calibrated(results):
    found = results.tables["cm_result"]
    assert len(found) == 7 * 2
    of = found[found["outcome_id"] == 13].set_index("analysis_id")
    assert of["rr"].notna().all()
    assert of["calibrated_rr"].notna().all()
    assert of["target_estimator"].tolist() == ["ate", "att"]
    nothing = results.tables["note"].query("outcome_id == 14")
    why = "(there are no entries of the outcome, cohort 14)"
    assert nothing["note"].tolist() == [f"nobody had the outcome during the time at risk {why}"] * 2
    checks = results.tables["cm_diagnostics_summary"]
    assert checks["ease"].notna().all()
    assert checks.loc[checks["outcome_id"] == 14, "mdrr_diagnostic"].tolist() == ["FAIL"] * 2


def test_tables_have_their_columns_and_keys(results):
    for name, table in results.tables.items():
        assert list(table.columns) == list(TABLES[name])
        assert not table.duplicated(list(KEYS[name])).any(), name
    assert len(results.tables["cm_covariate_balance"]) > 0


def test_families_scores_after_and_absolute_effects_are_told(results):
    t = results.tables
    families = t["covariate_family"]
    assert families["covariates"].sum() == len(t["cm_shared_covariate_balance"])
    largest = t["cm_shared_covariate_balance"]["std_diff_after"].abs().max()
    assert families["largest_after"].max() == pytest.approx(largest, abs=6e-4)
    before, after = (
        t[name][["target_density", "comparator_density"]].min(axis=1).sum()
        for name in ("cm_preference_score_dist", "preference_score_after")
    )
    assert after > before
    effects = t["absolute_effect"].query("outcome_id == 13").set_index("analysis_id")
    assert effects.index.tolist() == [1, 2]
    of = t["cm_result"].query("outcome_id == 13 and analysis_id == 1").iloc[0]
    assert effects.loc[1, "target_risk"] >= of["target_outcomes"] / of["target_subjects"] - 0.01
    notes = t["note"].query("outcome_id == 13").set_index("analysis_id")
    assert notes["precision_diagnostic"].tolist() == ["PASS", "PASS"]
    assert notes.loc[2, "target_lost"] == notes.loc[2, "comparator_lost"] == 0
    assert (notes["e_value_limit"] <= notes["e_value"]).all()


def test_a_calibrated_limit_without_end_is_infinite_and_not_missing():
    columns = [c for c in TABLES["cm_result"] if c.startswith("calibrated_")]
    table = pd.DataFrame({"log_rr": [1.0, np.nan], "se_log_rr": [0.1, np.nan]})
    table[columns] = np.nan
    _fill(table, table.index, ErrorModel(0.0, 0.5, 0.05, 0.6, 20))  # spread outgrows the mean
    assert table.loc[0, "calibrated_ci_95_lb"] > 1
    assert table.loc[0, "calibrated_ci_95_ub"] == math.inf
    assert table.loc[1, columns].isna().all()
    _fill(table, table.index[:1], ErrorModel(0.0, -0.2, 0.1, 0.0, 20))  # estimates say nothing
    assert table.loc[0, ["calibrated_ci_95_lb", "calibrated_ci_95_ub"]].tolist() == [0, math.inf]
    assert math.isnan(table.loc[0, "calibrated_rr"])


def test_means_of_covariates_tell_no_few_people_before_or_after_matching():
    rng = np.random.default_rng(3)
    treated = np.repeat([1, 0], (600, 200))
    x = {1000 * k + 210: rng.random(800) < k / 400 for k in range(1, 25)}
    kept = np.arange(800) >= 400  # 200 of each arm
    balance = covariate_balance(made(x, 800), treated, kept.astype(float))
    rows = pd.DataFrame(balance_rows(balance, {}, 5)).set_index("covariate_id")
    exact = {
        (arm, when): pd.Series({i: v[(treated == a) & people].sum() for i, v in x.items()})
        for arm, a in (("target", 1), ("comparator", 0))
        for when, people in (("before", kept | True), ("after", kept))
    }
    sizes = {("target", "before"): 600}
    for (arm, when), n in exact.items():
        mean, size = rows[f"{arm}_mean_{when}"], sizes.get((arm, when), 200)
        few = (n > 0) & (n < 5)
        assert few.any()
        assert (mean[few.index[few]] == round(-5 / size, 3)).all(), (arm, when)
        assert np.allclose(mean[n.index[~few]], n[~few] / size, atol=5.01e-4)
    for when in ("before", "after"):
        arms = exact["target", when], exact["comparator", when]
        mean, total = rows[f"mean_{when}"], arms[0] + arms[1]
        hidden = total.index[(arms[0].between(1, 4)) | arms[1].between(1, 4)]
        assert (mean[hidden] < 0).all()  # else the few would follow
        true = total / (800 if when == "before" else 400)
        assert (true[hidden] < -mean[hidden] + 5.01e-4).all()


def roots(other: float, difference: float) -> np.ndarray:
    """Shares of an arm whose standardised difference to the share ``other`` is this, or minus it.

    (p - q)^2 = d^2 (p (1 - p) + q (1 - q)) / 2, solved for p.
    """
    half = difference**2 / 2
    return np.roots([1 + half, -2 * other - half, other**2 - half * other * (1 - other)]).real


def test_no_few_people_follow_from_a_standardised_difference_and_the_other_mean():
    rng = np.random.default_rng(3)
    treated = np.repeat([1, 0], (600, 200))
    x = {1000 * k + 210: rng.random(800) < k / 400 for k in range(1, 25)}
    kept = np.arange(800) >= 400  # 200 of each arm
    balance = covariate_balance(made(x, 800), treated, kept.astype(float))
    hidden = {1: set(), 0: set()}
    told = pd.DataFrame(balance_rows(balance, {}, 5)).set_index("covariate_id")
    everything = pd.DataFrame(balance_rows(balance, {}, 0)).set_index("covariate_id")
    for when, people, sizes in (("before", kept | True, (200, 600)), ("after", kept, (200, 200))):
        for i, v in x.items():
            counts = [int((v[(treated == a) & people]).sum()) for a in (0, 1)]
            few = [0 < n < 5 for n in counts]
            for arm in (0, 1):
                if few[arm]:
                    hidden[arm].add(i)
            if few[0] and not few[1]:  # what could be had if the difference were told
                found = roots(counts[1] / sizes[1], everything.loc[i, f"std_diff_{when}"])
                assert counts[0] in np.round(found * sizes[0])
            for name in (f"std_diff_{when}", f"std_diff_var_{when}"):
                assert np.isnan(told.loc[i, name]) == any(few)
    assert set(told.index[told["target_std_diff"].isna()]) == hidden[1] != set()
    assert set(told.index[told["comparator_std_diff"].isna()]) == hidden[0] != set()
    assert hidden[0] | hidden[1] <= set(told.index[told["target_comparator_std_diff"].isna()])
    assert not everything.isna().any(axis=None)


def test_the_most_unequal_covariate_is_not_named_where_its_people_are_few():
    treated = np.repeat([1, 0], 100)
    x = {1210: np.isin(np.arange(200), (0, 1, 2)), 2210: np.arange(200) % 2 == 0}
    balance = covariate_balance(made(x, 200), treated, np.ones(200))
    rare, _ = balance.worst()
    common = next(n for n in balance.table["name"] if n != rare)
    assert told_worst(balance, rare, 5) == ""
    assert told_worst(balance, rare, 0) == rare
    assert told_worst(balance, common, 5) == common


def test_the_page_judges_balance_by_all_covariates_also_those_not_told(database, spec, tmp_path):
    found = run_grid(database, dataclasses.replace(spec, min_cell=80), tmp_path)
    balance = found.tables["cm_shared_covariate_balance"]
    hidden = balance["std_diff_after"].isna()
    assert 0 < hidden.sum() < len(balance)
    page = grid_page(found)
    for analysis, of in balance.groupby("analysis_id"):
        over = int((of["balanced_after"] == 0).sum())
        assert f"{over:,} of {len(of):,} covariates differ by more than" in page, analysis
    assert "covariates of which no arm has few people; dashed" in page


def test_few_outcomes_do_not_follow_from_the_detectable_ratio(database, spec, results, tmp_path):
    found = run_grid(database, dataclasses.replace(spec, min_cell=80), tmp_path).tables
    key = ["outcome_id", "analysis_id"]
    few = (found["cm_result"][["target_outcomes", "comparator_outcomes"]] == -80).any(axis=1)
    checks = found["cm_result"][key].assign(few=few).merge(found["cm_diagnostics_summary"], on=key)
    known = checks[key].merge(results.tables["cm_diagnostics_summary"], on=key)
    none = known["mdrr"].isna()
    assert few.any()
    assert not few.all()
    assert (checks["mdrr"].isna() == (checks["few"] | none)).all()
    assert (known.loc[checks["few"], "mdrr_diagnostic"] == "PASS").any()
    for verdict in ("mdrr_diagnostic", "unblind"):  # of all outcomes, as they are
        assert (checks[verdict] == known[verdict]).all()


def test_small_cells_are_not_written(database, spec, tmp_path):
    found = run_grid(database, dataclasses.replace(spec, min_cell=80), tmp_path).tables
    counts = found["cm_result"][["target_outcomes", "comparator_outcomes"]].to_numpy()
    assert (counts == -80).any()
    few = found["cm_result"][(counts == -80).any(axis=1)][["outcome_id", "analysis_id"]]
    assert found["cm_kaplan_meier_dist"].merge(few).empty
    assert not ((counts > 0) & (counts < 80)).any()
    assert not found["cm_attrition"]["subjects"].between(1, 79).any()
    means = found["cm_shared_covariate_balance"]["target_mean_before"]
    assert (means < 0).any()


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
    archive = results.path.with_suffix(".zip")
    assert checksum(tmp_path / "results.zip") == checksum(archive)
    for name, table in results.tables.items():
        pd.testing.assert_frame_equal(again.tables[name], table)
    run_grid(database, spec, tmp_path)
    assert len(calls) == 13


def test_results_do_not_depend_on_how_many_outcomes_are_answered_at_once(
    database, spec, results, tmp_path
):
    with joblib.parallel_config(backend="threading"):
        run_grid(database, spec, tmp_path, jobs=3)
    archive = results.path.with_suffix(".zip")
    assert checksum(tmp_path / "results.zip") == checksum(archive)
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
    archive = results.path.with_suffix(".zip")
    assert checksum(tmp_path / "out" / "results.zip") == checksum(archive)


def test_results_of_something_else_are_not_added_to(database, spec, results, tmp_path):

    other = dataclasses.replace(spec, database_id="other")
    with pytest.raises(DataError, match="holds results of another specification"):
        run_grid(database, other, results.path.parent)
    (tmp_path / "results.duckdb").write_text("no")
    with pytest.raises(DataError, match="cannot open"):
        ResultStore(tmp_path / "results.duckdb", "x")


def test_one_bad_result_does_not_stop_the_others(database, spec, tmp_path):
    bad = StudyAnalysis(
        9, "interaction", propensity=None, outcome_model=OutcomeModel(interactions=(1,)),
        at_risk=spec.analysis[0].at_risk, features=spec.analysis[1].features,
    )  # fmt: skip
    many = dataclasses.replace(spec, analysis=(bad, spec.analysis[0]))
    found = run_grid(database, many, tmp_path).tables
    notes = found["note"].query("outcome_id == 13").set_index("analysis_id")["note"]
    assert "there is no covariate 1 among these people" in notes[9]
    assert notes[1] == ""


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
    assert "cohort 98 is not defined" in grid_page(found)
    with pytest.raises(DataError, match="cohort 15: concept 777 is unknown"):
        run_grid(database, dataclasses.replace(many, question=questions[1:2]), tmp_path / "no")


def all_failed(results):

    checks = results.tables["cm_diagnostics_summary"].assign(unblind=0)
    return dataclasses.replace(results, tables={**results.tables, "cm_diagnostics_summary": checks})


def test_outcomes_of_blinded_results_are_in_no_output(results, tmp_path):
    blind, columns = all_failed(results), ["target_outcomes", "comparator_outcomes"]
    assert blind.estimates()[columns].isna().all(axis=None)
    shown = blind.estimates(unblind=True).query("outcome_id == 13")
    assert shown[columns].notna().all(axis=None)
    assert results.estimates().query("outcome_id == 13")[columns].notna().all(axis=None)
    page = write_grid_report(blind, tmp_path).read_text()
    assert pd.read_csv(tmp_path / "tables" / "estimates.csv")[columns].isna().all(axis=None)
    assert not [*(tmp_path / "figures").glob("survival-*")]
    assert page.count(">not shown</td>") == 2 * 2 * 2  # outcomes x analyses x arms
    label = 'data-label="With the outcome">'
    for count in shown[columns].to_numpy().ravel():
        assert f"{label}{count}</td>" not in page
        assert f"{label}{count}</td>" in grid_page(blind, unblind=True)


def test_a_note_on_one_arm_of_a_blinded_result_tells_no_outcomes():
    rows = pd.DataFrame(
        {
            "rr": [2.0, math.nan, math.nan, math.nan],
            "target_subjects": [90] * 4,
            "comparator_subjects": [90] * 4,
            "target_outcomes": [7, 0, 0, 0],
            "comparator_outcomes": [9, 9, 9, 0],
            "note": ["", "nobody in the target arm", "nobody in the target arm", "nobody at all"],
            "unblind": [0, 0, 1, 0],
        }
    )
    found = blinded(rows)
    assert found["rr"].isna().all()
    assert found["target_outcomes"].isna().tolist() == [True, True, False, True]
    assert found["note"].tolist()[2:] == ["nobody in the target arm", "nobody at all"]
    assert "target" not in found["note"][1]
    assert rows["rr"][0] == 2.0


def test_blinded_results_are_neither_in_estimates_nor_on_the_page(results):
    blind = all_failed(results)
    hidden = blind.estimates()
    for column in ("rr", "ci_95_lb", "p", "log_rr", "llr", "calibrated_rr", "calibrated_p"):
        assert hidden[column].isna().all()
    assert blind.estimates(unblind=True)["rr"].notna().any()
    page, open_page = grid_page(blind), grid_page(blind, unblind=True)
    one = results.tables["cm_result"].query("outcome_id == 13").iloc[0]
    said = f"{one.rr:.2f} ({one.ci_95_lb:.2f} to {one.ci_95_ub:.2f})"
    risk = results.tables["absolute_effect"].query("outcome_id == 13").iloc[0]
    risk = f"{100 * risk.risk_difference:.2f} (".replace("-", "−")
    assert said in open_page
    assert said not in page
    assert risk in open_page
    assert risk not in page
    assert "Survival curves" not in page


class Checker(html.parser.HTMLParser):
    """Counts what is open, and what would load something."""

    def __init__(self):
        super().__init__()
        self.open, self.loads, self.labels = [], [], 0

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag != "meta":
            self.open.append(tag)
        self.loads += [v for k, v in attributes if k in ("src", "href")]
        self.labels += tag == "svg" and bool(values.get("aria-label"))

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()


def test_the_page_is_whole_by_itself_and_says_what_its_pictures_show(results, tmp_path):
    path = write_grid_report(results, tmp_path)
    text = path.read_text()
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert checker.loads == []
    assert "<script" not in text
    assert checker.labels == text.count("<svg") >= 4
    assert "prefers-color-scheme: dark" in text
    assert "Newdrug against Olddrug" in text
    figures = sorted(f.stem for f in (tmp_path / "figures").iterdir())
    kinds = {f.split("-")[0] for f in figures}
    assert kinds == {"attrition", "balance", "controls", "forest", "love", "scores", "survival"}
    characteristics = pd.read_csv(next((tmp_path / "tables").glob("characteristics-*")))
    assert {"Age group", "Gender"} <= {*characteristics["section"]}
    assert pd.read_csv(tmp_path / "tables" / "estimates.csv")["rr"].notna().any()


def test_several_times_at_risk_are_analyses_of_their_own(database, spec, tmp_path):
    path = tmp_path / "grid.toml"
    text = (
        SPEC.replace('end = 500\nend_anchor = "cohort start"', "", 2)
        + """
[[window]]
id = 1
description = "a year"
at_risk = { end = 365, end_anchor = "cohort start" }
[[window]]
id = 2
description = "longer"
analyses = [1]
[window.at_risk]
end = 500
end_anchor = "cohort start"
"""
    )
    path.write_text(text)
    both = read_spec(path)
    assert [a.id for a in both.analyses] == [101, 102, 201]
    assert [a.description for a in both.analyses] == ["crude, a year", "crude, longer",
                                                      "weighted, a year"]  # fmt: skip
    assert both.analyses[1].at_risk == spec.analysis[0].at_risk
    found = run_grid(database, both, tmp_path).tables["cm_result"].query("outcome_id == 13")
    events = found.set_index("analysis_id")["target_outcomes"]
    assert events[102] > events[101] == events[201]
    for wrong, message in (
        ("analyses = [7]", "there is no analysis 7"),
        ("id = 1\ndescription", "two windows have the id 1"),
    ):
        old = "analyses = [1]" if "7" in wrong else 'id = 2\ndescription = "longer"'
        path.write_text(text.replace(old, wrong if "7" in wrong else 'id = 1\ndescription = "b"'))
        with pytest.raises(DataError, match=message):
            read_spec(path)
    path.write_text(SPEC + "[[window]]\nid = 1\n")
    with pytest.raises(DataError, match="analysis 1 has a time at risk of its own beside window 1"):
        read_spec(path)


def test_concepts_are_found_by_words_and_number(database):
    with OmopDatabase(database) as db:
        found = find_concepts(db, "COND 7")
        assert found["concept_id"].tolist() == [7]
        assert int(found["people"][0]) > 50
        assert find_concepts(db, "3")["name"].tolist() == ["bleeding"]
        assert find_concepts(db, "nothing like it").empty
        with pytest.raises(DataError, match="name a word"):
            find_concepts(db, " ")


def test_the_commands(database, tmp_path, capsys):
    path = tmp_path / "grid.toml"
    path.write_text(SPEC)
    folder = tmp_path / "out"
    assert (
        command(["grid", str(path), "--database", str(database), "--output", str(folder), "-q"])
        == 0
    )
    found = {f.name for f in folder.iterdir()}
    assert found == {"report.html", "results.duckdb", "results.zip", "figures", "tables"}
    assert command(["concepts", str(database), "bleed"]) == 0
    assert "bleeding" in capsys.readouterr().out
    other = tmp_path / "other.zip"
    with zipfile.ZipFile(folder / "results.zip") as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            target.writestr(name, source.read(name).replace(b"tiny", b"huge"))
    table = tmp_path / "combined.csv"
    assert (
        command(
            [
                "combine",
                str(folder / "results.zip"),
                str(other),
                "--unblind",
                "--output",
                str(table),
            ]
        )
        == 0
    )
    combined = pd.read_csv(table)
    assert set(combined["databases"]) <= {0, 2}
    assert command(["grid", "--schema"]) == 0
    assert '"GridSpec"' in capsys.readouterr().out
    assert command(["grid", str(path)]) == 2


def test_questions_and_analyses_that_cannot_be_are_refused():
    with pytest.raises(DataError, match="listed twice"):
        Question(1, 2, (Outcome(3), Outcome(3, 1.0)))
    with pytest.raises(DataError, match="analysis 1: a stratified outcome model needs matching"):
        StudyAnalysis(1, outcome_model=OutcomeModel(stratified=True))
    with pytest.raises(
        DataError, match="a Fine-Gray model and a competing outcome belong together"
    ):
        StudyAnalysis(1, outcome_model=OutcomeModel("fine-gray"))
    with pytest.raises(DataError, match="without a propensity model there is nothing"):
        StudyAnalysis(1, propensity=None, outcome_model=OutcomeModel(weighted=True))
