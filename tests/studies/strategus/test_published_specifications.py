"""Published specifications are planned without an exception that is no sentence."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from steropes.studies import OmopDatabase, demo_database
from steropes.studies.strategus.cohort_generation import generate_cohorts
from steropes.studies.strategus.results_model import results_model
from steropes.studies.strategus.specification_run import run_specification
from steropes.studies.strategus.treatment_pathways import target_pathways
from steropes.studies.strategus_plans.pathway_plan import pathway_plan
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts
from steropes.studies.strategus_plans.specification_plan import read_specification_plan

FOLDER = Path(__file__).parents[4] / "shared" / "data" / "strategus"
FILES = sorted(FOLDER.glob("*.json"))
pytestmark = pytest.mark.skipif(not FILES, reason="the published specifications are not here")


def plan(name):
    return read_specification_plan(FOLDER / f"{name}.json")


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_part_has_a_verdict(path):
    found = read_specification_plan(path)
    assert found.verdicts
    assert all(v.line() for v in found.verdicts)
    if found.comparative is not None:
        found.comparative.spec(database_id="x")
    if found.series is not None:
        found.series.spec(database_id="x")


def test_strategus_1_4():
    found = plan("strategus_1.4_cdm_modules")
    assert [a.id for a in found.comparative.analyses] == [1, 2]
    assert [(q.target, q.comparator) for q in found.comparative.questions] == [
        (1002, 2002),
        (1003, 2003),
    ]
    assert len(found.series.questions) == 26
    assert found.cohorts.fault(1003) == ""


def test_the_template_gives_one_id_to_two_cohorts():
    found = plan("study_repo_template")
    assert "Acanthosis nigricans" in found.cohorts.fault(1001)
    assert len(found.comparative.questions[0].exclude) == 23_372
    assert len(found.series.questions) == 136


@pytest.mark.slow
def test_comparisons_of_strategus_1_4_run_on_the_demonstration_database(tmp_path):
    found = plan("strategus_1.4_cdm_modules")
    results = run_specification(demo_database(), replace(found, series=None), tmp_path)
    assert results.failed == {}
    table = results.tables["CohortMethodModule"]["cm_result"]
    assert len(table) == 2 * 2 * 13
    shown = table[(table["outcome_id"] == 3) & (table["analysis_id"] == 1)]
    assert shown["rr"].between(1.0, 2.0).all()


def test_atlas_flags_win_over_arguments():
    found = plan("atlas_estimation_iud_ehr")
    by_id = {a.id: a for a in found.comparative.analyses}
    assert sorted(by_id) == [1, 2, 3]
    assert by_id[1].match is not None
    assert by_id[1].stratify is None
    assert by_id[2].match is None
    assert by_id[2].stratify.strata == 5
    assert "DemographicsPostObservationTime" in " ".join(v.reason for v in found.verdicts)


@pytest.mark.slow
def test_pathways_are_those_that_treatment_patterns_has_published():
    """TreatmentPatterns 3.0.3 ships its output for these cohorts of the demonstration database."""
    cohorts = plan("strategus_1.4_cdm_modules").cohorts
    kinds = {4: "event", 5: "event", 6: "event", 7: "event", 8: "exit", 9: "event", 10: "event",
             11: "target"}  # fmt: skip
    settings = {
        "cohorts": [
            {"cohortId": i, "cohortName": cohorts.names[i].lower(), "type": kind}
            for i, kind in kinds.items()
        ],
        **{"includeTreatments": "startDate", "indexDateOffset": 0, "minEraDuration": 7},
        **{"combinationWindow": 7, "minPostCombinationDuration": 7},
    }
    used = tuple(c for c in cohorts.defined if c.id in kinds)
    asked = pathway_plan(settings, (), SharedCohorts(used))
    with OmopDatabase(demo_database()) as db:
        made, _ = generate_cohorts(db, SharedCohorts(used), lambda _: None, False)
        [found] = target_pathways(db, asked, made.table)
    paths = found.paths.set_index("pathway")["freq"]
    assert (len(paths), paths.sum()) == (371, 2142)
    both = "amoxicillin+clavulanate"
    assert paths[f"acetaminophen-{both}"] == 103
    assert paths[f"acetaminophen-penicillinv-{both}"] == 55
    assert paths[f"aspirin-acetaminophen-{both}"] == 52
    assert paths["acetaminophen-penicillinv"] == 49
    assert paths["acetaminophen"] == 40
    days = found.durations.set_index(["event_name", "line"])
    drug = days.loc[("acetaminophen", "overall")]
    assert drug["event_count"] == 1547
    assert drug["duration_average"] == pytest.approx(19.8513251454428)
    assert drug["duration_sd"] == pytest.approx(17.8625593095256)
    assert days.loc[("mono-event", "5"), "event_count"] == 119
    steps = found.attrition.set_index("reason_id")["number_records"]
    assert steps[[1, 2, 4, 5, 7]].tolist() == [14041, 11347, 8327, 8327, 6662]


# Modules that fit models have slow tests of their own.
FITS = ("CohortMethodModule", "SelfControlledCaseSeriesModule", "PatientLevelPredictionModule")
# Specifications that run as a whole, because the demonstration database has few of their people.
WHOLE = ("atlas_estimation_iud_ehr", "glp1_dili", "strategus_1.4_results_modules")
# Parts of the published specifications that do not run on the demonstration database, by what
# their verdicts say. The page of specifications lists them.
KNOWN = (
    "one id has one cohort",
    "has no entries",
    "cohorts have no entries",
    "cannot be run on",
    "it combines the results of several databases",
    "depends on another one",
    "the specification has no",
)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_descriptions_of_published_specifications_run_or_say_why_not(path, tmp_path):
    some = read_specification_plan(path)
    if path.stem not in WHOLE:
        some = replace(some, comparative=None, series=None, prediction=None)
    results = run_specification(demo_database(), some, tmp_path)
    for verdict in results.verdicts:
        if verdict.module not in FITS and verdict.reason:
            assert any(why in verdict.reason for why in KNOWN), verdict.line()
    model = results_model()
    for (module, name), columns in model.groupby(["module", "table_name"], sort=False):
        file = results.folder / module / f"{name}.csv"
        if file.exists():
            table = pd.read_csv(file, dtype=str, keep_default_na=False)
            assert [*table] == columns["column_name"].tolist()
            key = columns.loc[columns["primary_key"] == "Yes", "column_name"].tolist()
            assert not (key and table.duplicated(key).any()), name
