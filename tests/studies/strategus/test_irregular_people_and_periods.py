"""Modules count people with irregular rows as they count them after these rows are corrected."""

import json

import duckdb
import numpy as np
import pandas as pd
from tests.studies.conftest import START, TinyOmop
from tests.studies.strategus.test_characterization import plan as characterization
from tests.studies.strategus.test_characterization import settings
from tests.studies.strategus.test_incidence import KNOWN, design
from tests.studies.strategus.test_prediction import design as prediction_design
from tests.studies.strategus.test_prediction import plan as prediction

from steropes.studies import CohortTable, OmopDatabase
from steropes.studies.prediction.prediction_population import population
from steropes.studies.strategus.incidence_rates import incidence_tables
from steropes.studies.strategus.subset_queries import ENTRIES, make_subset
from steropes.studies.strategus.target_baseline import baseline_tables
from steropes.studies.strategus.time_to_event import times_to_events
from steropes.studies.strategus_plans.incidence_plan import incidence_plan
from steropes.studies.strategus_plans.shared_cohorts import SubsetCohort
from steropes.studies.strategus_plans.subset_definitions import subset_definition

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


def outputs(path):
    """Return exact tables of the modules, with targets on day 0, outcomes on days 20 and 80."""
    start = np.datetime64(START)
    people = np.arange(1, 9)
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
