"""Rows that violate OMOP's conventions, with the rules for reading and counting them.

- A record without a first day is left out.
- An era that ends before it starts, or has no last day, is read as one day, its first.
- An era that ends in the distant future is read until observation ends, with a warning.
- A person with several rows in ``person`` counts once, with the smallest value of each column.
- A visit with several rows of one ``visit_occurrence_id`` counts once.
- A person without a row in ``person`` is left out.
"""

from __future__ import annotations

import datetime as dt

from steropes.studies.database.age_sql import birth_day_sql
from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.omop import OmopDatabase, Workspace

__all__ = [
    "distinct_people",
    "irregular_eras",
    "last_day",
    "leave_out_unknown_people",
    "repeated_people",
    "repeated_visits",
    "unknown_ages",
    "unknown_people",
    "unknown_sexes",
]


def last_day(first: str, last: str) -> str:
    """Return SQL of an era's last day: its first day if the end is missing or earlier."""
    return f"greatest({first}::DATE, {last}::DATE)"  # greatest() ignores a missing date.


def irregular_eras(
    work: Workspace, source: str, table: str, dates: tuple[str, str], where: str = "TRUE"
) -> tuple[DataNote, ...]:
    """Count the records that lack a day, end before they start, or end after the next year.

    Parameters
    ----------
    work : Workspace
        Workspace in which ``source`` and ``where`` are evaluated.
    source : str
        SQL of the records, for use after FROM.
    table : str
        Name of their table, for the note.
    dates : (str, str)
        Columns of the first and last day.
    where : str
        Condition that selects the records.
    """
    first, last = dates
    # The supply of a recent dispensing may last into the next year; later days are placeholders.
    year = dt.date.today().year + 1
    [(undated, before, never, far)] = work.rows(
        f"SELECT count(*) FILTER ({first} IS NULL), "
        f"count(*) FILTER ({last}::DATE < {first}::DATE), "
        f"count(*) FILTER ({last} IS NULL AND {first} IS NOT NULL), "
        f"count(*) FILTER ({last}::DATE > DATE '{year}-12-31' "
        f"AND {first}::DATE <= DATE '{year}-12-31') "
        f"FROM {source} AS records WHERE {where}"
    )
    one_day = "count as one day, their first"
    found = (
        ("undated_records", "without a first day are left out", int(undated)),
        ("reversed_eras", f"that end before they start {one_day}", int(before)),
        ("open_eras", f"without a last day {one_day}", int(never)),
        ("future_eras", f"that end after {year} last until observation ends", int(far)),
    )
    return tuple(
        DataNote(
            topic, f"Records of {table} {which}", count, "records", warning=topic == "future_eras"
        )
        for topic, which, count in found
        if count
    )


def distinct_people(db: OmopDatabase, people: str) -> str:
    """Return the table ``person`` with one row for each of some people, for use after FROM.

    Of several rows the smallest value of each column counts. The columns are ``person_id``,
    ``born`` (the day of birth, see `birth_day_sql`), ``year_of_birth``, and those of
    gender, race and ethnicity that the database has.

    Parameters
    ----------
    db : OmopDatabase
    people : str
        A SELECT of one column, the ids of the people.
    """
    concepts = ("gender_concept_id", "race_concept_id", "ethnicity_concept_id")
    have = db.columns("person")
    listed = "".join(f", min({c}) AS {c}" for c in concepts if c in have)
    born = birth_day_sql(have)
    return (
        f"(SELECT *, year(born) AS year_of_birth FROM (SELECT person_id, {born} AS born"
        f"{listed} FROM {db.table('person')} WHERE person_id IN ({people}) GROUP BY person_id))"
    )


def unknown_ages(
    db: OmopDatabase, work: Workspace, people: str, as_number: bool
) -> tuple[DataNote, ...]:
    """Count the people without a year of birth, and those born after their start.

    Parameters
    ----------
    people : str
        A SELECT of ``person_id`` and ``start``.
    as_number : bool
        Whether a covariate is the age in years, in which an unknown age is zero.
    """
    [(late, unknown)] = work.rows(
        "SELECT count(DISTINCT person_id) FILTER (born > start), "
        f"count(DISTINCT person_id) FILTER (born IS NULL) FROM ({people}) "
        f"JOIN {distinct_people(db, f'SELECT person_id FROM ({people})')} USING (person_id)"
    )
    rest = "have no age group among the covariates, and stay in"
    zero = ", with the age 0 in the covariate of years" if as_number else ""
    found = {
        "born_after_start": (late, f"People born after their start {rest}"),
        "no_year_of_birth": (unknown, f"People without a year of birth {rest}{zero}"),
    }
    return tuple(DataNote(topic, text, int(n)) for topic, (n, text) in found.items() if n)


def unknown_sexes(db: OmopDatabase, work: Workspace, people: str) -> tuple[DataNote, ...]:
    """Count the people without a concept of their sex.

    Parameters
    ----------
    people : str
        A SELECT of one column, the ids of the people.
    """
    if "gender_concept_id" not in db.columns("person"):
        return ()
    [(count,)] = work.rows(
        f"SELECT count(*) FROM {distinct_people(db, people)} "
        "WHERE coalesce(gender_concept_id, 0) = 0"
    )
    text = "People without a sex in table person have none among the covariates, and stay in"
    return (DataNote("no_sex", text, int(count)),) if count else ()


def repeated_people(db: OmopDatabase, work: Workspace, people: str) -> tuple[DataNote, ...]:
    """Count the people with several rows in ``person``.

    Parameters
    ----------
    people : str
        A SELECT of one column, the ids of the people.
    """
    [(count,)] = work.rows(
        f"SELECT count(*) FROM (SELECT person_id FROM {db.table('person')} "
        f"WHERE person_id IN ({people}) GROUP BY person_id HAVING count(*) > 1)"
    )
    text = (
        "People with several rows in table person count once, with the smallest value of each "
        "column"
    )
    return (DataNote("repeated_people", text, int(count)),) if count else ()


def unknown_people(db: OmopDatabase, work: Workspace, people: str) -> tuple[DataNote, ...]:
    """Count the people without a row in ``person``, who are left out.

    Parameters
    ----------
    people : str
        As in `repeated_people`.
    """
    [(count,)] = work.rows(
        f"SELECT count(DISTINCT id) FROM ({people}) AS p (id) WHERE id NOT IN ({_known(db)})"
    )
    text = "People without a row in the table person are left out"
    return (DataNote("unknown_people", text, int(count), warning=True),) if count else ()


def leave_out_unknown_people(db: OmopDatabase, work: Workspace, entries: str) -> None:
    """Delete the cohort entries of people without a row in ``person`` from a temporary table."""
    work.run(f"DELETE FROM {entries} WHERE subject_id NOT IN ({_known(db)})")


def _known(db: OmopDatabase) -> str:
    """Return a SELECT of the ids of all people with a row in ``person``."""
    return f"SELECT person_id::BIGINT FROM {db.table('person')} WHERE person_id IS NOT NULL"


def repeated_visits(db: OmopDatabase, work: Workspace, people: str) -> tuple[DataNote, ...]:
    """Count the rows of ``visit_occurrence`` that repeat another row's visit.

    Parameters
    ----------
    people : str
        As in `repeated_people`.
    """
    if not {"person_id", "visit_occurrence_id"} <= {*db.columns("visit_occurrence")}:
        return ()
    [(count,)] = work.rows(
        "SELECT count(visit_occurrence_id) - count(DISTINCT visit_occurrence_id) "
        f"FROM {db.table('visit_occurrence')} WHERE person_id IN ({people})"
    )
    text = "Rows of visit_occurrence that repeat a visit_occurrence_id are left out"
    return (DataNote("repeated_visits", text, int(count), "records"),) if count else ()
