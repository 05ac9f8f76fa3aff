"""Tables without some of the CDM's columns, as cohort definitions read them."""

import duckdb
import numpy as np
import pytest

from steropes.errors import DataError
from steropes.studies import OmopDatabase, demo_database
from steropes.studies.cohorts import circe_cohorts

pytest.importorskip("duckcdm")
CELECOXIB, GLUCOSE = 1118084, 3004501
EVER = {"Start": {"Coeff": -1}, "End": {"Coeff": 1}, "UseEventEnd": False}


def users(rule=None, **more):
    """A definition of celecoxib's users with one inclusion rule."""
    rules = [] if rule is None else [{"name": "rule", "expression": {"Type": "ALL", **rule}}]
    item = {"concept": {"CONCEPT_ID": CELECOXIB}, "includeDescendants": True}
    return {
        "ConceptSets": [{"id": 0, "name": "drug", "expression": {"items": [item]}}],
        "PrimaryCriteria": {
            "CriteriaList": [{"DrugEra": {"CodesetId": 0}}],
            "ObservationWindow": {"PriorDays": 0, "PostDays": 0},
            "PrimaryCriteriaLimit": {"Type": "First"},
        },
        "InclusionRules": rules,
        **more,
    }


def counted(kind, occurrence, **attributes):
    """A rule on the number of events of a kind."""
    event = {"Criteria": {kind: attributes}, "StartWindow": EVER, "Occurrence": occurrence}
    return {"CriteriaList": [event], "DemographicCriteriaList": [], "Groups": []}


NONE, ANY = {"Type": 0, "Count": 0}, {"Type": 2, "Count": 1}


@pytest.fixture(scope="module")
def db():
    with OmopDatabase(demo_database()) as found:
        yield found


@pytest.mark.sampled
@pytest.mark.parametrize("kind", ["Death", "DeviceExposure", "VisitDetail", "Specimen", "DoseEra"])
def test_a_table_without_header_has_no_records(db, kind):
    everybody = circe_cohorts(db, {1: users()})
    kept = circe_cohorts(db, {1: users(counted(kind, NONE))})
    np.testing.assert_array_equal(kept.subject, everybody.subject)
    np.testing.assert_array_equal(kept.end, everybody.end)
    assert len(circe_cohorts(db, {1: users(counted(kind, ANY))})) == 0
    assert any("read as a table without records" in n.text for n in kept.notes)
    assert not any("without records" in n.text for n in everybody.notes)


def test_an_entry_event_and_a_censoring_event_may_be_deaths(db):
    dead = users(CensoringCriteria=[{"Death": {}}])
    assert len(circe_cohorts(db, {1: dead})) == len(circe_cohorts(db, {1: users()}))
    dead["PrimaryCriteria"]["CriteriaList"] = [{"Death": {}}]
    assert len(circe_cohorts(db, {1: dead})) == 0


def test_numbers_in_text_are_compared_as_numbers(tmp_path):
    path = tmp_path / "text.duckdb"
    with duckdb.connect(str(path)) as made:
        made.execute(f"ATTACH '{demo_database()}' AS demo (READ_ONLY)")
        for name in ("drug_era", "condition_occurrence", "observation_period", "person", "concept",
                     "concept_ancestor", "concept_relationship", "drug_exposure"):  # fmt: skip
            made.execute(f"CREATE TABLE {name} AS FROM demo.{name}")
        made.execute(
            "CREATE TABLE measurement AS SELECT row_number() OVER () AS measurement_id, person_id, "
            f"{GLUCOSE} AS measurement_concept_id, drug_era_start_date AS measurement_date, "
            "CASE WHEN person_id % 2 = 0 THEN '10.5' ELSE '9' END AS value_as_number "
            f"FROM drug_era WHERE drug_concept_id = {CELECOXIB}"
        )
    rule = counted("Measurement", ANY, ValueAsNumber={"Value": 9.5, "Op": "gt"})
    with OmopDatabase(path) as db:
        found = circe_cohorts(db, {1: users(rule)})
        assert len(found) > 0
        assert (found.subject % 2 == 0).all()
        lacking = [n.text for n in found.notes if n.topic == "missing_columns"]
        assert "measurement lacks range_low, range_high, visit_occurrence_id" in lacking[0]
    with duckdb.connect(str(path)) as made:
        made.execute("UPDATE measurement SET value_as_number = 'high'")
    with OmopDatabase(path) as db, pytest.raises(DataError, match="has text that is not a number"):
        circe_cohorts(db, {1: users(rule)})
    with duckdb.connect(str(path)) as made:
        made.execute("ALTER TABLE measurement DROP COLUMN measurement_id")
    with OmopDatabase(path) as db, pytest.raises(DataError, match="lacks the column mea"):
        circe_cohorts(db, {1: users(rule)})


def test_a_missing_table_and_an_unknown_column_are_named(db):
    with pytest.raises(DataError, match="the database has no table episode"):
        circe_cohorts(db, {1: users(counted("Episode", NONE))})
    dose = counted("DrugExposure", NONE, DoseUnitCS={"CodesetId": 0, "IsExclusion": False})
    with pytest.raises(DataError, match="reads a column that the database lacks"):
        circe_cohorts(db, {1: users(dose)})
