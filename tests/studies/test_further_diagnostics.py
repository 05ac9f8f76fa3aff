"""A further diagnostic, declared once, is judged and shown wherever diagnostics are."""

import dataclasses

import pandas as pd
import pytest

from steropes.studies import (
    FeatureRules,
    Match,
    OutcomeModel,
    Question,
    Stratify,
    StudyAnalysis,
    StudySettings,
    Workbench,
    comparative_study,
    condition_cohorts,
    read_cohorts,
    run_grid,
    synthetic_database,
)
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.diagnostics import diagnostic_catalogue
from steropes.studies.diagnostics.diagnostic_catalogue import DIAGNOSTICS, Diagnostic
from steropes.studies.report.comparative_grid_page import grid_page
from steropes.studies.report.grid_report_view import View
from steropes.studies.report.grid_terminal import print_grid
from steropes.studies.report.study_report import study_page
from steropes.studies.single_studies.study_terminal import print_study
from steropes.studies.specifications.study_specification import study_specification

MALE = 8507001
NAME = "difference of the shares of men"


def difference_of_men(compared):
    if compared.balance is None:
        return float("nan")
    table = compared.balance.table.set_index("covariate_id")
    if MALE not in table.index:
        return 0.0
    men = table.loc[MALE]
    return abs(men["target_mean_after"] - men["comparator_mean_after"])


# A key that no diagnostic of the library and no example of the documentation has.
KEY = "shares of men, only in this test"
MEN = Diagnostic(KEY, NAME, "Men", "at most", 0.05, measure=difference_of_men)
# The diagnostics without any that the library or a user may have added.
OWN = tuple(d for d in DIAGNOSTICS if d.measure is None)
SETTINGS = StudySettings(1, 2, 3, tie_orders=0, min_people=3, folds=3, caliper=9.0)


@pytest.fixture
def people(omop):
    """40 people of each drug, of whom 12 of the target and 20 of the comparator are men."""
    for i in range(80):
        arm, men = (("target", 12), ("comparator", 20))[i % 2]
        sex = 8507 if i // 2 < men else 8532
        person = omop.person(**{arm: 0}, sex=sex, outcome=5 + i if i % 3 else None)
        if i % 5 == 0:
            omop.condition(person, 70, -5)
    omop.concept(70, "thing")
    return omop.write()


@pytest.fixture
def declared(monkeypatch):
    monkeypatch.setattr(diagnostic_catalogue, "DIAGNOSTICS", (*OWN, MEN))


def diagnostics_of(study):
    return {line["key"]: line for line in study.to_dict()["diagnostics"]}


def test_it_is_judged_and_shown_by_a_study_of_one_question(people, declared, capsys):
    study = comparative_study(people, SETTINGS)
    found = diagnostics_of(study)[KEY]
    assert study.diagnostics.further[KEY] == pytest.approx(8 / 40)
    assert (found["verdict"], found["rule"], found["value"]) == ("FAIL", "at most 0.05", 0.2)
    assert not study.diagnostics.unblind
    assert study.to_dict()["blinded"]
    print_study(study, [])
    terminal = " ".join(capsys.readouterr().out.split())
    assert "Difference of the shares of men: 0.20 (at most 0.05 is needed)" in terminal
    assert "Difference of the shares of men" in study_page(study.release)


def test_it_is_judged_stored_and_shown_by_a_grid(people, declared, tmp_path, capsys):
    with OmopDatabase(people) as db:
        spec = study_specification(SETTINGS, db.tables)
    spec = dataclasses.replace(spec, analysis=spec.analysis[:1])
    results = run_grid(people, spec, tmp_path)
    table = results.tables["further_diagnostic"]
    (line,) = table[table["diagnostic"] == KEY].to_dict("records")
    assert (line["value"], line["verdict"]) == (0.2, "FAIL")
    assert results.tables["cm_diagnostics_summary"]["unblind"].tolist() == [0]
    page = grid_page(View(results))
    assert "<th>Men" in page or ">Men<" in page
    print_grid(results, [], unblind=False)
    terminal = " ".join(capsys.readouterr().out.split())
    assert "Estimates that fail a diagnostic: " in terminal
    assert f"{NAME} (1 of 1)" in terminal


def test_one_that_guards_nothing_hides_nothing(people, monkeypatch):
    harmless = dataclasses.replace(MEN, guards="nothing")
    monkeypatch.setattr(diagnostic_catalogue, "DIAGNOSTICS", (*DIAGNOSTICS, harmless))
    study = comparative_study(people, SETTINGS)
    found = diagnostics_of(study)
    assert (found[KEY]["verdict"], found[KEY]["hides"]) == ("FAIL", False)
    with_it = study.diagnostics.unblind
    monkeypatch.setattr(diagnostic_catalogue, "DIAGNOSTICS", DIAGNOSTICS)
    without = comparative_study(people, SETTINGS)
    assert found.keys() - diagnostics_of(without).keys() == {KEY}
    assert with_it == without.diagnostics.unblind


@pytest.mark.parametrize("adjustment", ["matching", "strata", "weights", "none"])
def test_it_gets_the_people_of_the_result_with_scores_sets_and_weights(monkeypatch, adjustment):
    seen = []
    spy = dataclasses.replace(
        MEN, guards="nothing", measure=lambda compared: seen.append(compared.people) or 0.0
    )
    monkeypatch.setattr(diagnostic_catalogue, "DIAGNOSTICS", (*OWN, spy))
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
    result = Workbench(db, cohorts).run(Question(1, 2, (3,)), 3, StudyAnalysis(1, **settings))
    (people,) = seen
    pd.testing.assert_frame_equal(people, result.people)
    assert columns == {"score", "preference", "set", "weight"} & {*people.columns}
