"""Diagnostics of cohorts, against counts person by person in Python."""

import datetime as dt
import itertools
import json
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import START, TinyOmop
from tests.studies.strategus.small_specification import (
    BLEEDING,
    CELECOXIB,
    COHORT_DIAGNOSTICS,
    circe,
)

from steropes.errors import DataError
from steropes.studies import OmopDatabase, demo_database
from steropes.studies.cohort_diagnostics.cohort_findings import cohort_findings
from steropes.studies.cohort_diagnostics.concept_sets_of_definitions import (
    MEMBERS,
    CohortDefinition,
    place_concept_sets,
)
from steropes.studies.cohort_diagnostics.diagnostic_tables import (
    AskedDiagnostics,
    cohort_diagnostics,
    cohort_overlap,
)
from steropes.studies.cohort_diagnostics.included_and_orphan_concepts import orphan_concepts
from steropes.studies.cohort_diagnostics.vocabulary_tables import vocabulary_tables
from steropes.studies.cohort_diagnostics.yearly_incidence import yearly_incidence
from steropes.studies.cohorts import CohortTable, circe_cohorts
from steropes.studies.covariates import window_summaries
from steropes.studies.covariates.concept_selection import ConceptSelection
from steropes.studies.covariates.window_summaries import WindowRules, summarise_windows
from steropes.studies.database.concept_names_and_descendants import sex_labels
from steropes.studies.disclosure import DisclosureRules
from steropes.studies.release import cohort_diagnostics_release
from steropes.studies.release.cohort_diagnostics_release import released_diagnostics
from steropes.studies.strategus_plans.r_temporal_covariate_settings import window_rules

WINDOWS = ((-365, -1), (0, 0), (1, 30), (-9999, 9999))
A, B, C = 101, 102, 103  # Conditions.


def day(n):
    return START + dt.timedelta(days=int(n))


@pytest.fixture(scope="module", params=[1, 2])
def random_case(request, tmp_path_factory):
    """A random database of 30 people with entries of two cohorts."""
    rng = np.random.default_rng(request.param)
    omop = TinyOmop(tmp_path_factory.mktemp("omop"))
    for concept, name in ((A, "asthma"), (B, "asthma attack"), (C, "other")):
        omop.concept(concept, name)
    omop.concept(8532, "FEMALE")
    omop.concept(8507, "MALE")
    people, entries = {}, []
    for _ in range(30):
        first = int(rng.integers(-1500, 0))
        last = int(rng.integers(1, 1500))
        born, sex = int(rng.integers(1930, 2000)), int(rng.choice([8507, 8532]))
        person = omop.person(observed=(first, last), born=born, sex=sex)
        events = [(int(c), int(d)) for c, d in zip(
            rng.choice([A, B, C], 4), rng.integers(first, last, 4), strict=True)]  # fmt: skip
        for concept, on in events:
            omop.condition(person, concept, on)
        people[person] = (first, last, born, sex, events)
        for cohort in (1, 2):
            for begin in sorted({int(d) for d in rng.integers(first, last, rng.integers(0, 3))}):
                end = min(begin + int(rng.integers(0, 100)), last)
                entries.append((cohort, person, begin, end))
    with OmopDatabase(omop.write()) as db:
        columns = list(zip(*entries, strict=True))
        dates = [[day(d) for d in columns[k]] for k in (2, 3)]
        yield db, people, entries, CohortTable(columns[0], columns[1], *dates)


def test_windows_count_the_entries_that_have_a_record_on_a_day_of_the_window(random_case):
    db, people, entries, cohorts = random_case
    rules = WindowRules((1, 10, 101, 905), WINDOWS, cohorts=True)
    found = summarise_windows(db, cohorts, rules, {1: "one", 2: "two"})
    expected = defaultdict(set)
    for place, (cohort, person, begin, _) in enumerate(entries):
        _, _, _, sex, events = people[person]
        expected[cohort, -1, sex * 1000 + 1].add(place)
        for number, (low, high) in enumerate(WINDOWS, 1):
            for concept, on in events:
                if begin + low <= on <= begin + high:
                    expected[cohort, number, concept * 1000 + 101].add(place)
            for other, same, first, last in entries:
                if same == person and first <= begin + high and last >= begin + low:
                    expected[cohort, number, other * 1000 + 173].add(place)
    sums = found.ones.set_index(["cohort_id", "time_id", "covariate_id"])
    assert sums["sum_value"].to_dict() == {key: len(of) for key, of in expected.items()}
    persons = {key: len({entries[i][1] for i in of}) for key, of in expected.items()}
    assert sums["persons"].to_dict() == persons
    lengths = found.values.query("covariate_id == 1010").set_index("cohort_id")
    for cohort in (1, 2):
        days = sorted(e[3] - e[2] for e in entries if e[0] == cohort)
        line = lengths.loc[cohort]
        assert line["count_value"] == len(days)
        assert line["average_value"] == pytest.approx(np.mean(days))
        assert line["p_25_value"] == days[max(-(-len(days) // 4) - 1, 0)]
        assert line["max_value"] == days[-1]
    names = found.columns.set_index("covariate_id")["name"]
    assert names[1173] == "cohort: one"


def test_zeros_of_counts_belong_to_the_distribution(omop):
    omop.concept(A, "asthma")
    people = [omop.person(observed=(-500, 500)) for _ in range(10)]
    for person in people[:3]:
        omop.rows["condition_era"].append((person, A, day(-5), day(-5)))
    start = [np.datetime64(START)] * 10
    with OmopDatabase(omop.write()) as db:
        cohorts = CohortTable([1] * 10, people, start, start)
        found = summarise_windows(db, cohorts, WindowRules((905,), ((-30, 0),)), {}).values.iloc[0]
    assert (found["count_value"], found["min_value"], found["max_value"]) == (3, 0, 1)
    assert found["average_value"] == pytest.approx(0.3)
    assert (found["median_value"], found["p_75_value"]) == (0, 1)


def test_excluded_and_included_concepts_follow_their_own_rules_on_descendants(omop):
    for concept, name in ((A, "asthma"), (B, "asthma attack"), (C, "other")):
        omop.concept(concept, name)
    omop.ancestor(A, B)
    person = omop.person(observed=(-500, 500))
    for concept in (A, B, C):
        omop.condition(person, concept, 0)
    start = [np.datetime64(START)]
    with OmopDatabase(omop.write()) as db:
        cohorts = CohortTable([1], [person], start, start)
        for selection, kept in (
            (ConceptSelection((A,), (), True, False), {C}),
            (ConceptSelection((A,), (), False, False), {B, C}),
            (ConceptSelection((A,), (A,), False, True), {B}),
            (ConceptSelection((), (A,), True, False), {A}),
        ):
            rules = WindowRules((101,), ((0, 0),), selection)
            ones = summarise_windows(db, cohorts, rules, {}).ones
            assert {int(i) // 1000 for i in ones["covariate_id"]} == kept


@pytest.mark.parametrize("washout", [0, 200])
def test_incidence_counts_first_entries_and_days_until_them(random_case, washout):
    db, people, entries, cohorts = random_case
    with db.workspace() as work:
        cohorts.place(work, "entries")
        found = yearly_incidence(db, work, "entries", washout)
    cases, days, at_risk = defaultdict(int), defaultdict(int), defaultdict(set)
    for cohort, (person, (first, last, born, sex, _)) in itertools.product((1, 2), people.items()):
        own = [e[2] for e in entries if e[:2] == (cohort, person)]
        event = min(own, default=None)
        for n in range(first + washout, last + 1):
            if event is not None and n > event:
                break
            on = day(n)
            stratum = (on.year, (on.year - born) // 10, sex)
            for use in itertools.product((True, False), repeat=3):
                key = (cohort, *(x if u else None for x, u in zip(stratum, use, strict=True)))
                if n == event:
                    cases[key] += 1
                else:
                    days[key] += 1
                    at_risk[key].add(person)
    keys = ["cohort_id", "calendar_year", "age_group", "gender_id"]
    strata = [
        tuple(None if pd.isna(x) else int(x) for x in line)
        for line in found[keys].itertuples(index=False)
    ]
    at_risk = {key: len(of) for key, of in at_risk.items()}
    for name, of in (("cases", cases), ("days", days), ("people", at_risk)):
        counted = dict(zip(strata, found[name], strict=True))
        assert {key: n for key, n in counted.items() if n} == dict(of)


def test_overlap_counts_people_by_the_order_of_first_entries(random_case):
    db, _, entries, cohorts = random_case
    with db.workspace() as work:
        cohorts.place(work, "entries")
        [line] = cohort_overlap(work, "entries").to_dict("records")
    first = {
        c: {p: min(e[2] for e in entries if e[:2] == (c, p)) for d, p, *_ in entries if d == c}
        for c in (1, 2)
    }
    both = {*first[1]} & {*first[2]}
    assert line["both_subjects"] == len(both)
    assert line["before_subjects"] == sum(first[1][p] < first[2][p] for p in both)
    assert line["same_day_subjects"] == sum(first[1][p] == first[2][p] for p in both)
    assert line["only_subjects"] == len(first[1]) - len(both)


def definition(cohort, items, table="ConditionOccurrence"):
    text = json.loads(circe(A, table))
    text["ConceptSets"][0]["expression"]["items"] = items
    return CohortDefinition(cohort, f"cohort {cohort}", json.dumps(text))


def item(concept, **flags):
    return {"concept": {"CONCEPT_ID": concept}, **flags}


def test_concept_sets_include_descendants_and_leave_out_excluded_ones(omop):
    for concept, name in ((A, "asthma"), (B, "asthma attack"), (C, "Asthma in remission")):
        omop.concept(concept, name)
    omop.ancestor(A, B)
    person = omop.person()
    for concept in (A, B, C):
        omop.condition(person, concept, 0)
    asked = [
        definition(1, [item(A, includeDescendants=True)]),
        definition(2, [item(A, includeDescendants=True), item(B, isExcluded=True)]),
        definition(3, [item(A), item(999)]),
    ]
    with OmopDatabase(omop.write()) as db, db.workspace() as work:
        sets = place_concept_sets(db, work, asked)
        members = work.frame(f"SELECT * FROM {MEMBERS}").groupby("unique_set")["concept_id"]
        by_cohort = {s.cohort: {*members.get_group(s.unique)} for s in sets}
        orphans = orphan_concepts(db, work, sets)
    assert by_cohort == {1: {A, B}, 2: {A}, 3: {A}}
    of = orphans.groupby("cohort_id")["concept_id"].agg(set).to_dict()
    assert of == {1: {C}, 2: {B, C}, 3: {B, C}}


def test_many_cohorts_are_released_and_counted_in_parts_with_the_same_numbers(
    random_case, monkeypatch
):
    db, _, _, cohorts = random_case
    asked = [definition(i, [item(A)]) for i in cohorts.ids]
    options = AskedDiagnostics(windows=WindowRules((1, 10, 101), WINDOWS, cohorts=True))
    tables = []
    for rows in (10**6, 1):
        monkeypatch.setattr(window_summaries, "MEMBERSHIPS", rows)
        monkeypatch.setattr(cohort_diagnostics_release, "AT_A_TIME", rows)
        exact = cohort_diagnostics(db, asked, cohorts, options, lambda _: None)
        tables.append(released_diagnostics(exact, {}, DisclosureRules("ohdsi", 5), "here"))
    assert tables[0].keys() == tables[1].keys()
    for name, table in tables[0].items():
        pd.testing.assert_frame_equal(table, tables[1][name])


def test_a_vocabulary_without_links_leaves_out_characteristics_alone(omop):
    omop.links = False
    omop.concept(A, "asthma")
    people = [omop.person() for _ in range(3)]
    for person in people:
        omop.rows["condition_era"].append((person, A, day(0), day(0)))
    start = [np.datetime64(START)] * 3
    asked = [definition(1, [item(A)])]
    windows = WindowRules((1, 204), ((0, 0),), cohorts=True)
    with OmopDatabase(omop.write(without=("concept_ancestor", "observation"))) as db:
        cohorts = CohortTable([1] * 3, people, start, start)
        options = AskedDiagnostics(windows=windows)
        found = cohort_diagnostics(db, asked, cohorts, options, lambda _: None)
    [why] = found.left_out.values()
    assert "204 (ConditionEraGroupOverlap) is derived from the links" in why
    assert found.windows.ones["covariate_id"].tolist() == [1173]
    assert found.counts["entries"].tolist() == [3]
    assert len(found.tables["incidence_rate"])
    assert found.tables["visit_context"].empty


@pytest.fixture(scope="module")
def demo():
    """Exact diagnostics of two cohorts of the demonstration database."""
    asked = [
        CohortDefinition(1, "celecoxib", circe(CELECOXIB, "DrugExposure")),
        CohortDefinition(3, "bleeding", circe(BLEEDING, "ConditionOccurrence")),
    ]
    with OmopDatabase(demo_database()) as db:
        cohorts = circe_cohorts(db, {d.id: d.json_text for d in asked})
        windows = WindowRules((1, 2, 3, 101), ((-30, -1), (0, 0)), cohorts=True)
        options = AskedDiagnostics(windows=windows)
        exact = cohort_diagnostics(db, asked, cohorts, options, lambda _: None)
        rows = db.rows(
            "SELECT visit_start_date = start, count(DISTINCT person_id) FROM (SELECT person_id, "
            f"condition_start_date AS start FROM {db.table('condition_occurrence')} "
            f"WHERE condition_concept_id = {BLEEDING}) JOIN {db.table('visit_occurrence')} v "
            "USING (person_id) WHERE visit_start_date BETWEEN start AND start + 30 GROUP BY 1"
        )
        yield exact, dict(rows)


def test_index_events_and_visits_of_the_demonstration_database(demo):
    exact, visits = demo
    events = exact.tables["index_event_breakdown"].set_index(["cohort_id", "domain_field"])
    assert events.loc[(3, "condition_concept_id"), "concept_id"] == BLEEDING
    assert events.loc[(3, "condition_concept_id"), "concept_count"] == 479
    assert events.loc[(1, "drug_source_concept_id"), "subject_count"] == 1800
    around = exact.tables["visit_context"].query("cohort_id == 3").set_index("visit_context")
    assert around.loc["On visit start", "subjects"] == visits[True]
    assert around.loc["After", "subjects"] == visits[False]


def test_released_counts_are_rounded_and_small_ones_are_limits(demo):
    exact, _ = demo
    found = released_diagnostics(exact, {}, DisclosureRules("ohdsi", 5), "x")
    for name, column in (
        ("cd_cohort_count", "cohort_entries"),
        ("cd_index_event_breakdown", "subject_count"),
        ("cd_visit_context", "subjects"),
        ("cd_included_source_concept", "concept_subjects"),
        ("cd_orphan_concept", "concept_count"),
        ("cd_incidence_rate", "cohort_count"),
        ("cd_temporal_covariate_value", "sum_value"),
        ("cd_temporal_covariate_value_dist", "count_value"),
        ("cohort_overlap", "both_subjects"),
    ):
        counts = found[name][column].dropna()
        assert len(counts)
        assert ((counts % 5 == 0) | (counts == -1)).all(), name
        assert not counts.between(1, 4).any()
    extremes = found["cd_temporal_covariate_value_dist"][["min_value", "max_value"]]
    assert extremes.isna().all(axis=None)
    shown = released_diagnostics(exact, {}, DisclosureRules("none", 1), "x")
    rates = shown["cd_incidence_rate"]
    everybody = rates[rates[["calendar_year", "age_group", "gender_id"]].isna().all(axis=1)]
    line = everybody.set_index("cohort_id").loc[3]
    assert line["cohort_count"] == 479
    assert line["incidence_rate"] == pytest.approx(1000 * 479 / line["person_years"])


def test_parts_of_an_overlap_tell_no_suppressed_one():
    """Two of 30 shared people enter the second cohort first."""
    from steropes.studies.release.cohort_diagnostics_release import _overlap

    table = pd.DataFrame([{
        "cohort_id": 1, "other_cohort_id": 2, "both_subjects": 5, "before_subjects": 1,
        "same_day_subjects": 4, "after_subjects": 0, "only_subjects": 1,
        "other_only_subjects": 100,
    }])  # fmt: skip
    [line] = _overlap(table, DisclosureRules("ohdsi", 5)).to_dict("records")
    assert "only_subjects" not in line
    assert line["before_subjects"] < 0
    assert line["same_day_subjects"] < 0


def test_the_vocabulary_explains_the_concepts_of_the_results():
    with OmopDatabase(demo_database()) as db:
        found = vocabulary_tables(db, (CELECOXIB, BLEEDING))
        kinds = db.rows(f"SELECT count(*) FROM {db.table('vocabulary')}")[0][0]
    assert found["concept"]["concept_id"].tolist() == [BLEEDING, CELECOXIB]
    links = found["concept_ancestor"]
    assert {*links["ancestor_concept_id"], *links["descendant_concept_id"]} <= {BLEEDING, CELECOXIB}
    assert len(found["vocabulary"]) == kinds
    assert {"domain", "relationship"} <= {*found}


def rates(*counts):
    rows = [
        {"cohort_id": 1, "calendar_year": str(2000 + i), "cohort_count": n, "person_years": 1000.0,
         "incidence_rate": float(n)} for i, n in enumerate(counts)
    ]  # fmt: skip
    return pd.DataFrame(rows).assign(age_group=None, gender=None)


def test_findings_describe_problems_in_words():
    stats = pd.DataFrame(
        {"cohort_id": 2, "rule_sequence": [0, 1], "mode_id": 1, "person_count": [0, 400]}
    )
    tables = {
        "cd_cohort_count": pd.DataFrame(
            {"cohort_id": [1, 2, 4], "cohort_subjects": [500.0, 0.0, -5.0]}
        ),
        "cd_cohort_inc_stats": stats,
        "cd_cohort_summary_stats": pd.DataFrame(
            {"cohort_id": [2], "mode_id": [1], "base_count": [500], "final_count": [0]}
        ),
        "cd_cohort_inclusion": pd.DataFrame(
            {"cohort_id": [2], "rule_sequence": [0], "name": ["adults"]}
        ),
        "cd_concept_sets": pd.DataFrame(
            {"cohort_id": 4, "concept_set_id": [0, 1], "concept_set_name": ["b", "c"]}
        ),
        "cd_resolved_concepts": pd.DataFrame(
            {"cohort_id": [1, 1, 1, 4], "concept_set_id": 0, "concept_id": [A, B, C, A]}
        ),
        "cd_index_event_breakdown": pd.DataFrame(
            {"cohort_id": 1, "domain_field": "condition_concept_id", "concept_id": [A, B],
             "concept_count": [490.0, 10.0]}
        ),
        "cd_incidence_rate": rates(100, 110, 400, 390),
        "cd_orphan_concept": pd.DataFrame(
            {"cohort_id": [1, 1], "concept_id": [C, 7], "concept_count": [50.0, -5.0]}
        ),
    }  # fmt: skip
    names = {1: "asthma", 2: "adults with asthma", 3: "broken", 4: "few"}
    found = cohort_findings(tables, names, {3: "it reads the table specimen"}, {A: "asthma"})
    text = found.groupby("cohort_id")["finding"].agg(list).to_dict()
    assert text[1] == [
        "Index events are dominated by one concept: asthma (101) has 98 % of 500 records on index "
        "dates.",
        "Incidence rises abruptly from 2001 to 2002: from 110 to 400 per 1,000 person-years.",
        "Recorded concepts have names like those of its concept sets and are in none of them: "
        "concept 103 with 50 records.",
    ]
    assert text[2] == [
        "Nobody meets the definition in this database.",
        "Nobody meets the criterion 'adults': it loses all 500 people.",
    ]
    assert text[3] == ["The definition does not run: it reads the table specimen."]
    assert text[4] == [
        "Fewer than 5 people meet the definition in this database.",
        "The concept set 'c' has no concept of the vocabulary.",
    ]


def test_rates_that_differ_by_chance_do_not_jump():
    found = cohort_findings({"cd_incidence_rate": rates(5, 12, 6)}, {1: "rare"}, {}, {})
    assert [*found["topic"]] == ["size"]


def test_an_unknown_sex_is_a_stratum_of_its_own(omop):
    """A sex that the vocabulary lacks has a label, so that it does not replace everybody."""
    for number, sex in enumerate((0, 8532, 99, 98)):
        omop.person(sex=sex, observed=(0, 99 + number))
    with OmopDatabase(omop.write()) as db:
        labels = sex_labels(db, [0, 8532, 99, 98, 0])
    assert [*labels] == [0, 98, 99, 8532]
    assert len({*labels.values()}) == 4
    assert labels[0] == "No matching concept"


def test_covariates_of_cohorts_beside_those_of_windows_are_membership():
    given = COHORT_DIAGNOSTICS["settings"]["temporalCovariateSettings"]
    days = {k: given[k] for k in ("temporalStartDays", "temporalEndDays")}
    of_cohorts = {
        "temporal": True, "temporalSequence": False, "analysisId": 999, "valueType": "binary",
        "covariateCohorts": {"cohortId": [1], "cohortName": ["a"]}, **days,
        "attr_fun": "getDbCohortBasedCovariatesData",
    }  # fmt: skip
    rules, said = window_rules([given, of_cohorts], ("at",), 0.01, False)
    alone, _ = window_rules(given, ("at",), 0.01, True)
    assert rules == alone
    assert said == ["covariates of cohorts are membership in any examined cohort, with the "
                    "analysis 173"]  # fmt: skip
    for change, why in (
        ({"valueType": "count"}, "valueType must be 'binary'"),
        ({"temporalStartDays": [0, 0, 1]}, "must have the windows of the other covariates"),
        ({"speed": 1}, "speed is not known"),
    ):
        with pytest.raises(DataError, match=why):
            window_rules([given, of_cohorts | change], ("at",), 0.01, False)
    with pytest.raises(DataError, match="several covariate settings at once"):
        window_rules([given, given], ("at",), 0.01, False)
