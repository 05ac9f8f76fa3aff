"""Runs of specifications with missing or failing parts name these parts, and count nobody."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.studies.strategus.small_modules import CHARACTERIZATION, INCIDENCE, PREDICTION
from tests.studies.strategus.small_specification import (
    UNKNOWN,
    circe,
    new_specification,
    write_database,
)

from steropes.studies import OmopDatabase
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts import CohortTable
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.report.missing_estimates import missing_sentences
from steropes.studies.strategus import characterization_case_tables
from steropes.studies.strategus.specification_run import run_specification
from steropes.studies.strategus_plans.specification_plan import specification_plan
from steropes.studies.strategus_plans.supported_parts import skipped, summary_lines
from steropes.studies.viewer.result_sources import read_sources
from steropes.studies.viewer.results_page import results_views

CM, SCCS = "CohortMethodModule", "SelfControlledCaseSeriesModule"


CONTROLS = [81151, 78272, 4112343, 40481087, 260139, 80180]


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    folder = write_database(tmp_path_factory.mktemp("data") / "database", 600)
    with OmopDatabase(folder) as found:
        yield found


def test_a_cohort_that_cannot_be_generated_leaves_the_others(db, tmp_path):
    given = new_specification([81151])
    cohort = given["sharedResources"][0]["cohortDefinitions"][2]
    definition = json.loads(cohort["cohortDefinition"])
    definition["PrimaryCriteria"]["CriteriaList"] = [{"Specimen": {"CodesetId": 0}}]
    cohort["cohortDefinition"] = json.dumps(definition)
    plan = specification_plan(given)
    found = run_specification(db, plan, tmp_path)
    assert "specimen" in found.failed["cohort 3"].lower()
    assert not found.complete
    status = found.tables["CohortGeneratorModule"]["cg_cohort_generation"]
    by_id = dict(zip(status["cohort_id"], status["generation_status"], strict=True))
    assert by_id == {1: "COMPLETE", 2: "COMPLETE", 3: "FAILED", 1001: "COMPLETE", 2001: "COMPLETE"}


def test_verdicts_after_a_run_name_the_modules_and_parts_that_failed(db, tmp_path):
    given = new_specification([81151])
    given["moduleSpecifications"] += [CHARACTERIZATION, INCIDENCE, PREDICTION]
    given["moduleSpecifications"] += [{"module": "CohortSurvivalModule"}]
    for cohort in given["sharedResources"][0]["cohortDefinitions"]:
        definition = json.loads(cohort["cohortDefinition"])
        definition["PrimaryCriteria"]["CriteriaList"] = [{"Specimen": {"CodesetId": 0}}]
        cohort["cohortDefinition"] = json.dumps(definition)
    found = run_specification(db, specification_plan(given), tmp_path)
    table = pd.read_csv(found.folder / "verdicts.csv", keep_default_na=False)
    of = table.set_index("module")
    for name in ("CharacterizationModule", "CohortIncidenceModule", "PatientLevelPredictionModule"):
        assert {*of.loc[[name], "verdict"]} == {"did not run"}
        assert of.loc[[name], "text"].str.len().min() > 0
        assert not (found.folder / name).exists()
    assert "specimen" in of.loc["CohortIncidenceModule", "text"].lower()
    assert "specimen" in of.loc["PatientLevelPredictionModule", "text"].lower()
    gone = table["verdict"] == "did not run"
    failed = table[gone & (table["module"] == "CohortGeneratorModule")]
    assert {"cohort 1", "cohort 2", "cohort 3"} <= {*failed["part"]}
    assert of.loc["CohortSurvivalModule", "verdict"] == "did not run"


def test_verdicts_after_a_run_name_cohorts_without_entries_and_count_missing_estimates(
    db, tmp_path
):
    given = new_specification([81151])
    given["moduleSpecifications"] = [*given["moduleSpecifications"][:2], CHARACTERIZATION]
    given["moduleSpecifications"].append(json.loads(json.dumps(INCIDENCE)))
    cohort = given["sharedResources"][0]["cohortDefinitions"][2]
    cohort["cohortDefinition"] = circe(UNKNOWN, "ConditionOccurrence")
    found = run_specification(db, specification_plan(given), tmp_path)
    of = {f"{v.module[:8]} {v.part}": v for v in found.verdicts}
    nobody = "cohort 3 (bleeding) has no entries"
    assert of["Characte time to event 1"].text == nobody
    assert of["Characte covariates of targets 1"].word == "ran"
    assert of["CohortIn analysis 1, 2 rates and their strata"].word == "ran"
    generated = of["CohortGe 3 defined cohorts"]
    assert (generated.word, generated.remark) == ("ran", nobody)
    analysis = of["CohortMe analysis 1 (matched)"]
    assert "1 of 2 estimates are missing: " in analysis.text
    assert not found.complete
    table = pd.read_csv(found.folder / "verdicts.csv", keep_default_na=False)
    assert table["text"].tolist() == [v.text for v in found.verdicts]


def test_reasons_of_failures_show_no_small_count(tmp_path, monkeypatch):
    from steropes.studies import synthetic_database
    from steropes.studies.strategus import specification_run

    faults = {"cohort 3": "fitting: 3 people have the outcome (n_samples = 382)"}
    monkeypatch.setattr(specification_run, "_new_faults", lambda *_: faults)
    plan = specification_plan({"moduleSpecifications": [{"module": "CohortSurvivalModule"}]})
    found = run_specification(synthetic_database(100), plan, tmp_path)
    assert found.failed == {"cohort 3": "fitting: <5 people have the outcome"}


def test_small_cohorts_are_not_counted(db, tmp_path):
    from steropes.studies.cohorts.cohort_sources import MadeCohorts
    from steropes.studies.disclosure import DisclosureRules
    from steropes.studies.strategus.cohort_generator_tables import cohort_tables

    plan = specification_plan(new_specification([81151]))

    def counted(*sizes):
        """Return entries and people of cohorts of the first people, with repeated entries."""
        ids = [c for c, people, entries in sizes for _ in range(entries)]
        subject = [k % people for _, people, entries in sizes for k in range(entries)]
        day = np.datetime64("2010-01-01") + np.arange(len(ids))
        made = MadeCohorts(CohortTable(ids, subject, day, day), {})
        rules = DisclosureRules("ohdsi", 5)
        found = cohort_tables(plan.cohorts, made, rules, "x")["cg_cohort_count"]
        rows = zip(
            found["cohort_id"], found["cohort_entries"], found["cohort_subjects"], strict=True
        )
        return {i: (e, p) for i, e, p in rows}

    found = counted((1, 33, 33), (2, 30, 31), (3, 3, 9), (1001, 31, 31), (2001, 22, 22))
    assert found[3] == (-5, -5)
    assert found[2] == (30, 30)  # One person has two entries.
    # Two people of the target are not in the subset. Rounded counts leave several differences, also
    # from counts that other modules release of the same cohorts.
    assert found[1] == (35, 35)
    assert found[1001] == (30, 30)
    assert found[2001] == (20, 20)


def test_the_command_runs_and_names_what_did_not_run(tmp_path, capsys):
    path = tmp_path / "study.json"
    given = new_specification([81151])
    given["moduleSpecifications"] = given["moduleSpecifications"][:2]
    given["moduleSpecifications"].append({"module": "CohortSurvivalModule", "settings": {}})
    path.write_text(json.dumps(given))
    database, folder = write_database(tmp_path / "database", 200), tmp_path / "results"
    command = ["strategus", str(path), "--database", database, "--output", str(folder)]
    assert run(command) == 1
    said = capsys.readouterr().out
    assert "CohortSurvivalModule, module: did not run: there is no module of this name" in said
    assert (folder / "release" / CM / "cm_result.csv").exists()
    assert not (folder / "release" / SCCS).exists()
    verdicts = (folder / "release" / "verdicts.csv").read_text()
    assert "CohortSurvivalModule,module,did not run" in verdicts
    assert run(["strategus", str(path)]) == 2


def test_parts_without_results_are_in_the_viewer_and_on_the_terminal(tmp_path, capsys):
    database = write_database(tmp_path / "database", 200)
    given = new_specification(CONTROLS)
    never = json.loads(json.dumps(PREDICTION))
    design = never["settings"]["modelDesignList"][0]
    design["populationSettings"]["washoutPeriod"] = 100_000
    others = (m for m in given["moduleSpecifications"] if m["module"] not in (CM, SCCS))
    given["moduleSpecifications"] = [*others, never]
    spec, out = tmp_path / "spec.json", tmp_path / "out"
    spec.write_text(json.dumps(given))
    command = ["strategus", str(spec), "--database", database, "--output", str(out)]
    why = "fewer than 10 people have the outcome"
    assert run([*command, "--quiet"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    part = "PatientLevelPredictionModule, design 1 (lasso logistic regression, 3 in 1)"
    assert f"{part}: did not run: {why}" in said.err
    assert run(command) == 1
    assert why in capsys.readouterr().out
    assert why in (out / "release" / "verdicts.csv").read_text()
    views = {v.name: v for v in results_views(read_sources([out]), DisclosureRules())}
    part, *others = views["parts"].data().to_dict("records")
    assert part["module"] == "PatientLevelPredictionModule"
    assert part["verdict"] == "did not run"
    assert {p["verdict"] for p in others} <= {"ran", "ran with a difference"}
    assert part["text"].startswith(f"F{why[1:]}")


def test_similar_parts_that_did_not_run_are_one_short_line():
    long = "a drug - in cohorts: (11708) starts within D: -99999 - D: 0 of cohort start " * 4
    parts = [
        skipped(CM, f"question {i} ({i} against {i + 1})",
                f"2 cohorts have no entries: {i} ({long}), {i + 1} ({long})")
        for i in range(1, 30)
    ]  # fmt: skip
    other = skipped(CM, "analysis 1 (on treatment)", "fewer than ten outcomes")
    grouped, single = summary_lines([*parts, other])
    assert grouped.startswith(
        f"{CM}, question 1 (1 against 2) and 28 others: does not run: 2 cohorts have no entries: 1"
    )
    assert len(grouped) <= 240
    assert single == f"{CM}, analysis 1 (on treatment): does not run: fewer than ten outcomes"


def test_missing_estimates_whose_reasons_differ_in_names_are_one_sentence():
    gone = [
        (f"drug {i} against others", f"nobody is left (there are no entries of drug {i} (new))")
        for i in range(9)
    ]
    (sentence,) = missing_sentences(gone)
    assert sentence == (
        "No estimate for drug 0 against others; drug 1 against others; drug 2 against others; "
        "and 6 more: nobody is left."
    )
    assert len(missing_sentences(gone[:2])) == 2


def test_too_many_covariates_of_cases_leave_the_rest_of_characterization(db, tmp_path, monkeypatch):
    monkeypatch.setattr(characterization_case_tables, "MOST_ROWS", 1)
    given = new_specification([])
    given["moduleSpecifications"] = [given["moduleSpecifications"][0], CHARACTERIZATION]
    found = run_specification(db, specification_plan(given), tmp_path)
    of = {v.part: v for v in found.verdicts if v.module == "CharacterizationModule"}
    gone = {part for part, v in of.items() if v.reason}
    assert gone == {"risk factors 1", "case series 1"}
    assert "more than 1 covariates of cases" in of["risk factors 1"].reason
    tables = found.tables["CharacterizationModule"]
    assert {*tables["c_covariates"]["cohort_type"]} == {"Target"}
    assert len(tables["c_time_to_event"])
