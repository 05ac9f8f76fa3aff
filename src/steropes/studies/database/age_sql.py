"""SQL of days of birth, birthdays and ages in completed years."""

from __future__ import annotations

from collections.abc import Collection

from steropes.studies.database.sources.table_source import MARK

__all__ = ["age_sql", "birth_day_sql", "birthday_sql"]


def birth_day_sql(have: Collection[str]) -> str:
    """Return SQL of the day of birth, for a SELECT from ``person`` grouped by person.

    A missing or invalid month or day (0, the 30th of February) is taken as the first. Of
    several rows of a person the smallest values count.

    Parameters
    ----------
    have : collection of str
        The columns of ``person``.
    """
    month, day = (
        f"min({c})::BIGINT" if c in have else "1" for c in ("month_of_birth", "day_of_birth")
    )
    # make_date raises for an invalid day, which would stop the whole query.
    message = (
        f"{MARK}person: year_of_birth lies outside the years 1 to 9999; correct it, or write "
        "NULL where it is not known"
    )
    year = (
        "CASE WHEN min(year_of_birth) IS NULL OR min(year_of_birth) BETWEEN 1 AND 9999 "
        f"THEN min(year_of_birth)::BIGINT ELSE error('{message}') END"
    )
    first = f"make_date({year}, CASE WHEN {month} BETWEEN 1 AND 12 THEN {month} ELSE 1 END, 1)"
    return (
        f"{first} + CASE WHEN {day} BETWEEN 1 AND day(last_day({first})) "
        f"THEN ({day} - 1)::INTEGER ELSE 0 END"
    )


def birthday_sql(born: str, years: int) -> str:
    """Return SQL of the day that `birthday` of arrays gives, for a column of dates."""
    month = f"make_date(year({born}) + {int(years)}, month({born}), 1)"
    return f"({month} + (day({born}) - 1)::INTEGER)"


def age_sql(born: str, on: str) -> str:
    """Return SQL of the age in completed years, from two columns of dates."""
    before = f"(month({on}), day({on})) < (month({born}), day({born}))"
    return f"(year({on}) - year({born}) - ({before})::BIGINT)"
