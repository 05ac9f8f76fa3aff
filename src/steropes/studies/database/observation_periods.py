"""Observation periods of people, joined where they overlap or touch.

OMOP requires that the observation periods of a person do not overlap, which many databases violate.
Every study therefore uses their union: a day is observed if at least one period includes it, and no
day counts twice.
"""

from __future__ import annotations

from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.omop import OmopDatabase, Workspace

__all__ = [
    "DATED",
    "joined_periods",
    "joined_periods_note",
    "joined_spells",
    "observation_periods",
    "undated_periods",
]

# A rule of attrition, listed only if it drops somebody.
DATED = "observation period has a first and a last day, in this order"

START = "observation_period_start_date::DATE"
END = "observation_period_end_date::DATE"


def joined_spells(spells: str) -> str:
    """Return a SELECT of the spells of each person, joined where they overlap or touch.

    Parameters
    ----------
    spells : str
        A SELECT of ``person_id``, ``first`` and ``last`` (dates).

    Returns
    -------
    str
        A SELECT of the same columns and ``spells``, the number of joined rows. A spell that begins
        on the day after the end of another one touches it.
    """
    # Equal spells have no order, and the two windows may see them in different ones. At most one of
    # equal spells is new, and must count first.
    return f"""
    SELECT person_id, min(first) AS first, max(last) AS last, count(*) AS spells
    FROM (SELECT *, sum(new) OVER (PARTITION BY person_id ORDER BY first, last, new DESC
                                   ROWS UNBOUNDED PRECEDING) AS number
          FROM (SELECT *, coalesce(first > 1 + max(last) OVER (
                           PARTITION BY person_id ORDER BY first, last
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), TRUE)::INTEGER AS new
                FROM ({spells})))
    GROUP BY person_id, number"""


def joined_periods(db: OmopDatabase, people: str | None = None) -> str:
    """Return a SELECT of the joined observation periods of some people; see `joined_spells`.

    A row of ``observation_period`` without a date, or with an end before its start, has no days.

    Parameters
    ----------
    people : str, optional
        A SELECT of one column, the ids of the people. Default: everybody.
    """
    some = "" if people is None else f"person_id IN ({people}) AND "
    return joined_spells(
        f"SELECT person_id::BIGINT AS person_id, {START} AS first, {END} AS last "
        f"FROM {db.table('observation_period')} WHERE {some}{START} <= {END}"
    )


def observation_periods(db: OmopDatabase) -> str:
    """Return the joined periods of everybody in the columns of the table, for use after FROM."""
    return (
        "(SELECT person_id, first AS observation_period_start_date, "
        f"last AS observation_period_end_date FROM ({joined_periods(db)}))"
    )


def undated_periods(db: OmopDatabase, people: str) -> str:
    """Return a SELECT of the rows without days: without a date, or with an end before the start.

    Parameters
    ----------
    people : str
        A SELECT of one column, the ids of the people.

    Returns
    -------
    str
        A SELECT of ``person_id``, ``earliest`` and ``latest``, which bound the days that the row
        would include if its dates were known.
    """
    lost = f"{START} IS NULL OR {END} IS NULL OR {END} < {START}"
    # Neither date of a row that ends before it starts can be trusted.
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
    """Count the people whose periods were joined; no note if there are none.

    Parameters
    ----------
    periods : str
        A SELECT of joined periods.
    """
    [(count,)] = work.rows(f"SELECT count(DISTINCT person_id) FROM ({periods}) WHERE spells > 1")
    if not count:
        return ()
    text = "Observation periods that overlap or touch were joined, so that no day counts twice"
    return (DataNote("joined_periods", text, int(count)),)
