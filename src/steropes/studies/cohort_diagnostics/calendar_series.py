"""Series of cohorts by calendar month, quarter and year, and by age and sex.

As in R's CohortDiagnostics, series "T1" counts entries of the cohort that overlap a period, and
"T2" observation periods of everybody who ever enters it. Days include the last day of each entry;
R adds one day to the sum instead.
"""

from __future__ import annotations

import pandas as pd

from steropes.studies.cohort_diagnostics.yearly_incidence import NOBODY
from steropes.studies.database.irregular_rows import distinct_people
from steropes.studies.database.observation_periods import observation_periods
from steropes.studies.database.omop import OmopDatabase, Workspace
from steropes.studies.database.sources.table_source import require_rows

__all__ = ["PERIOD", "calendar_series"]

PERIOD = ["cohort_id", "series_type", "calendar_interval", "period_begin", "period_end"]
FIRST_YEAR = 1980  # R leaves out earlier periods.
INTERVALS = {"m": 1, "q": 3, "y": 12}  # Months of each interval; "c" is the whole time.


def calendar_series(db: OmopDatabase, work: Workspace, entries: str) -> pd.DataFrame:
    """Count entries, people and days by period, age and sex.

    Parameters
    ----------
    entries : str
        The table of entries in the workspace.

    Returns
    -------
    DataFrame
        Exact counts by `PERIOD`, ``gender_id`` and ``age_group``, which are missing for all.

    Raises
    ------
    DataError
        There are too many cohorts; see `require_rows`.
    """
    _place_periods(db, work)
    # Every cohort has the series T2 in every period with observation of its people.
    [(rows,)] = work.rows(
        f"SELECT (SELECT count(DISTINCT cohort_definition_id) FROM {entries}) * "
        "(SELECT count(*) FROM series_periods)"
    )
    require_rows(rows, "periods of cohorts")
    people = distinct_people(db, f"SELECT subject_id FROM {entries}")
    sex = "gender_concept_id" if "gender_concept_id" in db.columns("person") else "NULL"
    work.run(
        "CREATE OR REPLACE TEMP TABLE series_people AS SELECT person_id AS person, "
        f"coalesce({sex}, {NOBODY})::BIGINT AS gender_id, year_of_birth AS born FROM {people}"
    )
    own = (
        "SELECT 'T1' AS series_type, cohort_definition_id AS cohort_id, subject_id AS person, "
        "cohort_start_date AS first, cohort_end_date AS last, cohort_start_date = "
        "min(cohort_start_date) OVER (PARTITION BY cohort_definition_id, subject_id) AS earliest "
        f"FROM {entries}"
    )
    observed = (
        "SELECT 'T2', e.cohort_id, e.person, op.observation_period_start_date::DATE, "
        "op.observation_period_end_date::DATE, FALSE FROM (SELECT DISTINCT cohort_definition_id AS "
        f"cohort_id, subject_id AS person FROM {entries}) e "
        f"JOIN {observation_periods(db)} op ON op.person_id = e.person"
    )
    return work.frame(_sql(f"{own} UNION ALL {observed}"))


def _place_periods(db: OmopDatabase, work: Workspace) -> None:
    """Create the table of months, quarters and years with observation, and of the whole time."""
    parts = [
        f"SELECT '{name}' AS calendar_interval, day::DATE AS period_begin, "
        f"(day + INTERVAL {n} MONTH - INTERVAL 1 DAY)::DATE AS period_end FROM "
        f"(SELECT unnest(generate_series(first, last, INTERVAL {n} MONTH)) AS day FROM years)"
        for name, n in INTERVALS.items()
    ]
    work.run(
        "CREATE OR REPLACE TEMP TABLE series_periods AS SELECT row_number() OVER () AS number, * "
        "FROM (WITH span AS (SELECT "
        "min(observation_period_start_date)::DATE AS opens, "
        f"max(observation_period_end_date)::DATE AS closes FROM {observation_periods(db)}), "
        f"years AS (SELECT make_date(greatest(year(opens), {FIRST_YEAR}), 1, 1) AS first, "
        "make_date(year(closes), 12, 31) AS last FROM span WHERE opens IS NOT NULL) "
        f"{' UNION ALL '.join(parts)} UNION ALL SELECT 'c', opens, closes FROM span "
        "WHERE opens IS NOT NULL)"
    )


def _sql(spans: str) -> str:
    """Return SQL that counts spans of people by period, in all combinations of strata."""
    inside = "{0} BETWEEN period_begin AND period_end"
    starts, ends = inside.format("first"), inside.format("last")
    days = "(least(last, period_end) - greatest(first, period_begin) + 1)"
    period, strata = ", ".join(PERIOD), "age_group, gender_id"
    sets = ", ".join(f"({', '.join(filter(None, (period, of)))})"
                     for of in ("", "gender_id", "age_group", strata))  # fmt: skip
    # Each person has one row in a period, so that people are counted without a set of ids.
    return f"""
    WITH spans AS ({spans}),
    by_person AS (
        SELECT series_type, cohort_id, number, person, count(*) AS records, sum({days}) AS days,
            sum(CASE WHEN earliest THEN {days} ELSE 0 END) AS days_in, bool_or(earliest) AS has,
            count(*) FILTER ({starts}) AS starts, count(*) FILTER ({ends}) AS ends,
            bool_or({starts} AND earliest) AS starts_in, bool_or({ends} AND earliest) AS ends_in
        FROM spans JOIN series_periods ON period_end >= first AND period_begin <= last
        GROUP BY series_type, cohort_id, number, person),
    placed AS (
        SELECT {period}, gender_id, coalesce(CASE WHEN born <= year(period_begin)
            THEN (year(period_begin) - born) // 10 END, {NOBODY})::BIGINT AS age_group, b.*
                EXCLUDE (series_type, cohort_id)
        FROM by_person b JOIN series_people USING (person) JOIN series_periods USING (number))
    SELECT {period}, {strata}, sum(records)::BIGINT AS records, count(*) AS subjects,
        sum(days)::BIGINT AS person_days, sum(days_in)::BIGINT AS person_days_in,
        count(*) FILTER (has) AS subjects_in,
        sum(starts)::BIGINT AS records_start, count(*) FILTER (starts > 0) AS subjects_start,
        count(*) FILTER (starts_in) AS subjects_start_in,
        sum(ends)::BIGINT AS records_end, count(*) FILTER (ends > 0) AS subjects_end,
        count(*) FILTER (ends_in) AS subjects_end_in
    FROM placed GROUP BY GROUPING SETS ({sets})
    HAVING coalesce(age_group, 0) >= 0 AND coalesce(gender_id, 0) >= 0
    ORDER BY ALL"""
