"""People that two cohorts share, and which of the cohorts they enter first."""

from __future__ import annotations

import pandas as pd

from steropes.studies.database.omop import Workspace

__all__ = ["cohort_overlap"]


def cohort_overlap(work: Workspace, entries: str) -> pd.DataFrame:
    """Count the people in each two cohorts that share any, by the order of their first entries.

    Parameters
    ----------
    entries : str
        The table of entries in the workspace.

    Returns
    -------
    DataFrame
        Exact counts: ``cohort_id``, ``other_cohort_id``, ``both_subjects``, those who enter the
        first cohort before (``before_subjects``), on the day of (``same_day_subjects``) and after
        the other (``after_subjects``), and those in one cohort ``only``.
    """
    return work.frame(f"""
    WITH firsts AS (
        SELECT cohort_definition_id AS cohort, subject_id, min(cohort_start_date) AS first
        FROM {entries} GROUP BY ALL),
    sizes AS (SELECT cohort, count(*) AS people FROM firsts GROUP BY cohort),
    pairs AS (
        SELECT a.cohort AS cohort_id, b.cohort AS other_cohort_id, count(*) AS both_subjects,
            count(*) FILTER (a.first < b.first) AS before_subjects,
            count(*) FILTER (a.first = b.first) AS same_day_subjects,
            count(*) FILTER (a.first > b.first) AS after_subjects
        FROM firsts a JOIN firsts b ON b.subject_id = a.subject_id AND a.cohort < b.cohort
        GROUP BY ALL)
    SELECT p.*, s.people - both_subjects AS only_subjects,
        o.people - both_subjects AS other_only_subjects
    FROM pairs p JOIN sizes s ON s.cohort = cohort_id JOIN sizes o ON o.cohort = other_cohort_id
    ORDER BY cohort_id, other_cohort_id
    """)
