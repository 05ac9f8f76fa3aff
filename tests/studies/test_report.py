"""The page and the summary where a study is not as smooth as the demonstration."""

import dataclasses
import html
import json
import math
import os
import re

import pytest
from tests.studies.changed_tables import changed, with_ratio, without_estimate

from steropes.data.number_formatting import deciding_p
from steropes.errors import DataError
from steropes.studies import (
    DEMO,
    StudySettings,
    comparative_study,
    demo_database,
    synthetic_database,
)
from steropes.studies.diagnostics.diagnostic import Verdict
from steropes.studies.disclosure import DisclosureRules, site_rules
from steropes.studies.formatting.released_numbers import decimals, shown_value
from steropes.studies.release.one_question_release import publish
from steropes.studies.report.study_checks import checks
from steropes.studies.report.study_page_pictures import study_pictures
from steropes.studies.report.study_page_tables import found, risk_period
from steropes.studies.report.study_report import study_page
from steropes.studies.single_studies.study_terminal import print_study
from steropes.studies.specifications.one_question_specification import MAIN


@pytest.fixture(scope="module")
def study():
    return comparative_study(demo_database(), StudySettings(**DEMO, unblind=True))


@pytest.fixture
def rough(study):
    """No estimate within pairs, an infinite difference, names that look like markup."""
    study = without_estimate(study, "treatment: no finite maximum", [MAIN])
    balance = study.exact["cm_covariate_balance"].copy()
    balance.loc[balance["std_diff_before"].abs().idxmax(), "std_diff_after"] = math.inf
    checks = study.exact["cm_diagnostics_summary"].assign(max_sdm=math.inf)
    about = study.exact["database"].assign(name="[/] & <script>")
    changes = {"cm_covariate_balance": balance, "cm_diagnostics_summary": checks, "database": about}
    return dataclasses.replace(
        study,
        exact={**study.exact, **changes},
        names={"target": "<i>a&b", "comparator": "[bold]c", "outcome": "x" * 200},
    )


def test_names_are_text_and_not_markup(rough, capsys):
    page = study_page(rough.release)
    assert "&lt;i&gt;a&amp;b" in page
    assert "<i>" not in page
    assert "<script" not in page
    print_study(rough, [])
    assert "[bold]c" in capsys.readouterr().out


def test_a_missing_estimate_is_said_and_the_next_best_shown(rough, capsys):
    page = re.sub(r"base64,[^\"]*", "", study_page(rough.release))
    assert "treatment: no finite maximum" in page
    card = page[page.index('class="card main"') :][:60]
    assert decimals(rough.hazard_ratios.loc["matched", "hr"]) in card
    print_study(rough, [])
    assert "no finite maximum" in " ".join(capsys.readouterr().out.split())
    failed = [c.finding.split(":")[0] for c in checks(publish(rough)) if not c.passed]
    missing = "No estimate for matched people, within pairs"
    failed = [name for name in failed if not name.startswith("People are observed after")]
    assert failed == ["Unblinded", missing, "Estimand", "Balance", "Ties"]


def test_weights_the_test_of_hazards_and_e_values_say_how_they_are_made(study):
    page, numbers = study_page(study.release), study.to_dict()
    assert "Weights as the target and as everybody are stabilised" in page
    assert "time transformed to one minus the Kaplan–Meier curve" in page
    assert "15% of the matched people" in page
    assert numbers["proportional_hazards_transform"] == "km"
    assert numbers["weights"] == {"stabilized": ["att", "ate"], "largest": 10.0}
    assert numbers["e_value_form"] == "common outcome"  # 249 of 1,658


def test_the_e_value_of_a_common_outcome_is_of_the_risk_ratio_and_of_a_rare_one_of_hazards(study):
    rare = changed(study, "note", e_value_form="rare outcome")
    numbers = rare.to_dict()
    hr = numbers["hazard_ratios"][2]["hr"]
    ratio = max(hr, 1 / hr)
    risk = (1 - 0.5**ratio**0.5) / (1 - 0.5 ** (1 / ratio) ** 0.5)
    assert numbers["e_value"] == pytest.approx(ratio + (ratio * (ratio - 1)) ** 0.5)
    assert "fewer than 15% of the matched people had the outcome" in study_page(rare.release)
    common = study
    assert common.to_dict()["e_value"] == pytest.approx(risk + (risk * (risk - 1)) ** 0.5)
    assert common.to_dict()["e_value_form"] == "common outcome"
    assert "As 15% of the matched people or more had the outcome" in study_page(common.release)


def test_an_estimand_has_one_name(study):
    page, numbers = study_page(study.release), study.to_dict()
    codes = [line["estimand"] for line in numbers["hazard_ratios"]]
    assert codes == ["ate", "atm", "atm"]
    assert numbers["matching"]["estimand"] == "atm"
    assert "everybody in either arm (ATE), not adjusted" in page
    assert "the matched people (ATM)" in page
    assert "nobody: not adjusted" not in page


def test_numbers_that_json_lacks_become_none(rough):
    numbers = rough.to_dict()
    assert numbers["hazard_ratios"][2]["hr"] is None
    assert numbers["balance"]["largest_after"] is None


def test_an_interrupted_write_leaves_old_files_whole(study, tmp_path, monkeypatch):
    study.write(tmp_path)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*.*")}
    assert len(before) == 3 + 10 + 6  # page, numbers and manifest, tables, figures

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("os.fdopen", interrupt)
    with pytest.raises(KeyboardInterrupt):
        study.write(tmp_path)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*.*")} == before


def test_a_folder_in_the_way_is_refused(study, tmp_path):
    (tmp_path / "release" / "study.json").mkdir(parents=True)
    with pytest.raises(DataError, match="cannot write to the folder"):
        study.write(tmp_path)
    assert [p.name for p in (tmp_path / "release").iterdir()] == ["study.json"]


def test_words_for_one_score_and_for_a_p_value_that_stay_together(study):
    one = dataclasses.replace(study, ties=dataclasses.replace(study.ties, distinct=1))
    found = [c.finding for c in checks(publish(one))]
    assert any(f.startswith("Ties: there is only one score and ") for f in found)
    certain = with_ratio(study, 2.0, 1.6, 2.5)
    assert "p\N{NO-BREAK SPACE}&lt;\N{NO-BREAK SPACE}0.001" in study_page(certain.release)


def test_words_for_numbers():
    assert [deciding_p(p) for p in (0.0001, 0.0123, 0.5, math.nan)] == [
        "< 0.001",
        "0.012",
        "0.50",
        "–",
    ]
    assert [decimals(x) for x in (-1.234, math.inf, math.nan)] == ["−1.23", "∞", "–"]
    assert "no longer than 1,000 days" in risk_period(StudySettings(1, 2, 3, risk_days=1000))


def test_a_caliper_of_zero_matches_equal_scores_only():
    study = comparative_study(demo_database(), StudySettings(**DEMO, caliper=0.0))
    assert 0 < study.pairs < 830
    assert study.matched.groupby("set")["score"].nunique().eq(1).all()


def groups(omop, **outcomes):
    """Sixty people, half of whom have a condition; an outcome for the first few of each arm."""
    for i in range(60):
        arm = ("target", "comparator")[i % 2]
        event = i // 2 < outcomes.get(arm, 12)
        person = omop.person(**{arm: 0}, outcome=5 + i if event else None)
        if i % 4 < 2:
            omop.condition(person, 70, -5)
    return omop


def visible(study):
    return study_page(study.release)


def failed(study):
    return [c.finding for c in checks(publish(study)) if not c.passed]


def test_without_a_pair_there_is_a_report_and_the_reason(omop, tmp_path, capsys):
    for i in range(60):
        arm = ("target", "comparator")[i % 2]
        person = omop.person(**{arm: 0}, outcome=5 + i)
        for k in range(3):  # one of three in the target arm, two in the other: no score in common
            if (i // 2 % 3 == k) == (arm == "target"):
                omop.condition(person, 70 + k, -5)
    study = comparative_study(omop.write(), StudySettings(1, 2, 3, caliper=0.0))
    assert study.pairs == 0
    assert any("no pair lies within the caliper of 0 standard" in line for line in failed(study))
    study.write(tmp_path)
    page = visible(study)
    assert "<b>No estimate</b>" in page
    assert "no pair lies within the caliper" in page
    assert "Preference score" in page  # the overlap, which says why
    assert page.count("<svg") == 2 * 2  # attrition, overlap
    assert "Matched on propensity score" in page
    print_study(study, [])
    assert "no estimate" in capsys.readouterr().out
    assert study.to_dict()["matching"]["pairs"] == 0
    assert "no estimate" in repr(study)


@pytest.mark.parametrize("arms", [{"target": 0}, {"comparator": 0}, {"target": 0, "comparator": 0}])
def test_without_events_in_an_arm_there_is_a_report_and_the_reason(omop, arms, tmp_path):
    study = comparative_study(groups(omop, **arms).write(), StudySettings(1, 2, 3))
    assert study.pairs == 30
    study.write(tmp_path)
    assert study.hazard_ratios["hr"].isna().all()
    (line,) = (line for line in failed(study) if line.startswith("No estimate"))
    assert "everybody, before matching; matched people; matched people, within pairs" in line
    assert "had the outcome" in visible(study)


def test_an_emptied_arm_is_a_report_with_its_attrition(omop, tmp_path, capsys):
    groups(omop)
    path = omop.write()
    import duckdb

    with duckdb.connect(str(path)) as con:
        con.execute(
            "UPDATE observation_period SET observation_period_start_date = DATE '2010-06-01' "
            "WHERE person_id % 2 = 1"
        )
    study = comparative_study(path, StudySettings(1, 2, 3))
    assert "after the rule: 365 days of prior observation" in study.ended
    study.write(tmp_path)
    assert study.attrition["target"].tolist()[:4] == [30, 30, 30, 0]
    assert study.ended in visible(study)
    print_study(study, [])
    assert "nobody is left in the target arm" in " ".join(capsys.readouterr().out.split())
    assert json.loads((tmp_path / "release" / "study.json").read_text())["ended"] == study.ended


@pytest.mark.parametrize("people", [1, 2])
def test_few_people_or_no_covariate_are_a_report_too(omop, people, tmp_path):
    for i in range(2 * people):
        omop.person(**{("target", "comparator")[i % 2]: 0}, outcome=9, born=1950 + 10 * i)
    study = comparative_study(omop.write(), StudySettings(1, 2, 3, min_people=1))
    study.write(tmp_path)
    none = comparative_study(omop.write(), StudySettings(1, 2, 3))
    none.write(tmp_path)
    why = {1: "the target arm has fewer than two people", 2: "no covariate is left"}[people]
    assert why in none.ended
    assert visible(none).count(why) > 1


@pytest.mark.parametrize(("events", "passed"), [(1, False), (4, False), (12, True)])
def test_an_estimate_from_few_events_is_said_to_be_imprecise(omop, events, passed):
    path = groups(omop, target=events, comparator=events).write()
    settings = StudySettings(1, 2, 3, unblind=True)
    study = comparative_study(path, settings, disclosure="none")
    (said,) = (c for c in checks(publish(study)) if c.finding.startswith("Precision:"))
    assert said.passed == passed
    assert ("can be relied on" in said.finding) == (not passed)


@pytest.mark.parametrize("more", [0, 3])
def test_neither_of_two_arms_of_one_size_is_called_the_smaller(omop, more):
    path = groups(omop)
    for _ in range(more):
        omop.condition(omop.person(comparator=0), 70, -5)
    study = comparative_study(path.write(), StudySettings(1, 2, 3, tie_orders=0), disclosure="none")
    (said,) = (c.finding for c in checks(publish(study)) if "pairs hold" in c.finding)
    assert ("smaller arm (Newdrug)" in said) == (more > 0)
    assert ("100% of either arm (both have as many people); 0% of either" in said) == (more == 0)


def test_the_curve_of_an_arm_that_is_watched_for_less_time_ends_before_the_other(omop):
    for i in range(80):
        arm = ("target", "comparator")[i % 2]
        last = 400 if arm == "target" else 60 + i % 7
        person = omop.person(**{arm: 0}, observed=(-1000, last), outcome=9 + i if i < 40 else None)
        if i % 3 == 0:
            omop.condition(person, 70, -5)
    omop.condition(omop.person(target=0, outcome=300), 70, -5)
    omop.condition(omop.person(comparator=0, observed=(-1000, 66)), 70, -5)
    settings = StudySettings(1, 2, 3, caliper=9.0, unblind=True, tie_orders=0)
    study = comparative_study(omop.write(), settings, disclosure="none")
    assert study.curves()["comparator"].times[-1] == 66
    said = study_pictures(publish(study))["survival"].description
    assert "over 400 days" in said
    assert "of the comparator arm (Olddrug, whose curve ends on day 66)" in said
    assert said.count("whose curve ends") == 1


def test_fewer_folds_than_asked_for_are_said_without_their_number_which_is_the_size_of_an_arm(omop):
    for i in range(40):
        person = omop.person(**{"target" if i % 8 == 0 else "comparator": 0}, outcome=9 + i)
        if i % 3:
            omop.condition(person, 70, -5)
    study = comparative_study(omop.write(), StudySettings(1, 2, 3))
    assert study.to_dict()["propensity"]["folds"] is None
    assert any("fewer than 10 folds, for an arm" in line for line in failed(study))
    everything = dataclasses.replace(study, rules=DisclosureRules("none", 0))
    assert everything.to_dict()["propensity"]["folds"] == 5
    assert any("5 folds, not 10" in line for line in failed(everything))


def test_drafts_of_a_killed_process_go_and_young_ones_stay(study, tmp_path):
    into = tmp_path / "release"
    into.mkdir()
    old, young = into / ".report.html.abc", into / ".study.json.def"
    old.touch()
    young.touch()
    os.utime(old, (1, 1))
    study.write(tmp_path)
    assert sorted(p.name for p in into.iterdir()) == [
        ".study.json.def",
        "figures",
        "manifest.json",
        "report.html",
        "study.json",
        "tables",
    ]


FINDINGS = {  # what a finding begins with, by the diagnostic that it is about
    "balance": "Balance:",
    "equipoise": "Equipoise:",
    "convergence": "Convergence:",
    "precision": "Precision:",
    "ties": "Ties:",
}


@pytest.mark.sampled
@pytest.mark.parametrize(
    "thresholds",
    [
        {},
        {"tied": 1.0, "balance": 0.5, "equipoise": 0.95, "outcomes": 500.0},
        {"tied": None, "balance": None, "equipoise": None, "outcomes": None},
        {"balance_p": 0.5, "equipoise": 0.3, "tied": 0.5},
        {"balance_p": 0.0, "detectable": 1.01, "attrition": 0.9},
        {"attrition": 0.2},
    ],
)
def test_a_diagnostic_has_one_verdict_on_page_and_in_the_terminal(study, thresholds, capsys):
    settings = dataclasses.replace(
        study.settings, thresholds=dataclasses.replace(study.settings.thresholds, **thresholds)
    )
    judged = dataclasses.replace(study, settings=settings)
    public = publish(judged)
    found = checks(public)
    marks = {"PASS": "PASS", "FAIL": "WARN", "NOT EVALUATED": "NOT EVALUATED"}
    for key, begin in FINDINGS.items():
        [said] = [c for c in found if c.finding.startswith(begin)]
        assert said.mark == marks[public.judged(key).verdict], key
    lost = public.judged("attrition")
    if lost.verdict != "NOT EVALUATED":
        [said] = [c for c in found if c.finding.startswith("Matching:")]
        assert said.mark == marks[lost.verdict]
    weak = [c for c in found if c.finding.startswith("Power:")]
    assert [c.passed for c in weak] == [False] * (public.judged("detectable").verdict == "FAIL")
    print_study(judged, [])
    out = " ".join(capsys.readouterr().out.split())
    signs = {"PASS": "✓", "WARN": "!", "NOT EVALUATED": "·"}
    for c in found:
        assert f"{signs[c.mark]} {c.finding[:30]}" in out


@pytest.mark.sampled
@pytest.mark.parametrize("rules", ["none", "ohdsi"])
@pytest.mark.parametrize("limit", [0.10296, 0.10297, 0.1029606, 0.1])
def test_a_value_and_its_limit_are_shown_with_the_digits_that_decide(study, limit, rules):
    settings = dataclasses.replace(
        study.settings, thresholds=dataclasses.replace(study.settings.thresholds, balance=limit)
    )
    judged = dataclasses.replace(study, settings=settings, rules=site_rules(rules))
    verdict = publish(judged).judged("balance")
    text = shown_value(verdict.value, verdict.threshold)
    assert verdict.rule == f"below {limit}"
    if text.startswith(("<", ">")):  # rounded away by the rules of disclosure
        assert rules == "ohdsi"
        assert text[0] == ("<" if verdict.verdict == "PASS" else ">")
    else:
        assert (float(text) < limit) == (verdict.verdict == "PASS")
    assert f'<td data-label="Found">{html.escape(text)}</td>' in study_page(judged.release)


def test_names_have_a_capital_wherever_the_page_and_the_terminal_have_them(omop, capsys):
    study = comparative_study(groups(omop).write(), StudySettings(1, 2, 3, tie_orders=0))
    print_study(study, [])
    for said in (study_page(study.release), capsys.readouterr().out):
        assert "Newdrug" in said
        assert "newdrug" not in said


@pytest.mark.parametrize(("n", "shown"), [(11999, "11,999"), (1234567, "1,234,567"), (7, "7")])
def test_a_number_of_outcomes_is_shown_as_a_count(n, shown):
    assert found(Verdict("precision", "outcomes in the arm", "PASS", n, "at least 5")) == shown


def test_a_covariate_that_defines_the_arm_ends_the_study_by_name(omop):
    for i in range(60):
        person = omop.person(**{("target", "comparator")[i % 2]: 0}, outcome=5 + i)
        omop.condition(person, 70 + i % 2, -5)
    study = comparative_study(omop.write(), StudySettings(1, 2, 3))
    assert "probably part of the exposure's definition" in study.ended
    assert study.propensity is None
    assert "has a correlation of" in study_page(study.release)


def test_unbalanced_covariates_are_counted_without_those_of_few_people():
    settings = StudySettings(**DEMO, min_cell=20, folds=5, tie_orders=0, min_people=3)
    study = comparative_study(synthetic_database(900), settings)
    told = study.release.balance
    known = [line for line in told if line["smd_after"] is not None]
    assert 0 < len(known) < len(told)
    assert study.release.over["known"] <= len(known)
    exact = (study.balance["smd_before"].abs() > 0.1).sum()
    over = study.to_dict()["balance"]["over_0.1_before"]
    assert over <= sum(line["smd_before"] is not None for line in told)
    assert over < exact
    assert f"of {study.release.over['known']:,} covariates differ" in study_page(study.release)
    assert "have few people in an arm and count for the verdict alone" in study_page(study.release)
