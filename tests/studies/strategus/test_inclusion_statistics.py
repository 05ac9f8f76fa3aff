"""Inclusion statistics of cohorts: events and people that meet rules, alone and together."""

import json

import duckdb
import numpy as np
import pytest

from steropes.studies import OmopDatabase, demo_database
from steropes.studies.cohorts.circe_cohort_definitions import cohorts_with_statistics
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.release.strategus_release import released_statistics
from steropes.studies.strategus.cohort_generation import generate_cohorts
from steropes.studies.strategus_plans.shared_cohorts import DefinedCohort, SharedCohorts

pytest.importorskip("duckcdm")
CELECOXIB = 1118084


def rule(name, **criterion):
    """A rule on the person at the entry."""
    group = {"Type": "ALL", "CriteriaList": [], "DemographicCriteriaList": [criterion]}
    return {"name": name, "expression": {**group, "Groups": []}}


DEFINITION = {
    "ConceptSets": [
        {"id": 0, "name": "d", "expression": {"items": [{"concept": {"CONCEPT_ID": CELECOXIB}}]}}
    ],
    "PrimaryCriteria": {
        "CriteriaList": [{"DrugEra": {"CodesetId": 0}}],
        "ObservationWindow": {"PriorDays": 0, "PostDays": 0},
        "PrimaryCriteriaLimit": {"Type": "All"},
    },
    "QualifiedLimit": {"Type": "All"},
    "ExpressionLimit": {"Type": "First"},
    "InclusionRules": [
        rule("women", Gender=[{"CONCEPT_ID": 8532, "CONCEPT_NAME": "female"}]),
        rule("over 39", Age={"Value": 39, "Op": "gt"}),
    ],
    "CensorWindow": {"EndDate": "1990-12-31"},
}


@pytest.fixture(scope="module")
def db():
    with OmopDatabase(demo_database()) as found:
        yield found


@pytest.fixture(scope="module")
def counted(db):
    cohorts = SharedCohorts((DefinedCohort(1, "users", json.dumps(DEFINITION)),))
    made, statistics = generate_cohorts(db, cohorts, lambda _: None, True)
    return made.table, statistics


@pytest.fixture(scope="module")
def events(db):
    """Sex and age at each era that begins in an observation period."""
    rows = db.rows(
        "SELECT e.person_id, e.drug_era_start_date, p.gender_concept_id = 8532, "
        "year(e.drug_era_start_date) - p.year_of_birth > 39 "
        f"FROM {db.table('drug_era')} e JOIN {db.table('person')} p ON p.person_id = e.person_id "
        f"JOIN {db.table('observation_period')} o ON o.person_id = e.person_id "
        "AND e.drug_era_start_date BETWEEN o.observation_period_start_date "
        f"AND o.observation_period_end_date WHERE drug_concept_id = {CELECOXIB}"
    )
    return np.array([(w, o) for _, _, w, o in rows], bool), [p for p, *_ in rows]


def test_events_are_counted_by_the_rules_that_they_meet(counted, events):
    met, people = events
    table, statistics = counted
    result = statistics["cohort_inclusion_result"].query("mode_id == 0")
    masks = met @ [1, 2]
    expected = {m: int((masks == m).sum()) for m in {*masks.tolist()}}
    assert dict(zip(result["inclusion_rule_mask"], result["person_count"], strict=True)) == expected
    stats = statistics["cohort_inclusion_stats"].query("mode_id == 0").sort_values("rule_sequence")
    assert stats["person_count"].tolist() == met.sum(0).tolist()
    # A gain is the number of events that only this rule excludes.
    assert stats["gain_count"].tolist() == [expected.get(2, 0), expected.get(1, 0)]
    assert (stats["person_total"] == len(people)).all()
    summary = statistics["cohort_summary_stats"].query("mode_id == 1").iloc[0]
    best = {p for p, m in zip(people, masks, strict=True) if m == 3}
    assert (summary["base_count"], summary["final_count"]) == (len({*people}), len(best))
    lost = statistics["cohort_censor_stats"]["lost_count"].item()
    assert len({*table.subject}) == len(best) - lost
    assert 0 < lost < len(best)


def test_statistics_of_events_know_of_how_many_people_they_are(counted, events):
    met, people = events
    _, statistics = counted
    people = np.array(people)
    by_mask = {m: len({*people[met @ [1, 2] == m]}) for m in range(4)}
    result = statistics["cohort_inclusion_result"].query("mode_id == 0")
    found = result.set_index("inclusion_rule_mask")["person_count_people"].to_dict()
    assert found == {m: n for m, n in by_mask.items() if n}
    stats = statistics["cohort_inclusion_stats"].query("mode_id == 0").sort_values("rule_sequence")
    assert stats["person_count_people"].tolist() == [len({*people[rule]}) for rule in met.T]
    assert stats["gain_count_people"].tolist() == [by_mask[2], by_mask[1]]
    assert (stats["person_total_people"] == len({*people})).all()
    summary = statistics["cohort_summary_stats"].query("mode_id == 0").iloc[0]
    assert summary["base_count_people"] == len({*people})
    assert summary["final_count_people"] == by_mask[3]


def test_statistics_of_people_count_people(counted):
    for table in counted[1].values():
        rows = table.query("mode_id == 1") if "mode_id" in table else table
        counts = [c for c in rows if c.endswith("_people")]
        assert counts
        for name in counts:
            assert (rows[name] == rows[name.removesuffix("_people")]).all()


def test_many_events_of_few_people_are_suppressed_in_inclusion_statistics(omop):
    """Two men with ten eras each, among women with one."""
    omop.concept(CELECOXIB, "celecoxib")
    for k in range(2):
        man = omop.person(sex=8507, observed=(0, 2000), born=1900 + k)
        for era in range(10):
            omop.drug(man, CELECOXIB, 100 * era, 100 * era + 9)
    for _ in range(12):
        omop.drug(omop.person(sex=8532, observed=(0, 500), born=1900), CELECOXIB, 10, 20)
    path = omop.write()
    with duckdb.connect(str(path)) as file:
        file.execute("ALTER TABLE drug_era ADD COLUMN drug_era_id BIGINT")
        file.execute("UPDATE drug_era SET drug_era_id = rowid")
    with OmopDatabase(path) as db:
        _, statistics = cohorts_with_statistics(db, {1: json.dumps(DEFINITION)})
    found = released_statistics(statistics, DisclosureRules(), "x")
    result = found["cg_cohort_inc_result"].query("mode_id == 0")
    counts = dict(zip(result["inclusion_rule_mask"], result["person_count"], strict=True))
    assert counts == {2: -5, 3: 10}
    summary = found["cg_cohort_summary_stats"].query("mode_id == 0").iloc[0]
    assert (summary["base_count"], summary["final_count"]) == (30, 10)
    stats = found["cg_cohort_inc_stats"].query("mode_id == 0").sort_values("rule_sequence")
    assert stats["gain_count"].tolist() == [-5, 0]
    assert not any("_people" in c for table in found.values() for c in table)


def test_released_statistics_are_rounded(counted):
    _, statistics = counted
    rules = DisclosureRules("ohdsi", 5)
    found = released_statistics(statistics, rules, "x")
    assert sorted(found) == [
        "cg_cohort_censor_stats", "cg_cohort_inc_result", "cg_cohort_inc_stats",
        "cg_cohort_summary_stats",
    ]  # fmt: skip
    for table in found.values():
        for name in table.columns:
            if name.endswith(("_count", "_total")):
                assert (table[name] % 5 == 0).all()
    none = DisclosureRules("none", 0)
    exact = released_statistics(statistics, none, "x")["cg_cohort_inc_result"]
    assert exact["person_count"].tolist() == (
        statistics["cohort_inclusion_result"]["person_count"].tolist()
    )
