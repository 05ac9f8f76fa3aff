"""Modules count people with irregular rows as they count them after these rows are corrected."""

import datetime as dt
import json

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import START, TinyOmop
from tests.studies.strategus.prediction_designs import design as prediction_design
from tests.studies.strategus.prediction_designs import plan as prediction
from tests.studies.strategus.small_modules import CHARACTERIZATION, INCIDENCE
from tests.studies.strategus.small_specification import (
    CELECOXIB,
    circe,
    new_specification,
    write_database,
)
from tests.studies.strategus.test_characterization import plan as characterization
from tests.studies.strategus.test_characterization import settings
from tests.studies.strategus.test_incidence import KNOWN, design

from steropes.studies import OmopDatabase
from steropes.studies.cli.command_line import run
from steropes.studies.cohorts import CohortTable, circe_cohorts
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.prediction.prediction_population import population
from steropes.studies.strategus.dechallenge_rechallenge import challenge_counts
from steropes.studies.strategus.incidence_rates import incidence_tables
from steropes.studies.strategus.subset_queries import ENTRIES, make_subset
from steropes.studies.strategus.target_baseline import baseline_tables
from steropes.studies.strategus.time_to_event import times_to_events
from steropes.studies.strategus_plans.characterization_plan import Challenge
from steropes.studies.strategus_plans.incidence_plan import incidence_plan
from steropes.studies.strategus_plans.shared_cohorts import SubsetCohort
from steropes.studies.strategus_plans.subset_definitions import subset_definition
from steropes.studies.viewer.result_sources import read_sources
from steropes.studies.viewer.results_page import results_views

SUBSET = {
    "name": "observed adults",
    "definitionId": 1,
    "subsetOperators": [
        {"subsetType": "DemographicSubsetOperator", "ageMin": 18},
        {"subsetType": "LimitSubsetOperator", "priorTime": 200, "followUpTime": 200},
    ],
}
COVARIATES = {
    "temporal": False, "temporalSequence": False, "DemographicsGender": True,
    "DemographicsAge": True, "DemographicsPostObservationTime": True,
    "attr_class": "covariateSettings", "attr_fun": "getDbDefaultCovariateData",
}  # fmt: skip
# Observation of people as databases have it, from day -500 to day 500.
PERIODS = (
    [(-500, 500)],
    [(-500, 100), (50, 500)],
    [(-500, -100), (-99, 500)],
    [(-500, 500), (-500, 500), (0, 30)],
)


def outputs(path, number=8):
    """Return exact tables of the modules, with targets on day 0, outcomes on days 20 and 80."""
    start = np.datetime64(START)
    people = np.arange(1, number + 1)
    days = [(1, 0, 60), (3, 20, 20), (3, 80, 80)]
    entries = [(c, p, first, last) for p in people for c, first, last in days]
    cohort, person, first, last = np.array(entries).T
    with OmopDatabase(path) as db:
        table = CohortTable(cohort, person, start + first, start + last, db.identity)
        asked = settings(minPriorObservation=300, targetIds=1, covariateSettings=[COVARIATES])
        found = {
            "incidence": incidence_tables(db, incidence_plan(design(), (), KNOWN), table)[
                "ci_incidence_summary"
            ],
            "times": times_to_events(db, [(1, 3)], table),
            "challenges": challenge_counts(db, [Challenge(1, 3, 50, 30)], table),
            **baseline_tables(db, characterization(asked), table),
        }
        window = {"removeSubjectsWithPriorOutcome": False, "washoutPeriod": 300}
        [model] = prediction(prediction_design(populationSettings=window)).designs
        people = population(db, model, table)
        found |= {"entries": people.entries, "attrition": people.attrition}
        with db.workspace() as work:
            table.place(work, ENTRIES)
            definition = subset_definition(json.dumps(SUBSET), ())
            make_subset(db, work, SubsetCohort(7, 1, definition, ""))
            found["subset"] = work.frame(
                f"SELECT * FROM {ENTRIES} WHERE cohort_definition_id = 7 ORDER BY ALL"
            )
    return found


def test_modules_read_joined_periods_and_people_once(tmp_path):
    paths = {}
    for kind in ("irregular", "regular"):
        folder = tmp_path / kind
        folder.mkdir()
        omop = TinyOmop(folder)
        for k in range(8):
            person = omop.person(observed=None, born=1950 + 5 * k)
            if kind == "regular":
                omop.observed(person, -500, 500)
                continue
            for first, last in PERIODS[k % 4]:
                omop.observed(person, first, last)
            if k % 2:  # Of several rows the smallest values count.
                omop.rows["person"].append((person, 8532, 2005))
        paths[kind] = omop.write()
    with duckdb.connect(str(paths["irregular"])) as con:
        for column in ("start", "end"):  # Dates as text need an expression with braces.
            name = f"observation_period_{column}_date"
            con.execute(f"ALTER TABLE observation_period ALTER {name} TYPE VARCHAR")
    found, expected = (outputs(paths[kind]) for kind in ("irregular", "regular"))
    assert len(found["subset"]) == len(found["entries"]) == 8
    for name, table in expected.items():
        pd.testing.assert_frame_equal(found[name], table, obj=name)


def test_modules_leave_out_people_without_a_row_in_person(tmp_path):
    paths = {}
    for kind, number in (("unknown", 12), ("known", 8)):
        folder = tmp_path / kind
        folder.mkdir()
        omop = TinyOmop(folder)
        for k in range(number):
            omop.person(observed=(-500, 500), born=1950 + 5 * k)
        del omop.rows["person"][8:]
        paths[kind] = omop.write()
    found, expected = outputs(paths["unknown"], 12), outputs(paths["known"])
    for name in {*expected} - {"attrition", "subset"}:
        pd.testing.assert_frame_equal(found[name], expected[name], obj=name)
    rule, count = "has a row in the table person", ["target_count", "unique_people"]
    attrition = found["attrition"].set_index("description")
    assert attrition.loc["Original cohorts", count].tolist() == [12, 12]
    assert attrition.loc[rule, count].tolist() == [8, 8]
    assert rule not in expected["attrition"]["description"].tolist()


def test_unknown_people_take_no_place_in_the_sample_of_a_prediction(tmp_path):
    omop = TinyOmop(tmp_path)
    for _ in range(30):
        omop.person(observed=(-500, 500))
    del omop.rows["person"][:10]
    [model] = prediction(prediction_design(restrictPlpDataSettings={"sampleSize": 15})).designs
    day = [np.datetime64(START)] * 30
    with OmopDatabase(omop.write()) as db:
        table = CohortTable([1] * 30, np.arange(1, 31), day, day, db.identity)
        found = population(db, model, table)
    assert len(found.entries) == 15
    assert found.entries["person_id"].min() > 10


FAR = "9999-12-31"


@pytest.fixture(scope="module")
def far(tmp_path_factory):
    """A database of which every third person is observed until a placeholder date."""
    folder = write_database(tmp_path_factory.mktemp("far") / "database", 300)
    path = f"{folder}/observation_period.parquet"
    with duckdb.connect() as con:
        con.execute(f"CREATE TABLE p AS FROM '{path}'")
        con.execute(
            f"UPDATE p SET observation_period_end_date = DATE '{FAR}' WHERE person_id % 3 = 0"
        )
        con.execute(f"COPY p TO '{path}'")
        con.execute(f"CREATE TABLE q AS FROM '{folder}/person.parquet' WHERE person_id > 30")
        con.execute(f"COPY q TO '{folder}/person.parquet'")
    return folder


@pytest.mark.slow
def test_a_specification_ends_all_observation_on_a_day(far, tmp_path, capsys):
    given = new_specification([])
    forever = json.loads(json.dumps(INCIDENCE))
    forever["settings"]["irDesign"]["timeAtRiskDefs"][0]["end"] = {
        "dateField": "end", "offset": 999999,
    }  # fmt: skip
    given["moduleSpecifications"] = [*given["moduleSpecifications"][:1], forever, CHARACTERIZATION]
    path = tmp_path / "study.json"
    path.write_text(json.dumps(given))

    def released(out, *more):
        command = ["strategus", str(path), "--database", far, "--output", str(out)]
        assert run([*command, "--disclosure", "none", *more]) == 0
        said = " ".join(capsys.readouterr().out.split())
        folder = out / "release"
        return said, {
            name: pd.read_csv(folder / f"{name}.csv")
            for name in (
                "CohortIncidenceModule/ci_incidence_summary",
                "CohortIncidenceModule/data_note",
                "CharacterizationModule/data_note",
            )
        }

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    until = ["--observed-until", "2020-12-31"]
    (said, found), (less, ended) = released(whole), released(cut, *until)
    for name in ("CohortIncidenceModule/data_note", "CharacterizationModule/data_note"):
        assert {*found[name]["topic"]} == {"unknown_people", "observed_after_data"}
        assert {*ended[name]["topic"]} == {"unknown_people"}
    assert "People are observed after the last record" in said
    assert "People are observed after" not in less
    assert "People without a row in the table person are left out" in less
    days = [
        tables["CohortIncidenceModule/ci_incidence_summary"]["person_days_pe"].max()
        for tables in (found, ended)
    ]
    assert days[0] > 50 * days[1]
    assert run(["strategus", str(path), "--database", far, "--output", str(cut)]) == 2
    assert "last day of observation" in capsys.readouterr().err
    view = {v.name: v.data() for v in results_views(read_sources([whole]), DisclosureRules())}
    assert view["data-notes"]["note"].str.startswith("People are observed after").any()
    for more in (["--check"], ["--results", str(whole)]):
        assert run(["strategus", str(path), *more, *until]) == 2
        assert "--observed-until needs a run" in capsys.readouterr().err


def test_definitions_of_cohorts_see_the_last_day_of_observation(far):
    given = json.loads(circe(CELECOXIB, "DrugEra"))
    given["PrimaryCriteria"]["ObservationWindow"] = {"PriorDays": 0, "PostDays": 20000}
    with OmopDatabase(far) as db:
        assert len(circe_cohorts(db, {1: json.dumps(given)}))
        assert not len(circe_cohorts(db.until(dt.date(2020, 12, 31)), {1: json.dumps(given)}))


def test_unknown_ages_are_no_ages_of_zero(tmp_path):
    omop = TinyOmop(tmp_path)
    people = [omop.person(born=1950 if k < 6 else None) for k in range(10)]
    start = [np.datetime64(START)] * 10
    with OmopDatabase(omop.write()) as db:
        table = CohortTable([1] * 10, people, start, start, db.identity)
        asked = settings(targetIds=1, covariateSettings=[COVARIATES])
        found = baseline_tables(db, characterization(asked), table)["c_covariates_continuous"]
    age = found.set_index("covariate_id").loc[1002]
    assert (age["count_value"], age["persons"]) == (6, 6)
    assert (age["average_value"], age["min_value"]) == (START.year - 1950, START.year - 1950)
    assert found.set_index("covariate_id").loc[1009, "count_value"] == 10
