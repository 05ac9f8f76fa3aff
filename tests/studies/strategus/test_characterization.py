"""Times to events and covariates of targets, against counts by hand."""

import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import START, TinyOmop

from steropes.errors import DataError
from steropes.studies import OmopDatabase, demo_database
from steropes.studies.cohorts import CohortTable, drug_era_cohorts
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.release.strategus_release import released_baseline, released_times
from steropes.studies.strategus.target_baseline import baseline_tables
from steropes.studies.strategus.time_to_event import times_to_events
from steropes.studies.strategus_plans.characterization_plan import characterization_plan
from steropes.studies.strategus_plans.shared_cohorts import DefinedCohort, SharedCohorts

CELECOXIB, DICLOFENAC = 1118084, 1124300
COHORTS = SharedCohorts(tuple(DefinedCohort(i, f"cohort {i}", "{}") for i in (1, 2, 3)))
COVARIATES = {
    "temporal": False, "temporalSequence": False, "DemographicsGender": True,
    "DemographicsAge": True, "DemographicsTimeInCohort": True,
    "DemographicsPostObservationTime": True, "DistinctProcedureCountShortTerm": True,
    "attr_class": "covariateSettings", "attr_fun": "getDbDefaultCovariateData",
}  # fmt: skip


def settings(**changes):
    """Settings of Characterization 3."""
    baseline = {
        "targetIds": [1, 2], "limitToFirstInNDays": 99999, "minPriorObservation": 365,
        "covariateSettings": [COVARIATES], "attr_class": "targetBaselineSettings",
    }  # fmt: skip
    return {
        "analysis": {
            "timeToEventSettings": [{"targetIds": [1, 2], "outcomeIds": 3}],
            "targetBaselineSettings": [{**baseline, **changes}],
            "attr_class": "characterizationSettings",
        },
        "minCharacterizationMean": 0.01,
        "minSMD": 0.01,
        "minCovariateCount": 5,
        "mode": "CohortIncidence",
        "outputTable": "characterization_cohorts",
    }


def plan(values=None):
    return characterization_plan(values or settings(), ("settings",), COHORTS)


def days(*numbers):
    return [np.datetime64(START) + n for n in numbers]


def test_places_and_days_of_outcomes(tmp_path):
    omop = TinyOmop(tmp_path)
    person = omop.person(observed=(0, 1000))
    starts, ends = (10, 40, 5, 15, 30, 45, 60, 400), (20, 50, 5, 15, 30, 45, 60, 400)
    cohort = [1, 1, *[3] * 6]
    table = CohortTable(cohort, [person] * 8, days(*starts), days(*ends))
    with OmopDatabase(omop.write()) as db:
        found = times_to_events(db, [(1, 3), (2, 3)], table)
    daily = found[found["time_scale"] == "per 1-day"]
    rows = daily[["outcome_type", "target_outcome_type", "time_to_event", "num_events"]]
    assert sorted(rows.itertuples(index=False, name=None), key=lambda r: r[2]) == [
        ("first", "Before first target start", -5, 1),
        ("subsequent", "During first", 5, 1),
        ("subsequent", "Between target eras", 20, 1),
        ("subsequent", "During subsequent", 35, 1),
        ("subsequent", "After last target end", 50, 1),
    ]
    monthly = found[found["time_scale"] == "per 30-day"]
    assert sorted(monthly["time_to_event"]) == [-30, 30, 30, 60, 60, 390 + 30]
    yearly = found[found["time_scale"] == "per 365-day"]
    assert yearly["num_events"].sum() == 6
    assert {*yearly["time_to_event"]} == {-365, 365, 730}


def test_outcomes_of_other_observation_periods_do_not_count(tmp_path):
    omop = TinyOmop(tmp_path)
    person = omop.person(observed=(0, 100))
    table = CohortTable([1, 3], [person] * 2, days(10, 150), days(20, 150))
    with OmopDatabase(omop.write()) as db:
        assert len(times_to_events(db, [(1, 3)], table)) == 0


def test_released_times_are_rounded():
    counts = pd.DataFrame({"num_events": [1, 12, 103], "persons": [1, 12, 50]})
    found = released_times(counts, DisclosureRules("ohdsi", 5), "x")
    assert found["num_events"].tolist() == [10, 105]
    assert "persons" not in found


def test_many_events_of_few_people_are_withheld(tmp_path):
    omop = TinyOmop(tmp_path)
    people = [omop.person(observed=(0, 3000)) for _ in range(2)]
    outcomes = [*range(101, 113)]
    table = CohortTable(
        [1, 1, *[3] * 12], [*people, *people * 6], days(100, 100, *outcomes),
        days(100, 100, *outcomes),
    )  # fmt: skip
    with OmopDatabase(omop.write()) as db:
        exact = times_to_events(db, [(1, 3)], table)
    month = exact[(exact["time_scale"] == "per 30-day") & (exact["outcome_type"] == "subsequent")]
    assert month[["num_events", "persons"]].to_numpy().tolist() == [[10, 2]]
    found = released_times(exact, DisclosureRules("ohdsi", 5), "x")
    assert len(found) == 0


@pytest.fixture(scope="module")
def db():
    with OmopDatabase(demo_database()) as found:
        yield found


@pytest.fixture(scope="module")
def exact(db):
    cohorts = drug_era_cohorts(db, {1: CELECOXIB, 2: DICLOFENAC})
    return baseline_tables(db, plan(), cohorts)


@pytest.fixture(scope="module")
def entries(db):
    """First eras of celecoxib after a year of observation."""
    rows = db.rows(
        "SELECT gender_concept_id, year(first) - year_of_birth, "
        "observation_period_end_date::DATE - first, last - first FROM ("
        "SELECT person_id, min(drug_era_start_date) AS first, "
        f"arg_min(drug_era_end_date, drug_era_start_date) AS last FROM {db.table('drug_era')} "
        f"WHERE drug_concept_id = {CELECOXIB} GROUP BY ALL) e "
        f"JOIN {db.table('person')} p USING (person_id) "
        f"JOIN {db.table('observation_period')} o USING (person_id) "
        "WHERE first BETWEEN observation_period_start_date + 365 AND observation_period_end_date"
    )
    return np.array(rows, float)


def test_means_are_those_of_the_entries(exact, entries):
    counts = exact["c_cohort_counts"].set_index("target_cohort_id").loc[1]
    assert counts["row_count"] == counts["person_count"] == len(entries)
    ones = exact["c_covariates"].query("target_cohort_id == 1").set_index("covariate_id")
    women = (entries[:, 0] == 8532).sum()
    assert ones.loc[8532001, "sum_value"] == women
    assert ones.loc[8532001, "average_value"] == pytest.approx(women / len(entries))
    values = exact["c_covariates_continuous"].query("target_cohort_id == 1")
    values = values.set_index("covariate_id")
    for covariate, column in ((1002, 1), (1009, 2), (1010, 3)):
        line, own = values.loc[covariate], entries[:, column]
        assert line["count_value"] == len(own)
        assert line["average_value"] == pytest.approx(own.mean())
        assert line["standard_deviation"] == pytest.approx(own.std(ddof=1))
        assert line["median_value"] == np.quantile(own, 0.5, method="inverted_cdf")
        assert line["p_90_value"] == np.quantile(own, 0.9, method="inverted_cdf")
        assert (line["min_value"], line["max_value"]) == (own.min(), own.max())


def test_counts_have_zeros_of_people_without_records(exact, entries):
    values = exact["c_covariates_continuous"].query("target_cohort_id == 1")
    line = values[values["covariate_id"] % 1000 == 913].iloc[0]
    assert 5 < line["count_value"] < len(entries)
    assert line["p_10_value"] == line["min_value"] == 0
    total = line["average_value"] * len(entries)
    assert total == pytest.approx(round(total))
    assert total >= line["count_value"]


def test_released_covariates_show_no_single_person(exact):
    rules = DisclosureRules("ohdsi", 5)
    found = released_baseline(exact, rules, "x")
    ones, values = found["c_covariates"], found["c_covariates_continuous"]
    assert (ones["sum_value"] % 5 == 0).all()
    assert values[["min_value", "max_value"]].isna().all(axis=None)
    assert (values["count_value"] % 5 == 0).all()
    assert not {"people", "persons"} & {*ones, *values}
    assert found["c_cohort_counts"][["min_exposure_time"]].isna().all(axis=None)
    kept = released_baseline(exact, DisclosureRules("none", 0), "x")["c_covariates"]
    assert kept["sum_value"].tolist() == exact["c_covariates"]["sum_value"].tolist()


def test_entries_count_again_after_the_days_that_are_asked(tmp_path):
    omop = TinyOmop(tmp_path)
    person = omop.person(observed=(0, 3000))
    table = CohortTable([1, 1, 1], [person] * 3, days(400, 500, 2000), days(410, 510, 2010))
    with OmopDatabase(omop.write()) as db:
        for gap, count in ((99999, 1), (365, 2), (0, 3)):
            few = {"DemographicsGender": True}
            one = plan(settings(targetIds=1, limitToFirstInNDays=gap, covariateSettings=few))
            counts = baseline_tables(db, one, table)["c_cohort_counts"]
            assert counts["row_count"].tolist() == [count]


def test_many_entries_of_few_people_are_withheld(tmp_path):
    omop = TinyOmop(tmp_path)
    people = [omop.person(observed=(0, 3000)) for _ in range(2)]
    starts = [*range(500, 2500, 200)] * 2
    table = CohortTable(
        [1] * 20, np.repeat(people, 10), days(*starts), days(*(s + 10 for s in starts))
    )
    with OmopDatabase(omop.write()) as db:
        asked = {"DemographicsGender": True, "DemographicsAge": True}
        one = plan(settings(targetIds=1, limitToFirstInNDays=100, covariateSettings=asked))
        exact = baseline_tables(db, one, table)
    assert exact["c_cohort_counts"][["row_count", "person_count"]].to_numpy().tolist() == [[20, 2]]
    found = released_baseline(exact, DisclosureRules("ohdsi", 5), "x")
    counts = found["c_cohort_counts"]
    assert counts[["row_count", "person_count"]].to_numpy().tolist() == [[-5, -5]]
    assert counts["mean_exposure_time"].isna().all()
    assert (found["c_covariates"]["sum_value"] == -5).all()
    assert found["c_covariates"]["average_value"].isna().all()
    values = found["c_covariates_continuous"]
    assert (values["count_value"] == -5).all()
    assert values[["average_value", "standard_deviation", "median_value"]].isna().all(axis=None)


def test_a_covariate_of_many_entries_of_few_people_is_withheld(tmp_path):
    omop = TinyOmop(tmp_path)
    people = [omop.person(observed=(0, 3000), sex=8507) for _ in range(30)]
    people += [omop.person(observed=(0, 3000), sex=8532)]
    starts = [*range(500, 2500, 200)]
    entries = [(p, 500) for p in people[:-1]] + [(people[-1], day) for day in starts]
    subject, first = zip(*entries, strict=True)
    table = CohortTable([1] * 40, subject, days(*first), days(*first))
    with OmopDatabase(omop.write()) as db:
        asked = {"DemographicsGender": True}
        one = plan(settings(targetIds=1, limitToFirstInNDays=100, covariateSettings=asked))
        exact = baseline_tables(db, one, table)
    women = exact["c_covariates"].set_index("covariate_id").loc[8532001]
    assert (women["sum_value"], women["persons"]) == (10, 1)
    found = released_baseline(exact, DisclosureRules("ohdsi", 5), "x")["c_covariates"]
    shown = found.set_index("covariate_id")
    assert shown.loc[8532001, "sum_value"] == -5
    assert np.isnan(shown.loc[8532001, "average_value"])
    assert shown.loc[8507001, "sum_value"] == 30


def test_other_lists_and_unknown_fields_are_named():
    values = settings()
    values["analysis"]["riskFactorSettings"] = [{"targetIds": 1}]
    values["analysis"]["targetBaselineSettings"][0]["minAge"] = 18
    lines = [v.line() for v in plan(values).verdicts]
    assert lines[0] == "time to event 1: runs"
    assert "targetBaselineSettings[0].minAge is not known" in lines[1]
    assert lines[2] == "risk factors 1: does not run: it has no cohorts"
    assert plan(values).baselines == ()
    values["analysis"]["another"] = 1
    with pytest.raises(DataError, match=r"settings\.analysis\.another is not known"):
        plan(values)


def test_settings_before_version_1_have_no_wrapper():
    old = settings()["analysis"]
    found = plan(old)
    assert found.pairs == ((1, 3), (2, 3))
    assert [b.least_mean for b in found.baselines] == [0]
    assert len(found.without({2: "gone"}).baselines[0].targets) == 1
    assert found.without({3: "gone"}).pairs == ()


def test_settings_that_share_targets_or_covariates_repeat_no_key(db):
    values = settings()
    (one,) = values["analysis"]["targetBaselineSettings"]
    values["analysis"]["targetBaselineSettings"] = [{**one, "targetIds": [1]}, one]
    values["analysis"]["aggregateCovariateSettings"] = [
        {**one, "outcomeIds": 3, "minCharacterizationMean": mean} for mean in (0.1, 0.2)
    ]
    made = plan(values)
    assert [b.targets for b in made.baselines] == [(1, 2)] * 3
    found = baseline_tables(db, made, drug_era_cohorts(db, {1: CELECOXIB, 2: DICLOFENAC}))
    keys = {
        "c_settings": [], "c_cohort_details": ["target_cohort_id"],
        "c_covariate_ref": ["covariate_id"], "c_analysis_ref": ["analysis_id"],
        "c_covariates": ["target_cohort_id", "covariate_id"],
        "c_covariates_continuous": ["target_cohort_id", "covariate_id"],
    }  # fmt: skip
    for name, key in keys.items():
        assert not found[name].duplicated(["setting_id", *key]).any(), name
    assert not found["c_cohort_counts"].duplicated().any()


def test_the_least_mean_of_a_setting_replaces_that_of_the_module():
    values = settings()["analysis"]
    values["aggregateCovariateSettings"] = values.pop("targetBaselineSettings")
    values["aggregateCovariateSettings"][0]["minCharacterizationMean"] = 0.25
    assert [b.least_mean for b in plan(values).baselines] == [0.25]
    del values["aggregateCovariateSettings"][0]["minCharacterizationMean"]
    found = plan({"analysis": values, "minCharacterizationMean": 0.125})
    assert [b.least_mean for b in found.baselines] == [0.125]


def test_tables_without_covariates_of_targets_have_no_rows(db):
    values = settings()
    del values["analysis"]["targetBaselineSettings"]
    cohorts = drug_era_cohorts(db, {1: CELECOXIB})
    exact = baseline_tables(db, plan(values), cohorts)
    found = released_baseline(exact, DisclosureRules("ohdsi", 5), "x")
    assert {*found} == {*exact}
    assert all(len(table) == 0 for table in found.values())
