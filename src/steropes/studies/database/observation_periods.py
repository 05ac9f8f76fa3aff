"""Observation periods of people, joined where they overlap or touch.

OMOP requires that the observation periods of a person do not overlap, which many databases violate.
Every study therefore uses their union: a day is observed if at least one period includes it, and no
day counts twice.
"""

from __future__ import annotations

from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.irregular_rows import repeated_people
from steropes.studies.database.omop import OmopDatabase, Workspace

__all__ = [
    "DATED",
    "WITH_PERSON",
    "joined_periods",
    "joined_periods_note",
    "joined_spells",
    "late_observation_notes",
    "observation_periods",
    "people_notes",
    "undated_periods",
]

# A rule of attrition, listed only if it drops somebody.
DATED = "observation period has a first and a last day, in this order"

# A rule of attrition, listed only if it drops somebody.
WITH_PERSON = "has a row in the table person"

# The end of observation is a placeholder if it lies so many years after the last record. Without a
# date of extraction, people who are observed for some time after the last record are usual.
PLACEHOLDER_YEARS = 10

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
    All observation ends with ``db.observed_until``, if there is such a day.

    Parameters
    ----------
    people : str, optional
        A SELECT of one column, the ids of the people. Default: everybody.
    """
    some = "" if people is None else f"person_id IN ({people}) AND "
    last, inside = END, ""
    if db.observed_until is not None:
        day = f"DATE '{db.observed_until.isoformat()}'"
        last, inside = f"least({END}, {day})", f" AND {START} <= {day}"
    return joined_spells(
        f"SELECT person_id::BIGINT AS person_id, {START} AS first, {last} AS last "
        f"FROM {db.table('observation_period')} WHERE {some}{START} <= {END}{inside}"
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


def people_notes(
    db: OmopDatabase, work: Workspace, people: str, periods: str
) -> tuple[DataNote, ...]:
    """Count people with irregular observation, and those with several rows in ``person``.

    Parameters
    ----------
    people : str
        A SELECT of one column, the ids of the people.
    periods : str
        A SELECT of their joined periods.
    """
    return (
        *joined_periods_note(work, periods),
        *late_observation_notes(db, work, periods),
        *repeated_people(db, work, people),
    )


def late_observation_notes(db: OmopDatabase, work: Workspace, periods: str) -> tuple[DataNote, ...]:
    """Count people who are observed after the data end, and those observed after their death.

    The data end on the day of extraction or, if ``cdm_source`` has none, `PLACEHOLDER_YEARS` years
    after the last record of a condition or drug era. A server is not asked for the latter.

    Parameters
    ----------
    periods : str
        A SELECT of joined periods.
    """
    notes = []
    ends = _end_of_data(db)
    if ends is not None:
        day, limit, name = ends
        [(count,)] = work.rows(
            f"SELECT count(DISTINCT person_id) FROM ({periods}) WHERE last > DATE '{limit}'"
        )
        text = (
            f"People are observed after {name}, {day}, until the last day of their observation "
            f"period; observed_until = {day} ends observation on that day"
        )
        notes.append(DataNote("observed_after_data", text, int(count), warning=True))
    if {"person_id", "death_date"} <= {*db.columns("death")}:
        [(count,)] = work.rows(
            f"SELECT count(DISTINCT p.person_id) FROM ({periods}) p JOIN (SELECT person_id, "
            f"min(death_date::DATE) AS died FROM {db.table('death')} GROUP BY 1) d "
            "ON d.person_id = p.person_id AND p.last > d.died"
        )
        text = (
            "People are observed after their recorded death; their observation ends with their "
            "observation period"
        )
        notes.append(DataNote("observed_after_death", text, int(count), warning=True))
    return tuple(note for note in notes if note.count)


def _end_of_data(db: OmopDatabase) -> tuple[str, str, str] | None:
    """Return the day on which the data end, the latest usual day, and the name of the former."""
    have = db.columns("cdm_source")
    for column in ("source_release_date", "cdm_release_date"):
        if column in have:
            [(day,)] = db.rows(
                f"SELECT max(TRY_CAST(left({column}::VARCHAR, 10) AS DATE)) "
                f"FROM {db.table('cdm_source')}"
            )
            if day is not None:
                return str(day), str(day), f"the {column} of cdm_source"
    if db.copies:
        return None
    starts = (("drug_era", "drug_era_start_date"), ("condition_occurrence", "condition_start_date"))
    latest = " UNION ALL ".join(
        f"SELECT max({column}::DATE) AS day FROM {db.table(table)}" for table, column in starts
    )
    [(day, limit)] = db.rows(
        f"SELECT max(day), (max(day) + INTERVAL {PLACEHOLDER_YEARS} YEAR)::DATE FROM ({latest})"
    )
    return None if day is None else (str(day), str(limit), "the last record of the database")
