"""Cohorts as tables: read, made of eras and records, kept apart, never printed."""

import copy
import datetime as dt
import decimal
import pickle

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import COMPARATOR, OUTCOME, TARGET, day

from steropes.errors import DataError
from steropes.studies import OmopDatabase
from steropes.studies.cohorts import (
    CohortTable,
    ConceptSet,
    condition_cohorts,
    drug_era_cohorts,
    read_cohorts,
)
from steropes.studies.disclosure import DisclosureRules, applied_rules

COLUMNS = (
    "cohort_definition_id BIGINT, subject_id BIGINT, cohort_start_date DATE, cohort_end_date DATE"
)
COHORT = [column.split()[0] for column in COLUMNS.split(", ")]


def with_cohorts(path, rows, table="cohort", columns=COLUMNS):
    with duckdb.connect(str(path)) as con:
        con.execute(f"CREATE SCHEMA IF NOT EXISTS results; CREATE TABLE {table} ({columns})")
        con.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", rows)
    return path


def entries(table):
    return list(
        zip(
            table.definition.tolist(),
            table.subject.tolist(),
            table.start.tolist(),
            table.end.tolist(),
            strict=True,
        )
    )


def test_entries_are_read_in_one_order_whatever_that_of_the_rows(omop):
    rows = [
        (2, 1, day(5), day(9)),
        (1, 2, day(0), day(3)),
        (1, 1, day(7), day(8)),
        (1, 1, day(0), day(3)),
    ]
    path = with_cohorts(omop.write(), rows, "results.mine")
    with OmopDatabase(path) as db:
        found = read_cohorts(db, table="mine", schema="results")
        assert entries(found) == sorted(rows)
        assert entries(read_cohorts(db, [2], table="MINE", schema="Results")) == [rows[0]]


def test_an_open_connection_serves_and_stays_open_and_unchanged(omop):
    path = with_cohorts(omop.write(), [(1, 1, day(0), day(3))])
    with duckdb.connect(str(path)) as con:
        before = con.execute("SHOW ALL TABLES").fetchall()
        with OmopDatabase(con) as db, db.workspace() as work:
            assert len(read_cohorts(db)) == 1
            work.run("CREATE TEMP TABLE judged AS SELECT 1")
        assert con.execute("SHOW ALL TABLES").fetchall() == before


def test_a_connection_and_its_file_are_one_database(omop):
    path = with_cohorts(omop.write(), [(1, 1, day(0), day(3))])
    with OmopDatabase(path) as db:
        from_file = read_cohorts(db).database
    with duckdb.connect(str(path)) as con, OmopDatabase(con) as db:
        assert read_cohorts(db).database == from_file


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([(1, 1, day(3), day(0))], "cohort 1: <5 entries have an end before the start"),
        ([(1, 1, None, day(0))], "<5 entries have no cohort_start_date"),
        ([(1, None, day(0), day(0))], "<5 entries have no subject_id"),
    ],
)
def test_entries_without_meaning_are_refused_without_naming_people(omop, rows, message):
    with (
        OmopDatabase(with_cohorts(omop.write(), rows)) as db,
        pytest.raises(DataError, match=message),
    ):
        read_cohorts(db)


def four(**change):
    """A cohort table of three entries, with other columns in place of some."""
    days = [dt.date(2020, 1, 1)] * 3
    plain = {COHORT[0]: [1, 1, 1], COHORT[1]: [1, 2, 3], COHORT[2]: days, COHORT[3]: days}
    return pd.DataFrame({**plain, **change})


@pytest.mark.parametrize("name", COHORT[:2])
@pytest.mark.parametrize(
    "ids",
    [
        [1, 2.5, 3],
        [1, 2.0**53 + 2, 3],
        [1, 1e300, 3],
        pd.Series([1, decimal.Decimal("2.5"), 3], dtype=object),
        np.array([1, 2**63, 3], np.uint64),
    ],
)
def test_an_id_that_would_be_cut_is_refused_with_its_row(name, ids):
    with pytest.raises(DataError, match=f"{name} is no whole number in row 1"):
        CohortTable.from_frame(four(**{name: ids}))


def test_ids_that_are_no_numbers_are_refused_and_whole_ones_are_not():
    day = np.array(["2020-01-01"], "datetime64[D]")
    for wrong in (["a"], [None], day, [True]):
        with pytest.raises(DataError, match="subject_id"):
            CohortTable([1], wrong, day, day)
    with pytest.raises(DataError, match="subject_id is no whole number in row 0"):
        CohortTable([1], [np.nan], day, day)
    whole = CohortTable.from_frame(four(**{COHORT[0]: [1.0, 1.0, 2.0], COHORT[1]: ["7", "8", "9"]}))
    assert (whole.ids, whole.subject.tolist()) == ((1, 2), [7, 8, 9])
    assert len(whole.only(1.0)) == 2
    assert len(whole.only([1, 2**63, -(2**70)])) == 2


def test_a_cohort_of_a_broken_number_is_no_other_cohort(omop):
    omop.person(target=0)
    rows = [(1, 1, day(0), day(3)), (2, 1, day(0), day(3))]
    with OmopDatabase(with_cohorts(omop.write(), rows)) as db:
        whole = read_cohorts(db)
        for asked in (
            lambda: read_cohorts(db, [1.5]),
            lambda: read_cohorts(db, names={1.5: "x"}),
            lambda: drug_era_cohorts(db, {1.5: TARGET}),
            lambda: whole.only([1.5]),
            lambda: whole.name(1.5),
        ):
            with pytest.raises(DataError, match=r"id of a cohort must be a whole number, not 1\.5"):
                asked()


def test_a_site_s_table_of_broken_numbers_is_refused(omop):
    columns = COLUMNS.replace("BIGINT", "DOUBLE")
    rows = [(1.0, 1.0, day(0), day(3)), (1.0, 2.0, day(0), day(3))]
    with OmopDatabase(with_cohorts(omop.write(), rows, columns=columns)) as db:
        assert read_cohorts(db).subject.tolist() == [1, 2]
    rows.append((1.0, 2.6, day(0), day(3)))
    with (
        OmopDatabase(with_cohorts(omop.write(), rows, columns=columns)) as db,
        pytest.raises(DataError, match="cohort: subject_id has values of type DOUBLE"),
    ):
        read_cohorts(db)


def test_a_cohort_table_may_be_of_polars_or_pyarrow():
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    plain = four()
    expected = entries(CohortTable.from_frame(plain))
    for made in (polars.DataFrame(plain), pyarrow.Table.from_pandas(plain)):
        assert entries(CohortTable.from_frame(made)) == expected
    with pytest.raises(DataError, match=r"collect\(\) it"):
        CohortTable.from_frame(polars.DataFrame(plain).lazy())
    with pytest.raises(DataError, match="pandas, polars or pyarrow table, not dict"):
        CohortTable.from_frame({"subject_id": [1]})


def test_what_is_not_there_is_named(omop):
    path = with_cohorts(omop.write(), [(1, 1, day(0), day(3))])
    with OmopDatabase(path) as db:
        with pytest.raises(DataError, match=r"no table main\.nothing in"):
            read_cohorts(db, table="nothing")
        with pytest.raises(
            DataError, match="not a cohort table: it lacks the columns cohort_definition_id"
        ):
            read_cohorts(db, table="drug_era")
        with pytest.raises(DataError, match=r"main\.cohort has no entries of cohort 7"):
            read_cohorts(db, [1, 7])


def test_eras_within_the_gap_are_one_and_others_are_not(omop):
    person = omop.person()
    for first, last in ((0, 10), (15, 20), (18, 19), (50, 60)):
        omop.drug(person, TARGET, first, last)
    with OmopDatabase(omop.write()) as db:
        apart = drug_era_cohorts(db, {11: TARGET})
        near = drug_era_cohorts(db, {11: TARGET}, gap=5)
        far = drug_era_cohorts(db, {11: TARGET}, gap=4)
    spans = [(0, 10), (15, 20), (50, 60)]
    assert [(s, e) for _, _, s, e in entries(apart)] == [(day(a), day(b)) for a, b in spans]
    assert entries(far) == entries(apart)
    assert [(s, e) for _, _, s, e in entries(near)] == [(day(0), day(20)), (day(50), day(60))]
    assert apart.name(11) == "newdrug"


def test_a_concept_set_takes_descendants_and_leaves_out_those_excluded(omop):
    omop.concept(50, "class")
    for concept in (51, 52, 53):
        omop.concept(concept, f"drug {concept}")
        omop.ancestor(50, concept)
    omop.ancestor(52, 53)
    person = omop.person()
    for i, concept in enumerate((51, 52, 53)):
        omop.drug(person, concept, 100 * i)
    with OmopDatabase(omop.write()) as db:
        assert ConceptSet((50,), exclude=(52,)).resolve(db) == [50, 51]
        assert ConceptSet(50, exclude=(52,), descendants=False).resolve(db) == [50]
        assert len(drug_era_cohorts(db, {1: ConceptSet((50,), (52,)), 2: 50})) == 1 + 3
        with pytest.raises(DataError, match="concept 999 is unknown"):
            drug_era_cohorts(db, {1: 999})
        with pytest.raises(DataError, match="all concepts are excluded"):
            ConceptSet((52,), (50,)).resolve(db)


def test_a_condition_day_is_one_entry_however_often_recorded(omop):
    person = omop.person()
    for offset in (3, 3, 9):
        omop.condition(person, OUTCOME, offset)
    with OmopDatabase(omop.write()) as db:
        found = condition_cohorts(db, {3: OUTCOME})
    assert entries(found) == [(3, person, day(d), day(d)) for d in (3, 9)]


def test_tables_of_other_databases_or_with_the_same_ids_do_not_mix(omop):
    omop.drug(omop.person(), TARGET, 0)
    omop.drug(omop.person(), COMPARATOR, 0)
    paths = [omop.write(), omop.write()]
    tables = []
    for path in paths:
        with OmopDatabase(path) as db:
            tables.append([drug_era_cohorts(db, {i: c}) for i, c in ((1, TARGET), (2, COMPARATOR))])
    assert (tables[0][0] + tables[0][1]).ids == (1, 2)
    with pytest.raises(DataError, match="cannot be combined"):
        tables[0][0] + tables[1][1]
    with pytest.raises(DataError, match="cohort 1 is in both"):
        tables[0][0] + tables[0][0]


def test_a_cohort_table_shows_nobody_and_keeps_its_own_arrays():
    subject = np.array([987654, 987655])
    start = np.array(["2010-01-01", "2011-01-01"], dtype="datetime64[D]")
    table = CohortTable([1, 1], subject, start, start + 5)
    subject[:] = 0
    assert "98765" not in repr(table)
    assert "98765" not in repr(table.frame())
    assert "98765" not in table.frame()._repr_html_()
    assert table.subject.tolist() == [987654, 987655]
    with pytest.raises(ValueError, match="read-only"):
        table.start[0] = table.end[0]
    assert table.counts().to_dict("records") == [
        {"cohort_definition_id": 1, "entries": 2, "people": 2}
    ]


def test_a_frame_is_read_with_columns_in_any_case():
    frame = pd.DataFrame(
        {
            "COHORT_START_DATE": [dt.date(2010, 1, 1)],
            "Cohort_End_Date": ["2010-02-01"],
            "SUBJECT_ID": [7],
            "cohort_definition_id": [1],
        }
    )
    assert entries(CohortTable.from_frame(frame)) == [
        (1, 7, dt.date(2010, 1, 1), dt.date(2010, 2, 1))
    ]
    with pytest.raises(DataError, match="it lacks subject_id"):
        CohortTable.from_frame(frame.drop(columns="SUBJECT_ID"))


@pytest.mark.parametrize("far", [dt.date(9999, 12, 31), "9999-12-31"])
def test_a_frame_may_hold_ends_far_away_and_other_values_are_refused_without_telling_them(far):
    frame = pd.DataFrame([(1, 1, day(0), far)], columns=COHORT)
    assert CohortTable.from_frame(frame).end.astype(str).tolist() == ["9999-12-31"]
    frame["cohort_end_date"] = "12 Xember"
    with pytest.raises(DataError, match="cohort_end_date has a value that is not") as refused:
        CohortTable.from_frame(frame)
    assert "Xember" not in str(refused.value)


def test_a_repr_follows_the_rules_of_the_run_that_made_the_table():
    days = ["2020-01-01"] * 7
    with applied_rules(DisclosureRules("ohdsi", 10)):
        made = CohortTable([1] * 7, range(7), days, days)
    assert repr(made) == "CohortTable({1: <10} entries)"
    assert repr(made + CohortTable([2] * 7, range(7), days, days)).count("<10") == 2
    assert repr(made.only(1)) == repr(made)
    assert repr(made.renumbered({1: 3})).count("<10") == 1


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))]
)
def test_the_entries_of_a_copy_are_read_only_too(again):
    table = CohortTable([1, 1], [7, 9], ["2010-01-01"] * 2, ["2010-03-01"] * 2)
    for name in ("definition", "subject", "start", "end"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(again(table), name)[0] = getattr(table, name)[1]
