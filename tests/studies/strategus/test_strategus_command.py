"""The command ``steropes strategus``: verdicts and exit statuses."""

import json

import pytest
from tests.studies.strategus.small_specification import (
    UNKNOWN,
    module,
    new_specification,
    write_database,
)

from steropes.studies.cli.command_line import run
from steropes.studies.sccs.specification.case_series_grid_settings import SeriesQuestion
from steropes.studies.strategus_plans.specification_plan import specification_plan
from steropes.studies.strategus_plans.subset_definitions import SubsetDefinition


@pytest.fixture
def specification(tmp_path):
    path = tmp_path / "study.json"

    def write(change=lambda s: None):
        given = new_specification([81151])
        change(given)
        path.write_text(json.dumps(given))
        return str(path)

    return write


def test_a_complete_specification_has_status_0(specification, capsys):
    assert run(["strategus", specification(), "--check"]) == 0
    said = capsys.readouterr().out
    assert "CohortMethodModule\n  analysis 1 (matched): runs with a difference" in said
    assert "  question 1 (1 against 2): runs\n" in said
    assert "  2 questions, of which 1 with a known ratio: runs\n" in said


def test_a_part_that_does_not_run_has_status_1(specification, capsys):
    def change(given):
        module(given, "CohortMethodModule")["cmAnalysisList"][0]["speed"] = 9

    assert run(["strategus", specification(change), "--check"]) == 1
    assert "cmAnalysisList[0].speed is not known" in capsys.readouterr().out


def test_no_specification_has_status_2(tmp_path, capsys):
    path = tmp_path / "study.json"
    path.write_text('{"moduleSpecifications": [')
    assert run(["strategus", str(path), "--check"]) == 2
    assert "the text ends too early" in capsys.readouterr().err
    assert run(["strategus", str(tmp_path / "none.json"), "--check"]) == 2
    assert "No such file" in capsys.readouterr().err


def test_concepts_are_looked_up_in_a_database(specification, tmp_path, capsys):
    folder = write_database(tmp_path / "database", 50)
    assert run(["strategus", specification(), "--check", "--database", folder]) == 0
    said = capsys.readouterr().out
    assert "covariates excluded from 1 against 2: 1 of 3 are not in the vocabulary" in said
    assert "(99999999)" in said


def test_the_check_names_a_missing_package_that_stops_the_run(
    specification, tmp_path, capsys, monkeypatch
):
    import steropes.studies._optional_packages as extras

    given = specification()
    folder = write_database(tmp_path / "database", 20)
    found = extras.importlib.import_module

    def missing(module):
        if module == "duckcdm":
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return found(module)

    monkeypatch.setattr(extras.importlib, "import_module", missing)
    assert run(["strategus", given, "--check"]) == 1
    said = capsys.readouterr().out
    assert (
        '3 defined cohorts: does not run: circe needs the package duckcdm: pip install "s' in said
    )
    output = tmp_path / "results"
    assert run(["strategus", given, "--database", folder, "--output", str(output)]) == 2
    assert "circe needs the package duckcdm" in capsys.readouterr().err
    assert not [*output.glob("*")]


def test_the_time_of_a_check_grows_with_the_number_of_questions_and_cohorts(monkeypatch):
    """Each question and cohort was compared with all others, which took half a minute."""
    hashed, named = [], []
    number, name = SeriesQuestion.number.fget, SubsetDefinition.cohort_name
    monkeypatch.setattr(SeriesQuestion, "number", property(lambda q: hashed.append(q) or number(q)))
    monkeypatch.setattr(SubsetDefinition, "cohort_name", lambda *a: named.append(a) or name(*a))
    given = new_specification([*range(100_000, 100_200)])
    plan = specification_plan(given)
    assert len(plan.series.questions) == len(hashed) == 201
    assert len(named) == len(plan.cohorts.subsets) == 2


def test_the_check_names_cohorts_that_nobody_can_enter(specification, tmp_path, capsys):
    def change(given):
        definitions = given["sharedResources"][0]["cohortDefinitions"]
        for place, items in ((1, []), (2, [{"concept": {"CONCEPT_ID": UNKNOWN}}])):
            values = json.loads(definitions[place]["cohortDefinition"])
            values["ConceptSets"][0]["expression"]["items"] = items
            values["CensoringCriteria"] = [{"Specimen": {}}] if place == 2 else []
            definitions[place]["cohortDefinition"] = json.dumps(values)

    folder = write_database(tmp_path / "database", 50)
    path = specification(change)
    assert run(["strategus", path, "--check", "--database", folder]) == 1
    said = capsys.readouterr().out
    empty = "the concept sets of its entry events are empty, so that nobody enters it"
    assert f"  cohort 2 (diclofenac): runs: {empty}" in said
    assert "Cohorts\n  cohort 3 (bleeding) cannot be made: database has no table specimen" in said
    assert "  cohort 2 (diclofenac): database has no record" in said
    assert "  cohort 3 (bleeding): database has no record of its entry events" in said
    assert "cohort 1 (celecoxib): database" not in said
    table = "database has no table specimen, which its definition reads"
    assert f"  cohort 3: does not run: {table}\nCohortMethodModule" in said
    gone = "cohort 2 (diclofenac) has no entries"
    assert f"  question 1 (1 against 2): does not run: {gone}\n" in said
    assert run(["strategus", path, "--check", "--quiet", "--database", folder]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    named = f"steropes: CohortMethodModule, question 1 (1 against 2): does not run: {gone}"
    assert named in said.err.splitlines()


def test_a_quiet_check_names_what_does_not_run(specification, capsys):
    def change(given):
        given["moduleSpecifications"].append({"module": "CohortSurvivalModule"})

    assert run(["strategus", specification(change), "--check", "--quiet"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("steropes: CohortSurvivalModule, module: does not run: ")
