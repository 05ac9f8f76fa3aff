"""Cohorts as ATLAS defines them, against the same rules in pandas."""

import json
from concurrent.futures import ThreadPoolExecutor

import duckdb
import numpy as np
import pandas as pd
import pytest

from steropes.errors import DataError
from steropes.studies import OmopDatabase, demo_database, read_spec
from steropes.studies._optional_packages import MissingExtraError
from steropes.studies.cohorts import CohortSources, circe_cohorts, drug_era_cohorts
from steropes.studies.cohorts.circe_cohort_definitions import (
    cohorts_with_statistics,
    entry_records,
)
from steropes.studies.database.omop import Workspace

pytest.importorskip("duckcdm")
CELECOXIB, DICLOFENAC, BLEEDING = 1118084, 1124300, 192671


def concept_set(number, concept, **more):
    item = {"concept": {"CONCEPT_ID": concept}, "includeDescendants": True, **more}
    return {"id": number, "name": "set", "expression": {"items": [item]}}


def definition(kind, concept, *, prior_days=0, limit="All", first=False, rules=(), sets=(), **more):
    """A definition with one kind of entry event, on concept set 0."""
    event = {kind: {"CodesetId": 0, **({"First": True} if first else {})}}
    return {
        "ConceptSets": [concept_set(0, concept), *sets],
        "PrimaryCriteria": {
            "CriteriaList": [event],
            "ObservationWindow": {"PriorDays": prior_days, "PostDays": 0},
            "PrimaryCriteriaLimit": {"Type": limit},
        },
        "QualifiedLimit": {"Type": "First"},
        "ExpressionLimit": {"Type": limit},
        "InclusionRules": list(rules),
        "CensoringCriteria": [],
        "CollapseSettings": {"CollapseType": "ERA", "EraPad": 0},
        "CensorWindow": {},
        **more,
    }


def no_bleeding_before():
    """An inclusion rule: no record of concept set 1 up to the entry."""
    return {
        "name": "no bleeding before",
        "expression": {
            "Type": "ALL",
            "CriteriaList": [
                {
                    "Criteria": {"ConditionOccurrence": {"CodesetId": 1}},
                    "StartWindow": {"Start": {"Coeff": -1}, "End": {"Days": 0, "Coeff": -1}},
                    "Occurrence": {"Type": 0, "Count": 0},
                }
            ],
            "DemographicCriteriaList": [],
            "Groups": [],
        },
    }


ON_DRUG = {"EndStrategy": {"DateOffset": {"DateField": "EndDate", "Offset": 0}}}
NEW_USERS = definition(
    "DrugEra",
    CELECOXIB,
    prior_days=365,
    limit="First",
    first=True,
    rules=[no_bleeding_before()],
    sets=[concept_set(1, BLEEDING)],
    **ON_DRUG,
)


@pytest.fixture(scope="module")
def db():
    with OmopDatabase(demo_database()) as db:
        yield db


@pytest.fixture(scope="module")
def tables():
    with duckdb.connect(str(demo_database()), read_only=True) as con:
        names = ("drug_era", "condition_occurrence", "observation_period")
        return {n: con.execute(f"FROM {n}").df().rename(columns=str.lower) for n in names}


def expected_new_users(tables):
    eras = (
        tables["drug_era"]
        .query("drug_concept_id == @CELECOXIB")
        .sort_values(["person_id", "drug_era_start_date", "drug_era_id"])
    )
    first = eras.groupby("person_id").first().reset_index()
    both = first.merge(tables["observation_period"], on="person_id")
    start = both["drug_era_start_date"]
    seen = (start - pd.Timedelta(days=365) >= both["observation_period_start_date"]) & (
        start <= both["observation_period_end_date"]
    )
    both = both[seen]
    bled = tables["condition_occurrence"].query("condition_concept_id == @BLEEDING")
    # events are looked for within the observation period
    before = both.merge(bled, on="person_id", suffixes=("", "_bled"))
    before = before[
        (before["condition_start_date"] <= before["drug_era_start_date"])
        & (before["condition_start_date"] >= before["observation_period_start_date"])
    ]
    kept = both[~both["person_id"].isin(before["person_id"])].sort_values("person_id")
    ends = kept[["drug_era_end_date", "observation_period_end_date"]].min(axis=1)
    return kept["person_id"], kept["drug_era_start_date"], ends


def test_a_definition_gives_what_its_rules_say(db, tables):
    found = circe_cohorts(db, {7: NEW_USERS})
    person, start, end = expected_new_users(tables)
    assert 0 < len(person) < 1844
    np.testing.assert_array_equal(found.subject, person)
    np.testing.assert_array_equal(found.start, start.to_numpy().astype("datetime64[D]"))
    np.testing.assert_array_equal(found.end, end.to_numpy().astype("datetime64[D]"))
    assert found.database == db.identity


def test_all_eras_of_a_drug_are_the_cohort_of_its_eras(db):
    made = definition("DrugEra", DICLOFENAC, **ON_DRUG, QualifiedLimit={"Type": "All"})
    found, eras = circe_cohorts(db, {2: made}), drug_era_cohorts(db, {2: DICLOFENAC})
    inside = np.isin(eras.subject, found.subject)  # observed on that day
    np.testing.assert_array_equal(found.subject, eras.subject[inside])
    np.testing.assert_array_equal(found.start, eras.start[inside])


def test_two_cohorts_of_one_connection_never_mix(tables):
    """Their definitions use the same numbers for other concepts, and run at the same time."""
    ids = (CELECOXIB, DICLOFENAC, 1177480, 1127433)
    with duckdb.connect(str(demo_database()), read_only=True) as con, OmopDatabase(con) as db:

        def make(concept):
            return circe_cohorts(db, {1: definition("DrugEra", concept)})

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(make, ids))
        together = circe_cohorts(db, {i: definition("DrugEra", i) for i in ids})
        [(left,)] = con.execute("SELECT count(*) FROM duckdb_tables() WHERE temporary").fetchall()
    for concept, table in zip(ids, found, strict=True):
        alone = together.only(concept)
        taken = tables["drug_era"].query("drug_concept_id == @concept")["person_id"]
        assert {*table.subject} <= {*taken}
        np.testing.assert_array_equal(table.subject, alone.subject)
        np.testing.assert_array_equal(table.start, alone.start)
    assert left == 0


def test_many_definitions_read_the_database_once(db, monkeypatch):
    """Only the statements of each definition are its own; tables are examined for all."""
    ran = []
    for name in ("run", "rows", "frame"):
        whole = getattr(Workspace, name)

        def noted(self, sql, *values, whole=whole):
            ran.append(sql)
            return whole(self, sql, *values)

        monkeypatch.setattr(Workspace, name, noted)

    def statements(count):
        ran.clear()
        drugs = (CELECOXIB, DICLOFENAC)
        given = {i: definition("DrugEra", drugs[i % 2], prior_days=i) for i in range(count)}
        table = circe_cohorts(db, given)
        assert table.ids == tuple(range(count))
        return len(ran)

    two, six = statements(2), statements(6)
    assert (six - two) / 4 <= 12  # The definition's own statements were 31, with 14 others.
    assert len([sql for sql in ran if "concept_ancestor" in sql and "some_links" not in sql]) <= 3


def test_a_definition_that_fails_leaves_the_others(db):
    good = definition("DrugEra", CELECOXIB, limit="First")
    lacking = definition("Episode", CELECOXIB)
    refused = {}
    table, _ = cohorts_with_statistics(db, {1: good, 2: lacking, 3: "{", 4: good}, refused=refused)
    assert table.ids == (1, 4)
    assert np.array_equal(table.only(1).subject, table.only(4).subject)
    assert sorted(refused) == [2, 3]
    assert "no table episode" in refused[2]
    assert "not JSON" in refused[3]


def test_a_definition_is_read_from_a_file_a_text_or_what_webapi_wraps(db, tmp_path):
    path = tmp_path / "new_users.json"
    path.write_text(json.dumps(NEW_USERS))
    wrapped = {"name": "New users", "expression": NEW_USERS}
    found = circe_cohorts(db, {1: path, 2: path.read_text(), 3: wrapped}, names={2: "by hand"})
    assert [len(found.only(i)) for i in (1, 2, 3)] == [len(found.only(1))] * 3
    assert (found.name(1), found.name(2), found.name(3)) == ("cohort 1", "by hand", "New users")


def test_a_cohort_of_nobody_has_no_entries(db):
    both = circe_cohorts(db, {1: definition("DrugEra", 999_999_999), 2: NEW_USERS})
    assert both.ids == (2,)


def test_whom_to_ask_a_server_for_is_read_off_a_definition(db):
    [records] = entry_records(db, NEW_USERS)
    assert (records.table, records.column, records.values) == (
        "drug_era",
        "drug_concept_id",
        (CELECOXIB, *[c for c in db.descendants([CELECOXIB]) if c != CELECOXIB]),
    )
    assert entry_records(db, json.dumps({"expression": NEW_USERS})) == [records]
    mapped = {**NEW_USERS, "ConceptSets": [concept_set(0, CELECOXIB, includeMapped=True)]}
    any_drug = json.loads(json.dumps(NEW_USERS))
    del any_drug["PrimaryCriteria"]["CriteriaList"][0]["DrugEra"]["CodesetId"]
    for unknown in (mapped, any_drug, {}, "[]"):
        assert entry_records(db, unknown) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{not json", "cohort 5 is not JSON: line 1"),
        ({"a": 1}, "cohort 5 is not one that ATLAS exports"),
        ("none.json", r"cannot read the cohort definition none\.json"),
        (definition("Episode", 1), r"cohort 5 .*no table|cohort 5 cannot be run on"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_cohort(db, given, said):
    with pytest.raises(DataError, match=said):
        circe_cohorts(db, {5: given})


def test_no_definition_is_refused(db):
    with pytest.raises(DataError, match="give an id and its definition"):
        circe_cohorts(db, {})


def test_without_the_package_its_extra_is_named(db, monkeypatch):
    import steropes.studies._optional_packages as extras

    def missing(module):
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(extras.importlib, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"steropes\[circe\]"):
        circe_cohorts(db, {1: NEW_USERS})


def test_a_grid_takes_definitions_from_files_beside_it(db, tmp_path):
    (tmp_path / "users.json").write_text(json.dumps(NEW_USERS))
    path = tmp_path / "grid.toml"
    path.write_text(
        "[cohorts.definitions]\n1 = 'users.json'\n"
        f"[cohorts.drugs.2]\ninclude = [{DICLOFENAC}]\n"
        f"[cohorts.conditions.3]\ninclude = [{BLEEDING}]\n"
        "[[question]]\ntarget = 1\ncomparator = 2\noutcomes = [{id = 3}]\n[[analysis]]\nid = 1\n"
    )
    spec = read_spec(path)
    assert spec.cohorts.names == {1: "users"}  # the default is the name of the file
    assert json.loads(spec.cohorts.definitions[1]) == NEW_USERS
    found = spec.make_cohorts(db)
    made, refused = found.table, found.refused
    assert refused == {}
    assert made.ids == (1, 2, 3)
    assert {*made.only(1).subject} == {*circe_cohorts(db, {1: NEW_USERS}).subject}
    assert spec.of_compared(db, refused).identity == db.identity
    (tmp_path / "users.json").write_text(json.dumps(NEW_USERS), encoding="utf-8-sig")
    assert json.loads(read_spec(path).cohorts.definitions[1]) == NEW_USERS
    (tmp_path / "users.json").write_text("null")
    with pytest.raises(DataError, match=r"users\.json: it is not a JSON object"):
        read_spec(path)
    (tmp_path / "users.json").unlink()
    with pytest.raises(DataError, match=r"^definitions\.7: cannot read the cohort definition"):
        CohortSources(definitions={7: "absent.json"})
    with pytest.raises(DataError, match=r"cannot read the cohort definition .*users\.json"):
        read_spec(path)
    with pytest.raises(DataError, match="cohort 1 is defined twice"):
        CohortSources(definitions={1: "{}"}, drugs=spec.cohorts.drugs | {1: spec.cohorts.drugs[2]})
