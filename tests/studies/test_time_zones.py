"""The date of a value is the one that it shows, whatever the time zone of the computer."""

import datetime as dt
import os
import subprocess
import sys
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.studies.conftest import COMPARATOR, OUTCOME, TARGET, TinyOmop, day

from steropes.designs.values.dates_and_ages import as_days, calendar_date
from steropes.errors import DataError
from steropes.studies import (
    OmopDatabase,
    StudySettings,
    case_series,
    case_series_settings,
    comparative_study,
    read_spec,
)
from steropes.studies.cohorts import (
    CohortTable,
    ComparisonRules,
    TimeAtRisk,
    circe_cohorts,
    compare_cohorts,
    condition_cohorts,
    drug_era_cohorts,
    read_cohorts,
    study_population,
)
from steropes.studies.covariates import FeatureRules, extract_features
from steropes.studies.database import duckdb_source_tables as local
from steropes.studies.sccs import CaseRules
from steropes.studies.sccs.cases.case_population import find_cases
from steropes.studies.sccs.cases.era_sources import EraSources

ZONES = ("America/New_York", "Asia/Tokyo", "Pacific/Kiritimati")
EARLY, LATE = "2010-06-15 00:00:00", "2010-06-15 23:59:59"


@pytest.fixture
def elsewhere(request, monkeypatch):
    """Databases of ours whose sessions are in a zone, as on a computer that is there."""
    made, zone = local.scratch_database, getattr(request, "param", ZONES[0])

    def in_zone():
        home, spill = made()
        home.run(f"SET GLOBAL TimeZone = '{zone}'")
        return home, spill

    monkeypatch.setattr(local, "scratch_database", in_zone)
    return zone


def filled(omop):
    """Thirty users of either drug, with records whose window or rule ends on a day."""
    omop.concept(9, "test")
    for k in range(30):
        arm = "target" if k % 2 else "comparator"
        person = omop.person(**{arm: k}, outcome=k + 20 + k % 7, observed=(k - 365, k + 40))
        omop.record("measurement", person, 9, k - 30 - k % 2)
        omop.rows["condition_era"].append((person, OUTCOME, day(k - 9), day(k - 5)))
    return omop.write()


def retyped(path, kind, using):
    """Change the type of all dates; ``using`` makes it of the column ``{c}``."""
    with duckdb.connect(str(path)) as con:
        con.execute("SET TimeZone = 'UTC'")
        dated = con.execute(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE column_name LIKE '%_date'"
        )
        for table, column in dated.fetchall():
            con.execute(
                f"ALTER TABLE {table} ALTER {column} TYPE {kind} USING {using.format(c=column)}"
            )
    return path


def answers(database, **options):
    """What studies read of dates: cohorts, people at risk, covariates and cases."""
    with OmopDatabase(database, **options) as db:
        cohorts = drug_era_cohorts(db, {1: TARGET, 2: COMPARATOR}) + condition_cohorts(
            db, {3: OUTCOME}
        )
        found = compare_cohorts(db, cohorts, 1, 2, ComparisonRules(common_period=False))
        people = study_population(
            found, cohorts, 3, TimeAtRisk(start=0, end=35, end_anchor="cohort end")
        ).people
        features = extract_features(db, found.entries, FeatureRules((8, 204, 404, 704)))
        with db.workspace() as work:
            rules = CaseRules(OUTCOME, naive_days=10)
            series = find_cases(db, work, rules, EraSources(db, work, rules, None))
    ids = features.columns["covariate_id"].tolist()
    return (
        [pd.DataFrame(people).astype(str).to_numpy().tolist(), ids],
        [features.matrix().toarray().tolist(), series.attrition.to_numpy().tolist()],
        [v.tolist() for v in (series.observed, series.start, series.end, series.outcome_day)],
    )


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return answers(filled(TinyOmop(tmp_path_factory.mktemp("omop"))))


STORED = {
    "dates": ("DATE", "{c}", "UTC"),
    "midnight in UTC": ("TIMESTAMPTZ", "timezone('UTC', {c}::TIMESTAMP)", "UTC"),
    "late in UTC": ("TIMESTAMPTZ", "timezone('UTC', {c} + INTERVAL 23 HOUR)", "UTC"),
    "midnight in Tokyo": ("TIMESTAMPTZ", "timezone('Asia/Tokyo', {c}::TIMESTAMP)", "Asia/Tokyo"),
    "late in New York": (
        "TIMESTAMPTZ",
        "timezone('America/New_York', {c} + INTERVAL 23 HOUR)",
        "America/New_York",
    ),
    "without a zone": ("TIMESTAMP", "{c} + INTERVAL 23 HOUR", "UTC"),
    "nanoseconds": ("TIMESTAMP_NS", "({c} + INTERVAL 23 HOUR)::TIMESTAMP_NS", "UTC"),
    "seconds": ("TIMESTAMP_S", "({c} + INTERVAL 23 HOUR)::TIMESTAMP_S", "UTC"),
    "text": ("VARCHAR", "{c}::VARCHAR", "UTC"),
    "text with a zone": ("VARCHAR", "{c}::VARCHAR || 'T00:30:00+14:00'", "UTC"),
}


# One for each type of DuckDB, which an open connection and Parquet files read like a database.
OF_EACH_TYPE = ("late in New York", "without a zone", "nanoseconds", "text with a zone")


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("stored", "elsewhere"),
    [*((s, ZONES[0]) for s in STORED), *(("midnight in UTC", z) for z in ZONES[1:])],
    indirect=["elsewhere"],
)
def test_a_study_reads_the_same_dates_however_they_are_stored(
    omop, expected, elsewhere, stored, tmp_path
):
    path = filled(omop)
    kind, using, zone = STORED[stored]
    options = {"time_zone": zone}
    retyped(path, kind, using)
    assert answers(path, **options) == expected
    if elsewhere == ZONES[0] and stored in OF_EACH_TYPE:
        folder = tmp_path / "parquet"
        folder.mkdir()
        with duckdb.connect(str(path)) as con:
            for (table,) in con.execute("SELECT table_name FROM duckdb_tables()").fetchall():
                con.execute(f"COPY {table} TO '{folder / table}.parquet'")
            con.execute(f"SET GLOBAL TimeZone = '{elsewhere}'")
            assert answers(con, **options) == expected
            assert con.execute("SELECT current_setting('TimeZone')").fetchone() == (elsewhere,)
        assert answers(folder, **options) == expected


def test_another_time_zone_than_that_of_the_instants_gives_other_dates(omop):
    path = retyped(filled(omop), "TIMESTAMPTZ", "timezone('Asia/Tokyo', {c}::TIMESTAMP)")
    with OmopDatabase(path) as utc, OmopDatabase(path, time_zone="Asia/Tokyo") as tokyo:
        starts = [drug_era_cohorts(db, {1: TARGET}).start for db in (utc, tokyo)]
    assert (starts[0] + 1 == starts[1]).all()


def test_one_table_of_instants_among_tables_of_dates_is_read_alike(omop, elsewhere):
    path = filled(omop)
    expected = answers(path)
    with duckdb.connect(str(path)) as con:
        con.execute(
            "ALTER TABLE condition_occurrence ALTER condition_start_date TYPE TIMESTAMPTZ "
            "USING timezone('UTC', condition_start_date::TIMESTAMP)"
        )
    assert answers(path) == expected


def test_the_settings_of_every_study_have_the_time_zone(omop, tmp_path):
    path = retyped(filled(omop), "TIMESTAMPTZ", "timezone('Asia/Tokyo', {c}::TIMESTAMP)")
    tokyo = {"time_zone": "Asia/Tokyo"}
    settings = case_series_settings(OUTCOME, TARGET, **tokyo)
    first = int(np.datetime64(day(1 - 365), "D").astype(int))
    assert case_series(path, settings).population.observed.min() <= first
    study = comparative_study(
        path, StudySettings(TARGET, COMPARATOR, OUTCOME, min_people=1, min_share=0.0, **tokyo)
    )
    assert pd.DataFrame(study.people)["start"].min() == pd.Timestamp(day(0))
    spec = {
        "cohorts": {"drugs": {"1": TARGET, "2": COMPARATOR}, "conditions": {"3": OUTCOME}},
        "question": [{"target": 1, "comparator": 2, "outcomes": [{"id": 3}]}],
        "analysis": [{"id": 1}],
    }
    assert read_spec({**spec, **tokyo}).time_zone == "Asia/Tokyo"
    for made in (
        lambda: OmopDatabase(path, time_zone="Mars/Olympus"),
        lambda: StudySettings(1, 2, 3, time_zone="Mars/Olympus"),
        lambda: case_series_settings(1, 2, time_zone="+09:00"),
        lambda: read_spec({**spec, "time_zone": "Mars/Olympus"}),
    ):
        with pytest.raises(DataError, match="time_zone must be the name of a time zone, such as"):
            made()


def test_a_table_of_cohorts_is_read_by_the_same_rule(omop, elsewhere):
    path = omop.write()
    with duckdb.connect(str(path)) as con:
        con.execute("SET TimeZone = 'UTC'")
        con.execute(
            "CREATE TABLE cohort AS SELECT 1 AS cohort_definition_id, 7 AS subject_id, "
            f"TIMESTAMPTZ '{EARLY}+00' AS cohort_start_date, "
            f"TIMESTAMP '{LATE}' AS cohort_end_date"
        )
    with OmopDatabase(path) as db:
        table = read_cohorts(db)
    assert [str(d[0]) for d in (table.start, table.end)] == ["2010-06-15"] * 2


def test_definitions_see_visits_and_deaths_by_the_same_rule(omop, elsewhere):
    pytest.importorskip("duckcdm")
    from tests.studies.test_circe import concept_set, definition

    omop.concept(9202, "visit")
    person = omop.person(born=1960)
    asked = definition(
        "VisitOccurrence",
        9202,
        EndStrategy={"DateOffset": {"DateField": "StartDate", "Offset": 90}},
        CensoringCriteria=[{"Death": {}}],
        sets=[concept_set(1, OUTCOME)],
    )
    path = omop.write()
    with duckdb.connect(str(path)) as con:
        con.execute("SET TimeZone = 'UTC'")
        for table in ("concept", "concept_ancestor"):
            con.execute(f"ALTER TABLE {table} ADD COLUMN invalid_reason VARCHAR")
        con.execute(
            "CREATE TABLE visit_occurrence AS SELECT 1 AS visit_occurrence_id, "
            f"{person}::BIGINT AS person_id, 9202 AS visit_concept_id, "
            f"TIMESTAMPTZ '{EARLY}+00' AS visit_start_date, "
            f"TIMESTAMPTZ '{LATE}+00' AS visit_end_date, 0 AS visit_source_concept_id"
        )
        con.execute(
            f"CREATE TABLE death AS SELECT {person}::BIGINT AS person_id, 0 AS cause_concept_id, "
            f"TIMESTAMPTZ '{day(30)} 23:30:00+00' AS death_date, 0 AS cause_source_concept_id"
        )
    with OmopDatabase(path) as db:
        made = circe_cohorts(db, {1: asked})
    assert [str(d[0]) for d in (made.start, made.end)] == ["2010-06-15", str(day(30))]


SCRIPT = """
import sys
from steropes.studies import OmopDatabase
from steropes.studies.cohorts import drug_era_cohorts
with OmopDatabase(sys.argv[1]) as db:
    table = drug_era_cohorts(db, {1: 1})
    print(*table.start, *table.end, db.provenance()["release"])
"""


@pytest.mark.parametrize(
    "zone", [ZONES[0], *(pytest.param(z, marks=pytest.mark.slow) for z in ZONES[1:])]
)
def test_a_process_in_another_time_zone_reads_the_same_dates(omop, zone):
    omop.person(target=0)
    path = retyped(omop.write(), "TIMESTAMPTZ", "timezone('UTC', {c}::TIMESTAMP)")
    with duckdb.connect(str(path)) as con:
        con.execute(
            "CREATE TABLE cdm_source AS SELECT 'site' AS cdm_source_name, "
            "TIMESTAMPTZ '2020-01-01 00:00:00+00' AS cdm_release_date"
        )
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)],
        env={**os.environ, "TZ": zone},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:3] == ["2010-06-15", "2010-06-15", "2020-01-01"]


# -- frames and settings ---------------------------------------------------------------------------


def in_tokyo(hour=0, on=dt.date(2010, 6, 15)):
    return dt.datetime(on.year, on.month, on.day, hour, 30, tzinfo=ZoneInfo("Asia/Tokyo"))


def columns_of_one_date():
    """One date, as every kind of column has it."""
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    early, late = pd.Series([in_tokyo()]), pd.Series([in_tokyo(23)])
    yield from (early, late, early.astype("datetime64[s, Asia/Tokyo]"), early.astype(object))
    yield from (early.astype("timestamp[us, tz=Asia/Tokyo][pyarrow]"), pd.DatetimeIndex(early))
    yield from ([in_tokyo()], [pd.Timestamp(in_tokyo(23))], [dt.datetime(2010, 6, 15, 23)])
    yield from ([dt.date(2010, 6, 15)], ["2010-06-15"], ["2010-06-15T00:30:00+14:00"])
    yield from (pd.Series([EARLY], dtype="string"), pd.Series([LATE]).astype("category"))
    yield from (np.array([LATE.replace(" ", "T")], f"datetime64[{u}]") for u in ("s", "us", "ns"))
    yield from (polars.Series([in_tokyo()]).dt.convert_time_zone("Asia/Tokyo"),)
    yield from (polars.Series([dt.date(2010, 6, 15)]), pyarrow.array([in_tokyo(23)]))
    yield pyarrow.array([dt.date(2010, 6, 15)])


def test_a_column_of_any_kind_gives_the_date_that_it_shows():
    kinds = list(columns_of_one_date())
    assert len(kinds) == 21
    for column in kinds:
        table = CohortTable([1], [1], column, column)
        assert str(table.start[0]) == str(table.end[0]) == "2010-06-15", column


def test_frames_with_time_zones_keep_their_days():
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    plain = {
        "cohort_definition_id": [1],
        "subject_id": [7],
        "cohort_start_date": [in_tokyo()],
        "cohort_end_date": [in_tokyo(23)],
    }
    pandas = pd.DataFrame(plain)
    zoned = polars.DataFrame(plain).with_columns(
        polars.col("cohort_start_date", "cohort_end_date").dt.convert_time_zone("Asia/Tokyo")
    )
    for frame in (pandas, zoned, pyarrow.Table.from_pandas(pandas), pyarrow.table(plain)):
        table = CohortTable.from_frame(frame)
        assert [str(d[0]) for d in (table.start, table.end)] == ["2010-06-15"] * 2


def test_people_of_a_frame_start_on_the_day_that_it_shows(omop, elsewhere):
    person = omop.person()
    omop.record("measurement", person, 9, -30)
    omop.record("measurement", person, 8, -31)
    omop.concept(8, "too early")
    omop.concept(9, "just in time")
    with OmopDatabase(omop.write()) as db:
        for start in ([in_tokyo()], [in_tokyo(23)], [day(0)], ["2010-06-15"]):
            people = pd.DataFrame({"person_id": [person], "start": start})
            found = extract_features(db, people, FeatureRules((704,)))
            assert found.columns["concept_id"].tolist() == [9]
        people = pd.DataFrame({"person_id": [person], "start": [pd.NaT]})
        with pytest.raises(DataError, match="entries: start is missing in row 0"):
            extract_features(db, people)


def test_a_setting_with_a_time_zone_is_the_date_that_it_shows():
    for value in (in_tokyo(), in_tokyo(23), pd.Timestamp(in_tokyo()), dt.date(2010, 6, 15)):
        assert ComparisonRules(study_end=value).study_end == dt.date(2010, 6, 15)
        [(first, _)] = CaseRules(1, study_periods=[(value, None)]).study_periods
        assert first == dt.date(2010, 6, 15)
    assert calendar_date("x", "2010-06-15T00:30:00+09:00") == dt.date(2010, 6, 15)
    text = {"study_start": "2010-06-15T23:30:00-05:00", "study_end": in_tokyo()}
    spec = {
        "cohorts": {"drugs": {"1": 1, "2": 2}, "conditions": {"3": 3}},
        "question": [{"target": 1, "comparator": 2, "outcomes": [{"id": 3}]}],
        "analysis": [{"id": 1, "cohorts": text}],
    }
    rules = read_spec(spec).analysis[0].cohorts
    assert rules.study_start == rules.study_end == dt.date(2010, 6, 15)


@pytest.mark.parametrize(
    "values",
    [["1987-02-30"], [""], ["20100615"], ["15/06/2010"], ["soon"], [dt.time(3)], [3], [b"2010"]],
)
def test_a_value_that_is_no_date_is_refused_by_row_and_not_shown(values):
    with pytest.raises(DataError, match="cohort table: cohort_start_date") as refused:
        CohortTable([1], [1], values, ["2010-06-15"])
    if isinstance(values[0], str) and values[0]:
        assert values[0] not in str(refused.value)
    for column in (np.array([20100615]), pd.Series([1.5]), np.array([True])):
        with pytest.raises(DataError, match="must be dates, timestamps or text"):
            as_days(column, "a column")
