"""Times from the first target to outcomes, counted as Characterization counts them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.irregular_rows import leave_out_unknown_people
from steropes.studies.database.observation_periods import observation_periods
from steropes.studies.database.omop import OmopDatabase

__all__ = ["times_to_events"]

ENTRIES = "event_entries"
KEYS = [
    "target_cohort_definition_id", "outcome_cohort_definition_id", "outcome_type",
    "target_outcome_type",
]  # fmt: skip
# Days of each scale, and the largest distance from the target that it covers.
SCALES = {"per 1-day": (1, 100), "per 30-day": (30, 1080), "per 365-day": (365, None)}


def times_to_events(
    db: OmopDatabase, pairs: Sequence[tuple[int, int]], cohorts: CohortTable
) -> pd.DataFrame:
    """Count outcomes by the days since the first target, in the observation of that target.

    Parameters
    ----------
    pairs : sequence of (int, int)
        Targets and outcomes.

    Returns
    -------
    DataFrame
        Exact counts of events and of the ``persons`` who have them, which are not for release.
    """
    with db.workspace() as work:
        cohorts.only({c for pair in pairs for c in pair}).place(work, ENTRIES)
        leave_out_unknown_people(db, work, ENTRIES)
        asked = pd.DataFrame(pairs, columns=["target", "outcome"])
        work.connection.register("event_given", asked)
        work.run("CREATE OR REPLACE TEMP TABLE event_pairs AS SELECT * FROM event_given")
        work.connection.unregister("event_given")
        days = work.frame(_sql(db))
    counted = [_scaled(days, scale, *limits) for scale, limits in SCALES.items()]
    return pd.concat(counted, ignore_index=True)


def _sql(db: OmopDatabase) -> str:
    """Return SQL that counts each person's outcomes by day and place among the target entries."""
    return f"""
    WITH entries AS (
        SELECT cohort_definition_id AS cohort, subject_id AS person, cohort_start_date AS first,
            cohort_end_date AS last, row_number() OVER (
                PARTITION BY cohort_definition_id, subject_id ORDER BY cohort_start_date) AS number
        FROM {ENTRIES}),
    spans AS (
        SELECT cohort, person, min(first) AS first, max(last) AS last
        FROM entries GROUP BY cohort, person),
    events AS (
        SELECT p.target, p.outcome, s.person, s.first, s.last, o.first AS day, o.number
        FROM event_pairs p
        JOIN spans s ON s.cohort = p.target
        JOIN entries o ON o.cohort = p.outcome AND o.person = s.person
        JOIN {observation_periods(db)} op ON op.person_id = s.person
            AND s.first BETWEEN op.observation_period_start_date AND op.observation_period_end_date
            AND o.first BETWEEN op.observation_period_start_date AND op.observation_period_end_date
    ),
    placed AS (
        SELECT e.*, CASE
            WHEN e.day < e.first THEN 'Before first target start'
            WHEN t.number = 1 THEN 'During first'
            WHEN t.number > 1 THEN 'During subsequent'
            WHEN e.day > e.last THEN 'After last target end'
            ELSE 'Between target eras' END AS place
        FROM events e LEFT JOIN entries t ON t.cohort = e.target AND t.person = e.person
            AND e.day BETWEEN t.first AND t.last)
    SELECT target AS {KEYS[0]}, outcome AS {KEYS[1]},
        CASE number WHEN 1 THEN 'first' ELSE 'subsequent' END AS {KEYS[2]}, place AS {KEYS[3]},
        (day - first)::BIGINT AS days, person, count(*) AS num_events
    FROM placed GROUP BY ALL ORDER BY ALL
    """


def _scaled(days: pd.DataFrame, scale: str, width: int, farthest: int | None) -> pd.DataFrame:
    """Sum the counts over periods; a time is the end of its period that is farther from zero."""
    near = days if farthest is None else days[days["days"].abs() <= farthest]
    if width == 1:
        time = near["days"]
    else:
        side = near["days"].apply(lambda d: (d > 0) - (d < 0)).astype("int64")
        time = side * (near["days"].abs() // width + 1) * width
    found = near.assign(time_to_event=time).groupby([*KEYS, "time_to_event"], as_index=False)
    counts = found.agg(num_events=("num_events", "sum"), persons=("person", "nunique"))
    return counts.assign(time_scale=scale)
