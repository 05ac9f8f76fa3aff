"""Risks by days of a study of one question, doubly robust, and their release."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import TinyOmop

from steropes.designs.effects.absolute_effects import events_by_day
from steropes.designs.effects.outcome_summaries import detectable_ratio_of_counts
from steropes.errors import DataError
from steropes.studies import StudySettings, comparative_study
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.release.grid_release import release_grid
from steropes.studies.release.one_question_release import ORDER
from steropes.studies.single_studies.study_terminal import print_study
from steropes.studies.specifications.one_question_specification import MAIN

KINDS = dict.fromkeys(ORDER, "cox") | {101: "aipw"}
ASKED = {"risk_days": 60, "folds": 3, "tie_orders": 0, "min_people": 5, "unblind": True}


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """Both drugs with an outcome on known days: few in the first week, and few after day 30."""
    omop, rng = TinyOmop(tmp_path_factory.mktemp("omop")), np.random.default_rng(1)
    omop.concept(70, "thing")
    for k in range(240):
        arm = ("target", "comparator")[k % 2]
        person = omop.person(**{arm: 0}, sex=int(rng.choice([8507, 8532])))
        if rng.random() < 0.3 + 0.3 * (k % 2):
            omop.condition(person, 70, -5)
        if k < 60:
            day = 3 if k < 4 else 50 if k > 55 else int(rng.integers(8, 30))
            omop.condition(person, 3, day)
    settings = StudySettings(1, 2, 3, risk_times=(7, 30, 60), selected_confounders=1, **ASKED)
    return comparative_study(omop.write(), settings)


def test_risks_are_those_of_everybody_by_each_day(study):
    exact = study.exact["absolute_effect"].set_index("analysis_id").loc[[102, 103]]
    assert exact["horizon_day"].tolist() == [30, 60]
    assert exact["target_events"].tolist() == [28, 30]
    # Scores are almost constant, and nobody is censored.
    np.testing.assert_allclose(exact["target_risk"], exact["target_events"] / 120, rtol=0.1)
    ratio = study.exact["cm_result"].set_index("analysis_id").loc[[102, 103], "rr"]
    same = exact["target_risk"] / exact["comparator_risk"]
    np.testing.assert_allclose(ratio, same, rtol=1e-6)


def test_risks_of_few_outcomes_are_withheld_and_those_before_few_are_rounded(study, tmp_path):
    first, month, whole = study.release.risks
    assert np.isnan(first["target_risk"])
    assert np.isnan(first["risk_ratio"])
    assert "not released" in first["note"]
    exact = study.exact["absolute_effect"].set_index("analysis_id")
    # Two outcomes of each arm follow day 30, and the total is released.
    assert month["target_risk"] != pytest.approx(exact.loc[102, "target_risk"], rel=5e-3)
    assert month["risk_difference"] == pytest.approx(
        month["target_risk"] - month["comparator_risk"], abs=1e-12
    )
    assert whole["target_risk"] == pytest.approx(exact.loc[103, "target_risk"], rel=5e-3)
    assert whole["lower"] < whole["risk_ratio"] < whole["upper"]
    study.write(tmp_path)
    numbers = json.loads((tmp_path / "release" / "study.json").read_text())
    assert [line["day"] for line in numbers["risks"]] == [7, 30, 60]
    table = pd.read_csv(tmp_path / "release" / "tables" / "risks.csv")
    assert table["risk_ratio"].isna().tolist() == [True, False, False]
    assert "doubly robust (TMLE)" in (tmp_path / "release" / "report.html").read_text()


def test_selected_confounders_have_an_adjustment_of_their_own(study):
    line = study.release.adjustments[-1]
    assert line["analysis"] == "matched by selected covariates (hdPS)"
    assert line["lower"] < line["hr"] < line["upper"]
    # There is one code, so that both models have the same covariates.
    assert line["hr"] == pytest.approx(study.release.hazard_ratios[-1]["hr"], rel=0.05)


def test_the_terminal_shows_the_risks(study, capsys):
    print_study(study, [])
    printed = capsys.readouterr().out
    assert "Risk if everybody had started the drug" in printed
    assert "not released" in printed


def test_risks_of_other_analyses_tell_no_few_outcomes_after_their_day(study):
    exact = {name: table.copy() for name, table in study.exact.items()}
    table = exact["absolute_effect"]
    own = table["analysis_id"] == MAIN
    assert own.any()
    totals = exact["cm_result"].set_index("analysis_id").loc[MAIN, "target_outcomes"]
    table.loc[own, "target_events"] = totals - 1
    rounded = release_grid(exact, study.settings.thresholds, KINDS, DisclosureRules())
    shown = rounded["absolute_effect"].set_index("analysis_id")
    assert not {"target_events", "comparator_events"} & {*shown.columns}
    risk = table.set_index("analysis_id").loc[MAIN, "target_risk"]
    assert shown.loc[MAIN, "target_risk"] != risk
    table.loc[own, "target_events"] = 3
    few = release_grid(exact, study.settings.thresholds, KINDS, DisclosureRules())
    assert MAIN not in few["absolute_effect"]["analysis_id"].tolist()


def test_a_withheld_detectable_ratio_has_one_verdict_for_all_hidden_numbers(study):
    """Arms of 5 outcomes and of 1 or 4, whose exact ratios are 9.9 and 6.5, at a limit of 9."""
    limits, found = replace(study.settings.thresholds, detectable=9.0), []
    for few in (1, 4):
        exact = {name: table.copy() for name, table in study.exact.items()}
        rows = exact["cm_result"]["analysis_id"] == MAIN
        exact["cm_result"].loc[rows, ["target_outcomes", "comparator_outcomes"]] = 5, few
        checks = exact["cm_diagnostics_summary"]
        ratio = detectable_ratio_of_counts(5 + few, 240, 0.5, "cox")
        checks.loc[checks["analysis_id"] == MAIN, "mdrr"] = ratio
        table = release_grid(exact, limits, KINDS, DisclosureRules())
        checks = table["cm_diagnostics_summary"].set_index("analysis_id").loc[MAIN]
        assert np.isnan(checks["mdrr"])
        found.append((ratio < 9, checks["mdrr_diagnostic"], checks["unblind"]))
    assert found == [(False, "FAIL", 0), (True, "FAIL", 0)]


def test_outcomes_are_counted_by_arm_and_day():
    people = pd.DataFrame({"treated": [1, 1, 0, 0], "time": [3, 9, 3, 4], "event": [1, 1, 2, 1]})
    assert events_by_day(people, 4) == (1, 1)


def test_times_must_increase():
    with pytest.raises(DataError, match="risk_times must increase"):
        StudySettings(1, 2, 3, risk_times=(60, 30))
    with pytest.raises(DataError, match=r"risk_model='aipw' .* give risk_times"):
        StudySettings(1, 2, 3, risk_model="aipw")
