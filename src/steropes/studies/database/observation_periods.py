"""Observation time of people: their observation periods, joined where they overlap or touch.

OMOP asks that the observation periods of a person do not overlap, and many databases break that
rule. Every study therefore reads the union: a day is observed where at least one period holds it,
and no day counts twice.
"""

from __future__ import annotations

from steropes.studies.database.data_notes import DataNote
from steropes.studies.database.omop import OmopDatabase, Workspace

__all__ = ["DATED", "joined_periods", "joined_periods_note", "joined_spells", "undated_periods"]

# The rule of an attrition table, which has the line where the rule drops somebody.
DATED = "observation period has a first and a last day, in this order"

START = "observation_period_start_date::DATE"
END = "observation_period_end_date::DATE"


def joined_spells(spells: str) -> str:
    """Write a SELECT of the spells of each person, joined where they overlap or touch.

    Parameters
    ----------
    spells : str
        A SELECT of ``person_id``, ``first`` and ``last`` (dates).

    Returns
    -------
    str
        A SELECT of the same columns, and ``spells``, the number of rows that were joined. A spell
        that begins on the day after the last day of another one touches it.
    """
    return f"""
    SELECT person_id, min(first) AS first, max(last) AS last, count(*) AS spells
    FROM (SELECT *, sum(new) OVER (PARTITION BY person_id ORDER BY first, last
                                   ROWS UNBOUNDED PRECEDING) AS number
          FROM (SELECT *, coalesce(first > 1 + max(last) OVER (
                           PARTITION BY person_id ORDER BY first, last
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), TRUE)::INTEGER AS new
                FROM ({spells})))
    GROUP BY person_id, number"""


def joined_periods(db: OmopDatabase, people: str | None = None) -> str:
    """Write a SELECT of the joined observation periods of some people; see `joined_spells`.

    A row of ``observation_period`` that lacks a date, or that ends before it starts, holds no day.

    Parameters
    ----------
    db : OmopDatabase
    people : str, optional
        A SELECT of one column, the ids of the people. Default: everybody.
    """
    some = "" if people is None else f"person_id IN ({people}) AND "
    return joined_spells(
        f"SELECT person_id::BIGINT AS person_id, {START} AS first, {END} AS last "
        f"FROM {db.table('observation_period')} WHERE {some}{START} <= {END}"
    )


def undated_periods(db: OmopDatabase, people: str) -> str:
    """Write a SELECT of the rows that hold no day: without a date, or with an end before the start.

    Parameters
    ----------
    db : OmopDatabase
    people : str
        A SELECT of one column, the ids of the people.

    Returns
    -------
    str
        A SELECT of ``person_id``, ``earliest`` and ``latest``: the days that the row would hold if
        its missing dates were known are among these.
    """
    lost = f"{START} IS NULL OR {END} IS NULL OR {END} < {START}"
    # a row that ends before it starts says nothing that can be trusted
    bounded = f"NOT coalesce({END} < {START}, FALSE)"
    return (
        "SELECT person_id::BIGINT AS person_id, "
        f"CASE WHEN {bounded} THEN coalesce({START}, DATE '0001-01-01') "
        "ELSE DATE '0001-01-01' END AS earliest, "
        f"CASE WHEN {bounded} THEN coalesce({END}, DATE '9999-12-31') "
        "ELSE DATE '9999-12-31' END AS latest "
        f"FROM {db.table('observation_period')} WHERE person_id IN ({people}) AND ({lost})"
    )


def joined_periods_note(work: Workspace, periods: str) -> tuple[DataNote, ...]:
    """Count the people whose periods were joined; no note where there are none.

    Parameters
    ----------
    work : Workspace
    periods : str
        A SELECT of joined periods.
    """
    [(count,)] = work.rows(f"SELECT count(DISTINCT person_id) FROM ({periods}) WHERE spells > 1")
    if not count:
        return ()
    text = "Observation periods that overlap or touch were joined, so that no day counts twice"
    return (DataNote("joined_periods", text, int(count)),)
