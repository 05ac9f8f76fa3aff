"""Incidence of cohorts by calendar year, age and sex.

As in R's CohortDiagnostics a person has the outcome on the day of the first entry, if that day is
in an observation period after its washout. Time at risk ends on that day; R counts the time after
it instead, and leaves out the last day of each observation period.
"""

from __future__ import annotations

import pandas as pd

from steropes.studies.database.irregular_rows import distinct_people
from steropes.studies.database.observation_periods import observation_periods
from steropes.studies.database.omop import OmopDatabase, Workspace
from steropes.studies.database.sources.table_source import require_rows

__all__ = ["NOBODY", "STRATA", "yearly_incidence"]

STRATA = ["calendar_year", "age_group", "gender_id"]
SETS = (
    "GROUPING SETS ((), (gender_id), (age_group), (age_group, gender_id), (calendar_year), "
    "(calendar_year, age_group), (calendar_year, gender_id), (calendar_year, age_group, gender_id))"
)
NOBODY = -1  # Stands for an unknown age or sex, whose strata are left out.


def yearly_incidence(db: OmopDatabase, work: Workspace, entries: str, washout: int) -> pd.DataFrame:
    """Count people with a first entry, people and days at risk, in all combinations of strata.

    Parameters
    ----------
    entries : str
        The table of entries in the workspace.
    washout : int
        Days of observation before the time at risk.

    Returns
    -------
    DataFrame
        Exact counts: ``cohort_id``, the strata (missing for all), ``cases``, ``people`` and
        ``days`` at risk, and ``people_before`` and ``days_before`` their first entry ended them.

    Raises
    ------
    DataError
        There are too many cohorts; see `require_rows`.
    """
    _place_spans(db, work, washout)
    work.run(
        "CREATE TEMP TABLE first_entries AS SELECT cohort_definition_id AS cohort_id, "
        f"subject_id AS person, min(cohort_start_date) AS day FROM {entries} GROUP BY ALL"
    )
    [(rows,)] = work.rows(
        "SELECT (SELECT count(DISTINCT cohort_id) FROM first_entries) * (SELECT count(*) FROM "
        f"(SELECT 1 FROM year_spans GROUP BY {SETS}))"
    )
    require_rows(rows, "incidence rates by year, age and sex")
    # Each stratum of a person is counted at its first span, so that sums need no set of people.
    of_stratum = (
        "CASE WHEN grouping(calendar_year) = 0 THEN {of_year} "
        "WHEN grouping(age_group) = 0 THEN {of_age} ELSE {of_person} END"
    )
    people = {f"of_{of}": f"count(*) FILTER (first_of_{of})" for of in ("year", "age", "person")}
    lost = {name: f"{sql[:-1]} AND first >= day)" for name, sql in people.items()}
    everybody = (
        f"SELECT {', '.join(STRATA)}, {of_stratum.format(**people)} AS people_before, "
        f"sum(after - first) AS days_before FROM year_spans GROUP BY {SETS}"
    )
    # What an entry takes away: the days after it, and the people of strata of which none is left.
    gone = (
        f"SELECT cohort_id, {', '.join(STRATA)}, {of_stratum.format(**lost)} AS people_gone, "
        "sum(after - greatest(first, day)) AS days_gone, count(*) FILTER (day >= first) AS cases "
        "FROM first_entries JOIN year_spans USING (person) WHERE day < after "
        f"GROUP BY cohort_id, {SETS}"
    )
    same = " AND ".join(f"g.{s} IS NOT DISTINCT FROM e.{s}" for s in STRATA)
    found = work.frame(
        f"SELECT c.cohort_id, {', '.join(f'e.{s}::BIGINT AS {s}' for s in STRATA)}, "
        "coalesce(g.cases, 0)::BIGINT AS cases, "
        "(e.people_before - coalesce(g.people_gone, 0))::BIGINT AS people, "
        "(e.days_before - coalesce(g.days_gone, 0))::BIGINT AS days, e.people_before, "
        "e.days_before::BIGINT AS days_before FROM (SELECT DISTINCT cohort_id FROM first_entries) "
        f"c CROSS JOIN ({everybody}) e LEFT JOIN ({gone}) g ON g.cohort_id = c.cohort_id "
        f"AND {same} WHERE coalesce(e.age_group, 0) >= 0 AND coalesce(e.gender_id, 0) >= 0 "
        "AND e.people_before > 0 ORDER BY ALL"
    )
    return found


def _place_spans(db: OmopDatabase, work: Workspace, washout: int) -> None:
    """Create the table of each person's days at risk in a year, without those of the outcome.

    The year of a person's span before is that of the same period or of the one before, which needs
    a window over periods instead of one over the far more numerous spans.
    """
    people = distinct_people(db, f"SELECT person_id FROM {db.table('person')}")
    begin = f"(observation_period_start_date + {washout})::DATE"
    age = f"coalesce(({{year}} - year_of_birth) // 10, {NOBODY})::SMALLINT"
    work.run(
        "CREATE TEMP TABLE year_spans AS SELECT person, calendar_year, age_group, gender_id, "
        "first, after, year_before IS NULL AS first_of_person, "
        "age_before IS DISTINCT FROM age_group AS first_of_age, "
        "year_before IS DISTINCT FROM calendar_year AS first_of_year FROM ("
        f"SELECT person, calendar_year, year_before, {age.format(year='calendar_year')} AS "
        f"age_group, CASE WHEN year_before IS NOT NULL THEN {age.format(year='year_before')} END "
        f"AS age_before, coalesce(gender_concept_id, {NOBODY})::BIGINT AS gender_id, "
        "greatest(first, make_date(calendar_year, 1, 1)) AS first, "
        "least(after, make_date(calendar_year + 1, 1, 1)) AS after FROM ("
        "SELECT person, first, after, calendar_year::SMALLINT AS calendar_year, (CASE "
        "WHEN calendar_year > year(first) THEN calendar_year - 1 ELSE year_before END)::SMALLINT "
        "AS year_before FROM (SELECT *, unnest(range(year(first), year(after - 1) + 1)) AS "
        "calendar_year FROM (SELECT *, lag(year(after - 1)) OVER "
        "(PARTITION BY person ORDER BY first) AS year_before FROM ("
        f"SELECT person_id AS person, {begin} AS first, "
        "(observation_period_end_date + 1)::DATE AS after "
        f"FROM {observation_periods(db)} WHERE {begin} <= observation_period_end_date)))) "
        f"JOIN {people} p ON p.person_id = person)"
    )
