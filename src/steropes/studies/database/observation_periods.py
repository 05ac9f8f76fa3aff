"""Observation periods of people, joined where they overlap or touch.

OMOP requires that the observation periods of a person do not overlap, which many databases violate.
Every study therefore uses their union: a day is observed if at least one period includes it, and no
day counts twice.
"""

from __future__ import annotations

import datetime as dt

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

# Without a date of extraction, observation may end three years after the last record: periods are
# often written until the end of a calendar year, and an extract of some conditions and drugs can
# lack its last records by years. Placeholder dates lie decades ahead.
USUAL_DAYS = 1_096

# The first days of events, of tables with few rows first. Last days are left out, because they are
# often planned or placeholders themselves.
EVENTS = {
    "visit_occurrence": "visit_start_date",
    "condition_occurrence": "condition_start_date",
    "drug_era": "drug_era_start_date",
    "death": "death_date",
    "device_exposure": "device_exposure_start_date",
    "procedure_occurrence": "procedure_date",
    "drug_exposure": "drug_exposure_start_date",
    "observation": "observation_date",
    "measurement": "measurement_date",
}

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

    The data end on the day of extraction. If ``cdm_source`` has none and no ``observed_until`` was
    chosen, they end with the last of the `EVENTS`, and people are counted who are observed for more
    than `USUAL_DAYS` after it.

    Parameters
    ----------
    periods : str
        A SELECT of joined periods.
    """
    notes = []
    ends = _end_of_data(db, work, periods)
    if ends is not None:
        day, usual, name = ends
        [(count,)] = work.rows(
            f"SELECT count(DISTINCT person_id) FROM ({periods}) WHERE last > DATE '{day}' + {usual}"
        )
        by = f" by more than {usual:,} days," if usual else ""
        text = (
            f"People are observed after {name}, {day},{by} until the last day of their observation "
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


def _end_of_data(db: OmopDatabase, work: Workspace, periods: str) -> tuple[str, int, str] | None:
    """Return the day on which the data end, the days after it that are usual, and its name.

    None if it is not known, or if no one can be observed after it.
    """
    have, today = db.columns("cdm_source"), dt.date.today()
    for column in ("source_release_date", "cdm_release_date"):
        if column in have:
            [(day,)] = db.rows(
                "SELECT max(day) FROM "
                f"(SELECT TRY_CAST(left({column}::VARCHAR, 10) AS DATE) AS day "
                f"FROM {db.table('cdm_source')}) WHERE day <= DATE '{today.isoformat()}'"
            )
            if day is not None:
                return str(day), 0, f"the {column} of cdm_source"
    [(observed,)] = work.rows(f"SELECT max(last) FROM ({periods})")
    latest = None
    if db.observed_until is not None:  # A user who chooses the day knows when the data end.
        return None
    for table, column in EVENTS.items():
        # A record of the future is a mistake, and years are enough to notice it: a day would
        # depend on the time zone.
        if column in db.columns(table):
            day = db.last_day(table, column, dt.date(today.year, 12, 31))
            latest = max(filter(None, (latest, day)), default=None)
        # The other tables can only have later records, and large ones take a server minutes.
        if observed is None or (latest and (observed - latest).days <= USUAL_DAYS):
            return None
    return None if latest is None else (str(latest), USUAL_DAYS, "the last record of the database")
