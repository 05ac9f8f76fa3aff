"""A further diagnostic, registered in one file, is judged and shown wherever diagnostics are."""

import dataclasses
import sys
import zipfile

import pandas as pd
import pytest

from steropes import DataError
from steropes.designs import Match, OutcomeModel, Stratify
from steropes.studies import (
    CaseSeriesGrid,
    CaseSeriesSettings,
    StudySettings,
    case_series,
    comparative_study,
    register_diagnostic,
    run_case_series_grid,
    run_grid,
    synthetic_database,
)
from steropes.studies.cohorts import ConceptSet, condition_cohorts, read_cohorts
from steropes.studies.comparative import Question, StudyAnalysis, Workbench
from steropes.studies.covariates import FeatureRules
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.diagnostics import DiagnosticThresholds
from steropes.studies.diagnostics.diagnostic import source_of
from steropes.studies.report.comparative_grid_page import grid_page
from steropes.studies.report.grid_page_data import View
from steropes.studies.report.grid_terminal import print_grid
from steropes.studies.report.study_report import study_page
from steropes.studies.sccs import (
    CaseRules,
    ExposureWindow,
    SeriesAnalysis,
    SeriesQuestion,
    Thresholds,
)
from steropes.studies.series_report.sccs_grid_page import case_series_grid_page
from steropes.studies.series_report.sccs_page import series_page
from steropes.studies.single_studies.study_terminal import print_study
from steropes.studies.specifications.one_question_specification import study_specification
from steropes.studies.viewer.study_json_tables import study_file_tables

NAME = "difference of the shares of men"
KEY, HARMLESS, ERAS = "shares of men", "shares of men, harmless", "cases with one era"

FAST = {"end_of_observation_days": 0, "pre_exposure_days": 0}
# The one file that a user writes.
OWN_CHECKS = f"""
from steropes.studies import register_diagnostic

MALE = 8507001
SEEN = []


@register_diagnostic("{KEY}", "{NAME}", at_most=0.05, heading="Men")
def difference_of_men(compared):
    if compared.balance is None:
        return float("nan")
    table = compared.balance.table.set_index("covariate_id")
    if MALE not in table.index:
        return 0.0
    men = table.loc[MALE]
    return abs(men["target_mean_after"] - men["comparator_mean_after"])


@register_diagnostic("{HARMLESS}", "the same", at_most=0.05, guards="nothing")
def harmless(compared):
    SEEN.append(compared.people)
    return difference_of_men(compared)


@register_diagnostic("{ERAS}", "share of cases with one era", at_least=2.0, design="case series")
def single_eras(cases):
    own = cases.intervals.statistics.loc[cases.exposure]
    return own["subjects"] / own["eras"]


def forgotten(compared):
    return 0.0
"""


@pytest.fixture(autouse=True)
def own_checks(tmp_path_factory, monkeypatch):
    """Put the file in a folder from which this process and its children import."""
    folder = tmp_path_factory.mktemp("checks")
    (folder / "own_checks.py").write_text(OWN_CHECKS)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "own_checks", raising=False)


def limits(*names):
    return DiagnosticThresholds(further=tuple(f"own_checks:{name}" for name in names))


def settings_with(*names):
    settings = StudySettings(1, 2, 3, tie_orders=0, min_people=3, folds=3, caliper=9.0)
    return dataclasses.replace(settings, thresholds=limits(*names))


@pytest.fixture
def people(omop):
    """40 people of each drug, of whom 12 of the target and 20 of the comparator are men."""
    for i in range(80):
        arm, men = (("target", 12), ("comparator", 20))[i % 2]
        sex = 8507 if i // 2 < men else 8532
        person = omop.person(**{arm: 0}, sex=sex, outcome=5 + i if i % 3 else None)
        if i % 5 == 0:
            omop.condition(person, 70, -5)
        if i % 4 == 0:
            omop.condition(person, 71, 5)
    omop.concept(70, "thing")
    omop.concept(71, "other outcome")
    return omop.write()


def diagnostics_of(study):
    return {line["key"]: line for line in study.to_dict()["diagnostics"]}


def test_it_is_judged_and_shown_by_a_study_of_one_question(people, tmp_path, capsys):
    study = comparative_study(people, settings_with("difference_of_men"))
    found = diagnostics_of(study)[KEY]
    assert study.diagnostics.further[KEY] == pytest.approx(8 / 40)
    assert study.diagnostics.verdicts[KEY].verdict == "FAIL"
    assert (found["verdict"], found["rule"], found["value"]) == ("FAIL", "at most 0.05", 0.2)
    assert not study.diagnostics.unblind
    assert study.to_dict()["blinded"]
    print_study(study, [])
    terminal = " ".join(capsys.readouterr().out.split())
    assert "Difference of the shares of men: 0.20 (at most 0.05 is needed)" in terminal
    assert "Difference of the shares of men" in study_page(study.release)
    (file,) = (p for p in study.write(tmp_path) if p.name == "study.json")
    (line,) = study_file_tables(file)["further_diagnostic"].to_dict("records")
    assert (line["diagnostic"], line["value"], line["verdict"]) == (KEY, 0.2, "FAIL")


@pytest.mark.slow
def test_it_is_judged_stored_and_shown_by_a_grid_with_several_processes(people, tmp_path, capsys):
    with OmopDatabase(people) as db:
        spec = study_specification(settings_with("difference_of_men"), db.tables)
    outcomes = {**spec.cohorts.conditions, 71: ConceptSet((71,))}
    spec = dataclasses.replace(
        spec,
        analysis=spec.analysis[:1],
        cohorts=dataclasses.replace(spec.cohorts, conditions=outcomes),
        question=(dataclasses.replace(spec.question[0], outcomes=(3, 71)),),
    )
    results = run_grid(people, spec, tmp_path, jobs=2)
    table = results.tables["further_diagnostic"]
    assert table["diagnostic"].tolist() == [KEY, KEY]
    (line,) = table[table["outcome_id"] == 3].to_dict("records")
    assert (line["value"], line["verdict"]) == (0.2, "FAIL")
    assert results.tables["cm_diagnostics_summary"]["unblind"].tolist() == [0, 0]
    with zipfile.ZipFile(next(tmp_path.rglob("results.zip"))) as archive:
        assert KEY in archive.read("further_diagnostic.csv").decode()
    page = grid_page(View(results))
    assert "<th>Men" in page or ">Men<" in page
    print_grid(results, [], unblind=False)
    terminal = " ".join(capsys.readouterr().out.split())
    assert "Estimates that fail a diagnostic: " in terminal
    assert f"{NAME} (2 of 2)" in terminal


def test_one_that_guards_nothing_hides_nothing(people):
    study = comparative_study(people, settings_with("harmless"))
    found = diagnostics_of(study)
    assert (found[HARMLESS]["verdict"], found[HARMLESS]["hides"]) == ("FAIL", False)
    without = comparative_study(people, settings_with())
    assert found.keys() - diagnostics_of(without).keys() == {HARMLESS}
    assert study.diagnostics.unblind == without.diagnostics.unblind


@pytest.mark.sampled
@pytest.mark.parametrize("adjustment", ["matching", "strata", "weights", "none"])
def test_it_gets_the_people_of_the_result_with_scores_sets_and_weights(adjustment):
    db = synthetic_database(400)
    cohorts = read_cohorts(db) + condition_cohorts(db, {3: 192671})
    rules = FeatureRules(analyses=(1, 3))
    settings, columns = {
        "matching": ({"features": rules, "match": Match()}, {"score", "preference", "set"}),
        "strata": ({"features": rules, "stratify": Stratify()}, {"score", "preference", "set"}),
        "weights": (
            {"features": rules, "outcome_model": OutcomeModel(weighted=True)},
            {"score", "preference", "weight"},
        ),
        "none": ({"features": None, "propensity": None, "unadjusted": True}, set()),
    }[adjustment]
    bench = Workbench(db, cohorts, limits("harmless"))
    result = bench.run(Question(1, 2, (3,)), 3, StudyAnalysis(1, **settings))
    (people,) = sys.modules["own_checks"].SEEN
    pd.testing.assert_frame_equal(people, result.people)
    assert columns == {"score", "preference", "set", "weight"} & {*people.columns}


@pytest.fixture(scope="module")
def cases():
    return synthetic_database(2000)


def test_it_is_judged_and_shown_by_a_case_series(cases):
    own = Thresholds(further=["own_checks:single_eras"])
    windows = (ExposureWindow("exposed", (1118084,), of_interest=True),)
    study = case_series(cases, CaseSeriesSettings(CaseRules(192671), windows, thresholds=own))
    verdict = study.diagnostics[0].verdicts[ERAS]
    assert (verdict.verdict, verdict.rule) == ("FAIL", "at least 2")
    assert not study.diagnostics[0].unblind
    assert "Share of cases with one era: 1.00 (at least 2 is needed)." in series_page(study)
    (line,) = study.tables()["sccs_further_diagnostic"].to_dict("records")
    assert (line["diagnostic"], line["value"], line["verdict"]) == (ERAS, 1.0, "FAIL")


@pytest.mark.slow
def test_it_is_judged_stored_and_shown_by_a_grid_of_case_series(cases, tmp_path):
    grid = CaseSeriesGrid(
        (SeriesQuestion(1118084, 192671),),
        (SeriesAnalysis(1, "simple", FAST), SeriesAnalysis(2, "new users", FAST)),
        Thresholds(further=("own_checks:single_eras",)),
    )
    results = run_case_series_grid(cases, grid, tmp_path, jobs=2)
    table = results.tables["sccs_further_diagnostic"]
    assert table["verdict"].tolist() == ["FAIL", "FAIL"]
    assert results.tables["sccs_diagnostics_summary"]["unblind"].tolist() == [0, 0]
    assert "Cases with one era" in case_series_grid_page(results)


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("own_checks", "must be a function as 'module:function'"),
        ("no_such_module_here:f", "cannot be imported"),
        ("own_checks:nothing", "has no such name"),
        ("own_checks:forgotten", "register_diagnostic does not decorate"),
        ("own_checks:single_eras", "a diagnostic of the design case series"),
    ],
)
def test_a_name_that_is_no_diagnostic_is_refused(place, why):
    with pytest.raises(DataError, match=why):
        DiagnosticThresholds(further=(place,))


def test_two_diagnostics_with_one_key_are_refused():
    with pytest.raises(DataError, match="another diagnostic"):
        limits("harmless", "harmless")


def test_a_function_stands_for_its_name():
    import own_checks

    assert DiagnosticThresholds(further=[own_checks.harmless]).further == ("own_checks:harmless",)


def test_a_changed_function_makes_other_results():
    import own_checks

    before = source_of(["own_checks:harmless"])
    register_diagnostic("x", "x", below=1)(own_checks.harmless)
    assert source_of(["own_checks:harmless"]) != before


@pytest.mark.parametrize(
    "given",
    [{}, {"below": 1, "above": 0}, {"below": 1, "guards": "all"}, {"below": 1, "design": 3}],
)
def test_a_diagnostic_with_an_unknown_option_or_without_one_limit_is_refused(given):
    with pytest.raises(ValueError, match=r"needs one limit|must be"):
        register_diagnostic("a", "b", **given)
