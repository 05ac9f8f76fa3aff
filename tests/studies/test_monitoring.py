"""Sequential monitoring of releases: estimates, calibration, hidden results, record, page."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from steropes import DataError
from steropes.designs.controls import fit_systematic_error
from steropes.designs.surveillance import estimate_bound
from steropes.studies import run_grid, synthetic_database
from steropes.studies.cli.commands import command_app
from steropes.studies.disclosure.disclosure_rules import rules_of_text
from steropes.studies.monitoring.monitoring_record import read_record
from steropes.studies.monitoring.released_estimates_by_look import monitor_releases

CONTROLS = range(100, 108)
OF_INTEREST, FAILING = 3, 4


def comparative_release(folder, look, *, effect=0.9, weighted=False, counts=None):
    """Write the tables of a release, as CohortMethod and grids do.

    ``counts`` are outcomes of both arms, of the outcome of interest and a control.
    """
    rng = np.random.default_rng(look)
    folder.mkdir()
    se = 0.6 / np.sqrt(look)
    outcomes = [OF_INTEREST, FAILING, *CONTROLS]
    key = {"target_comparator_id": 12, "analysis_id": 1, "database_id": "north"}
    estimates = [effect, 3.0, *rng.normal(0.1, 0.1, len(CONTROLS))]
    rows = [
        {**key, "outcome_id": o, "log_rr": b, "se_log_rr": se,
         "ci_95_lb": np.exp(b - 2 * se), "ci_95_ub": np.exp(b + 2 * se)}
        for o, b in zip(outcomes, estimates, strict=True)
    ]  # fmt: skip
    if counts is not None:
        for row in rows:
            own = counts if row["outcome_id"] in (OF_INTEREST, CONTROLS[0]) else (50, 60)
            row["target_outcomes"], row["comparator_outcomes"] = own
    checks = [{**key, "outcome_id": o, "unblind": int(o != FAILING),
               "unblind_for_evidence_synthesis": int(o != FAILING)} for o in outcomes]  # fmt: skip
    truth = [{"target_comparator_id": 12, "outcome_id": o, "outcome_of_interest": int(o < 100),
              "true_effect_size": 1.0 if o >= 100 else np.nan} for o in outcomes]  # fmt: skip
    grid = np.linspace(-4, 4, 161)
    profile = [
        {**key, "outcome_id": OF_INTEREST, "log_rr": x,
         "log_likelihood": -((x - effect) ** 2) / 2 / (0.8 * se) ** 2}
        for x in grid
    ]  # fmt: skip
    definition = json.dumps({"outcome_model": {"weighted": weighted, "interval": "profile"}})
    tables = {
        "cm_result": rows,
        "cm_diagnostics_summary": checks,
        "cm_target_comparator_outcome": truth,
        "cm_likelihood_profile": profile,
        "cm_target_comparator": [
            {"target_comparator_id": 12, "target_id": 1, "comparator_id": 2}
        ],
        "cm_analysis": [{"analysis_id": 1, "description": "matched", "definition": definition}],
        "cohort": [{"cohort_id": i, "name": n}
                   for i, n in ((1, "new drug"), (2, "old drug"), (OF_INTEREST, "bleeding"))],
    }  # fmt: skip
    for name, found in tables.items():
        pd.DataFrame(found).to_csv(folder / f"{name}.csv", index=False)
    return folder, rows, se


def test_estimates_are_tested_against_calibrated_bounds(tmp_path):
    looks = [comparative_release(tmp_path / f"look{k}", k) for k in (1, 2)]
    found = monitor_releases([folder for folder, _, _ in looks], planned=4)
    assert set(found["second_id"]) == {OF_INTEREST, FAILING}  # no controls
    own = found[found["second_id"] == OF_INTEREST].set_index("look")
    assert own["comparison"].iloc[0] == "New drug against Old drug"
    assert own["outcome"].iloc[0] == "Bleeding"
    # The likelihood of the profile, not the standard error of the row, gives the statistic.
    for k, (_, _, se) in enumerate(looks, 1):
        assert own.loc[k, "z"] == pytest.approx(0.9 / (0.8 * se), rel=1e-4)
    _, rows, se = looks[1]
    controls = [row["log_rr"] for row in rows if row["outcome_id"] >= 100]
    error = fit_systematic_error(controls, [se] * len(controls))
    assert own.loc[2, "error_mean"] == pytest.approx(error.mean)
    expected = estimate_bound(
        [1 / looks[0][2] ** 2, 1 / se**2], spending=[0.25, 0.5], systematic_error=error
    )
    assert own.loc[2, "bound"] == pytest.approx(expected["z"].iloc[1])
    # A result that fails a diagnostic is neither tested nor shown.
    failing = found[found["second_id"] == FAILING]
    assert failing[["log_rr", "z", "bound"]].isna().all(axis=None)
    assert set(failing["note"]) == {"fails a diagnostic"}
    shown = monitor_releases([folder for folder, _, _ in looks], planned=4, unblind=True)
    assert shown.loc[shown["second_id"] == FAILING, "signal"].all()


def test_weighted_analyses_are_tested_by_their_robust_errors(tmp_path):
    folder, _, se = comparative_release(tmp_path / "one", 1, weighted=True)
    found = monitor_releases([folder], planned=2)
    own = found[found["second_id"] == OF_INTEREST].iloc[0]
    assert own["z"] == pytest.approx(0.9 / se)


def test_profiles_that_end_before_the_maximum_are_not_tested(tmp_path):
    folder, _, _ = comparative_release(tmp_path / "one", 1)
    profile = pd.read_csv(folder / "cm_likelihood_profile.csv")
    profile[profile["log_rr"] < 0.5].to_csv(folder / "cm_likelihood_profile.csv", index=False)
    own = monitor_releases([folder], planned=2)
    row = own[own["second_id"] == OF_INTEREST].iloc[0]
    assert np.isnan(row["bound"])
    assert "ends before the maximum" in row["note"]


def test_few_outcomes_between_looks_do_not_follow(tmp_path):
    first = comparative_release(tmp_path / "first", 1, counts=(20, 31))[0]
    last = comparative_release(tmp_path / "last", 3, counts=(25, 31))[0]
    shown = []
    for few in (21, 24):  # The estimates of the hidden look depend on the number.
        hidden = comparative_release(tmp_path / f"{few}", 2, effect=few / 20, counts=(few, 40))[0]
        table = pd.read_csv(hidden / "cm_result.csv")
        table.loc[table["outcome_id"] == CONTROLS[0], "log_rr"] = few
        table.to_csv(hidden / "cm_result.csv", index=False)
        record = tmp_path / f"{few}.json"
        found = monitor_releases([first, hidden, last], planned=3, record=record)
        own = found[found["second_id"] == OF_INTEREST].set_index("look")
        assert own["log_rr"].isna().tolist() == [False, True, False]
        assert "too few outcomes" in own.loc[2, "note"]
        shown.append((found.to_csv(), [look["estimates"] for look in read_record(record).looks]))
    assert shown[0] == shown[1]
    for rules, untold in (("none", [False] * 3), ("opensafely", [False, True, True])):
        own = monitor_releases([first, hidden, last], planned=3, disclosure=rules)
        # Rounded counts that are equal may stand for a few more outcomes.
        assert own.loc[own["second_id"] == OF_INTEREST, "log_rr"].isna().tolist() == untold
    assert str(rules_of_text("opensafely, smallest count 10")) == "opensafely, smallest count 10"
    assert rules_of_text("not known") is None


def test_the_record_refuses_other_looks_and_other_plans(tmp_path):
    first = comparative_release(tmp_path / "look1", 1)[0]
    second = comparative_release(tmp_path / "look2", 2)[0]
    changed = comparative_release(tmp_path / "changed", 1, effect=0.4)[0]
    record = tmp_path / "record.json"
    monitor_releases([first], planned=3, record=record, by="Ada")
    before = record.read_text()
    monitor_releases([first, second], planned=3, record=record, by="Grace")
    looks = read_record(record).looks
    assert [look["by"] for look in looks] == ["Ada", "Grace"]
    assert list(looks)[:1] == json.loads(before)["looks"]
    for paths, planned, message in (
        ([changed, second], 3, "Look 1 has other estimates"),
        ([first], 3, "2 are recorded"),
        ([first, second], 5, "planned is 5"),
    ):
        with pytest.raises(DataError, match=message):
            monitor_releases(paths, planned=planned, record=record)
    record.write_text(record.read_text().replace("Ada", "Eve"))
    with pytest.raises(DataError, match="was changed after it was written"):
        monitor_releases([first, second], planned=3, record=record)


def test_the_command_writes_table_page_and_record(tmp_path):
    looks = [str(comparative_release(tmp_path / f"look{k}", k)[0]) for k in (1, 2, 3)]
    output = tmp_path / "out"
    arguments = ["monitor", *looks, "--planned", "4", "--output", str(output)]
    result = CliRunner().invoke(command_app(), arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "New drug against Old drug" in result.output
    page = (output / "monitoring.html").read_text("utf-8")
    assert "3 of 4 planned looks" in page
    assert "fails a diagnostic" in page
    assert "SHA-256 of the record" in page
    table = pd.read_csv(output / "monitoring.csv")
    assert len(table) == 6
    quiet = CliRunner().invoke(command_app(), [*arguments, "--quiet"], catch_exceptions=False)
    assert quiet.exit_code == 0
    signals = table.loc[table["signal"], "second_id"]
    assert ("Bleeding" in quiet.output) == bool(len(signals))


def test_a_plan_is_frozen_before_the_first_look(tmp_path):
    output = tmp_path / "out"
    frozen = ["monitor", "--planned", "3", "--freeze", "--by", "Ada", "--output", str(output)]
    result = CliRunner().invoke(command_app(), frozen, catch_exceptions=False)
    assert "frozen by Ada" in result.output
    assert read_record(output / "record.json").last_hash in result.output
    look = str(comparative_release(tmp_path / "look1", 1)[0])
    for arguments, message in (
        (frozen, "exists already"),
        ([*frozen, look], "leave the looks out"),
        (["monitor", "--output", str(output)], "name the released results"),
        (["monitor", look, "--planned", "4", "--output", str(output)], "began with 3"),
    ):
        refused = CliRunner().invoke(command_app(), arguments)
        assert isinstance(refused.exception, DataError)
        assert message in str(refused.exception)
    arguments = ["monitor", look, "--planned", "3", "--output", str(output)]
    assert CliRunner().invoke(command_app(), arguments, catch_exceptions=False).exit_code == 0
    assert "The plan was frozen at" in (output / "monitoring.html").read_text("utf-8")
    # Before the first look, too, nobody can change the plan.
    values = json.loads((output / "record.json").read_text())
    values |= {"plan": {**values["plan"], "planned": 9}, "looks": []}
    (output / "record.json").write_text(json.dumps(values))
    with pytest.raises(DataError, match="was changed after it was written"):
        monitor_releases([look], planned=9, record=output / "record.json")


def test_a_folder_of_releases_has_the_looks_in_the_order_of_their_names(tmp_path):
    folder = tmp_path / "study"
    folder.mkdir()
    given = {k: comparative_release(folder / f"look{k}", k)[0] for k in (10, 9, 2)}
    one_by_one = monitor_releases([given[k] for k in (2, 9, 10)], planned=4)
    pd.testing.assert_frame_equal(monitor_releases(folder, planned=4), one_by_one)
    arguments = ["monitor", str(folder), "--planned", "4", "--output", str(folder / "out")]
    for _ in range(2):  # The second time its own output lies beside the looks.
        result = CliRunner().invoke(command_app(), arguments, catch_exceptions=False)
        assert result.exit_code == 0
    pd.testing.assert_series_equal(
        pd.read_csv(folder / "out" / "monitoring.csv")["z"], one_by_one["z"].reset_index(drop=True)
    )
    # A look without a release is no gap that the others fill.
    (folder / "look11").mkdir()
    with pytest.raises(DataError, match=r"look11 has no released results"):
        monitor_releases(folder, planned=4)


@pytest.mark.sampled
@pytest.mark.parametrize("change", ["look", "order", "removed", "plan", "hash", "cut"])
def test_a_record_that_is_rewritten_is_refused(tmp_path, change):
    looks = [comparative_release(tmp_path / f"look{k}", k)[0] for k in (1, 2)]
    record = tmp_path / "record.json"
    monitor_releases(looks, planned=3, record=record, by="Ada")
    text = record.read_text()
    values = json.loads(text)
    if change == "look":
        values["looks"][0]["at"] = "2020-01-01T00:00:00Z"
    elif change == "order":
        values["looks"].reverse()
    elif change == "removed":
        del values["looks"][0]
    elif change == "plan":
        values["plan"]["alpha"] = 0.2
    elif change == "hash":
        values["looks"][1]["hash"] = values["looks"][0]["hash"]
    record.write_text(text[:-9] if change == "cut" else json.dumps(values))
    with pytest.raises(DataError, match=r"was changed after it was written|is not a record"):
        monitor_releases(looks, planned=3, record=record)


def test_more_looks_than_planned_and_several_databases_are_refused(tmp_path):
    one = comparative_release(tmp_path / "one", 1)[0]
    two = comparative_release(tmp_path / "two", 2)[0]
    with pytest.raises(DataError, match="2 looks are given, but 1 are planned"):
        monitor_releases([one, two], planned=1)
    results = pd.read_csv(one / "cm_result.csv")
    both = pd.concat([results, results.assign(database_id="south")])
    both.to_csv(one / "cm_result.csv", index=False)
    with pytest.raises(DataError, match="1 releases and 2 databases"):
        monitor_releases([one], planned=1)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no released results"):
        monitor_releases([tmp_path / "empty"], planned=1)


def test_releases_of_grids_are_read(tmp_path):
    from steropes.studies import GridSpec
    from steropes.studies.cohorts import CohortSources, ConceptSet
    from steropes.studies.comparative import Question, StudyAnalysis

    sources = CohortSources(table="cohort", conditions={3: ConceptSet((192671,))})
    crude = StudyAnalysis(1, features=None, propensity=None, unadjusted=True)
    spec = GridSpec(sources, (Question(1, 2, (3,)),), (crude,))
    folders = []
    for look, people in ((1, 400), (2, 800)):
        folders.append(tmp_path / f"look{look}")
        run_grid(synthetic_database(people, 1), spec, folders[-1])
    found = monitor_releases(folders, planned=2, unblind=True)
    assert found["look"].tolist() == [1, 2]
    assert found["note"].iloc[0] in ("", "no estimate")
    assert np.isfinite(found["z"].iloc[-1])


def test_posterior_probabilities_are_corrected_and_shown(tmp_path):
    looks = [str(comparative_release(tmp_path / f"look{k}", k)[0]) for k in (1, 2)]
    output = tmp_path / "out"
    arguments = ["monitor", *looks, "--posterior", "0.9", "--output", str(output)]
    result = CliRunner().invoke(command_app(), arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert "ratio; probability" in " ".join(result.output.split())
    table = pd.read_csv(output / "monitoring.csv")
    own = table[table["second_id"] == OF_INTEREST]
    assert own["error_mean"].notna().all()
    assert own["signal"].tolist() == (own["probability"] >= 0.9).cummax().tolist()
    assert (own["corrected"] < own["log_rr"]).all()
    page = (output / "monitoring.html").read_text("utf-8")
    assert "of at least 90 %" in page
    assert "planned looks" not in page
    failing = table[table["second_id"] == FAILING]
    assert set(failing["note"]) == {"fails a diagnostic"}
    assert failing["corrected"].isna().all()
    # The record keeps the method.
    with pytest.raises(DataError, match="began with None"):
        monitor_releases(looks, planned=4, record=output / "record.json")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"posterior": 0.95, "planned": 3}, "planned belongs to bounds"),
        ({"posterior": 0.95, "alpha": 0.05}, "alpha belongs to bounds"),
        ({"planned": 3, "robust": True}, "robust belongs to posterior"),
        ({}, "planned, the number of planned looks, is missing"),
        ({"posterior": 1.2}, "threshold must be"),
        ({"planned": 3, "alpha": 2.0}, "alpha must be between 0 and 1"),
        ({"planned": 3, "power": 0.0}, "power must be positive"),
    ],
)
def test_options_of_the_other_method_are_refused(tmp_path, options, message):
    folder = comparative_release(tmp_path / "one", 1)[0]
    with pytest.raises(DataError, match=message):
        monitor_releases([folder], **options)
