"""Dechallenges and rechallenges, counted as Characterization counts them.

A dechallenge is an entry of the target that ends soon after an outcome began during it. It fails if
the outcome begins again soon after that end. A rechallenge is a later entry of a person whose
dechallenge did not fail, and fails if the outcome begins during it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple

import pandas as pd

from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.irregular_rows import leave_out_unknown_people
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.strategus_plans.characterization_plan import Challenge

__all__ = ["challenge_counts"]

ENTRIES = "challenge_entries"
KEYS = {
    "target": "target_cohort_definition_id",
    "outcome": "outcome_cohort_definition_id",
    "stop": "dechallenge_stop_interval",
    "span": "dechallenge_evaluation_window",
}


def challenge_counts(
    db: OmopDatabase, challenges: Sequence[Challenge], cohorts: CohortTable
) -> pd.DataFrame:
    """Count dechallenges and rechallenges of pairs of cohorts that both have entries.

    Parameters
    ----------
    challenges : sequence of Challenge
        Targets and outcomes.

    Returns
    -------
    DataFrame
        Exact counts, which are not for release. ``num_exposure_eras`` counts entries,
        ``num_cases`` pairs of an entry and an outcome during it, of which ``case_persons`` is the
        number of people, and all other columns people.
    """
    with db.workspace() as work:
        cohorts.only({c for x in challenges for c in (x.target, x.outcome)}).place(work, ENTRIES)
        leave_out_unknown_people(db, work, ENTRIES)
        asked = pd.DataFrame([astuple(c) for c in challenges], columns=list(KEYS))
        work.connection.register("challenge_given", asked)
        try:
            return work.frame(_sql())
        finally:
            work.connection.unregister("challenge_given")


def _sql() -> str:
    """Return SQL that counts people and entries of each pair of cohorts."""
    key = "target, outcome, stop, span"
    keys = ", ".join(f"{name} AS {column}" for name, column in KEYS.items())
    return f"""
    WITH entries AS (
        SELECT cohort_definition_id AS cohort, subject_id AS person, cohort_start_date AS first,
            cohort_end_date AS last
        FROM {ENTRIES}),
    sizes AS (
        SELECT cohort, count(*) AS eras, count(DISTINCT person) AS people
        FROM entries GROUP BY cohort),
    cases AS (
        SELECT {key}, t.person, t.last, o.first AS day
        FROM challenge_given c
        JOIN entries t ON t.cohort = c.target
        JOIN entries o ON o.cohort = c.outcome AND o.person = t.person
            AND o.first > t.first AND o.first <= t.last),
    stopped AS (SELECT DISTINCT {key}, person, last FROM cases WHERE last <= day + stop::INTEGER),
    judged AS (
        SELECT {key}, s.person, s.last, count(o.person) > 0 AS failed
        FROM stopped s LEFT JOIN entries o ON o.cohort = s.outcome AND o.person = s.person
            AND o.first > s.last AND o.first <= s.last + span::INTEGER
        GROUP BY ALL),
    again AS (
        SELECT {key}, j.person, count(o.person) > 0 AS failed
        FROM judged j
        JOIN entries t ON t.cohort = j.target AND t.person = j.person
            AND t.first > j.last + span::INTEGER
        LEFT JOIN entries o ON o.cohort = j.outcome AND o.person = t.person
            AND o.first > t.first AND o.first <= t.last
        WHERE NOT j.failed
        GROUP BY ALL),
    of_cases AS (
        SELECT {key}, count(*) AS num_cases, count(DISTINCT person) AS case_persons
        FROM cases GROUP BY ALL),
    of_stopped AS (
        SELECT {key}, count(DISTINCT person) AS attempts,
            count(DISTINCT person) FILTER (failed) AS fails
        FROM judged GROUP BY ALL),
    of_again AS (
        SELECT {key}, count(DISTINCT person) AS attempts,
            count(DISTINCT person) FILTER (failed) AS fails
        FROM again GROUP BY ALL)
    SELECT {keys}, t.eras AS num_exposure_eras, t.people AS num_persons_exposed,
        coalesce(n.num_cases, 0) AS num_cases, coalesce(n.case_persons, 0) AS case_persons,
        coalesce(s.attempts, 0) AS dechallenge_attempt, coalesce(s.fails, 0) AS dechallenge_fail,
        coalesce(s.attempts - s.fails, 0) AS dechallenge_success,
        coalesce(a.attempts, 0) AS rechallenge_attempt, coalesce(a.fails, 0) AS rechallenge_fail,
        coalesce(a.attempts - a.fails, 0) AS rechallenge_success
    FROM challenge_given
    JOIN sizes t ON t.cohort = target
    JOIN sizes o ON o.cohort = outcome
    LEFT JOIN of_cases n USING ({key})
    LEFT JOIN of_stopped s USING ({key})
    LEFT JOIN of_again a USING ({key})
    ORDER BY {key}
    """
