"""Further irregularities, put into a database that has been drawn."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .draw import Row

__all__ = ["add_oddities", "add_placeholder_ends"]

Some = Callable[[str, float], bool]
FAR = (1600, 1677, 2263, 2300)  # nanoseconds since 1970 reach from 1677 to 2262
VALUES = (0.0, -1.0, 1.5, 7.0, 1e30, 1e39, float("inf"), float("-inf"), float("nan"), None)
TEXTS = ("1.5", " 7 ", "-2e3", "", "high", "inf", "NaN", "1e400", "<5", None)


def add_oddities(rng: np.random.Generator, tables: dict[str, list[Row]], some: Some) -> None:
    """Change the rows of some tables, and add tables.

    Parameters
    ----------
    rng : Generator
    tables : dict
        Rows by table, changed in place.
    some : callable
        Decides whether an oddity is present, by its name and its probability.
    """
    if some("reversed eras", 0.25):
        for row in tables["drug_era"]:
            if rng.random() < 0.3 and row["drug_era_start_date"] is not None:
                early = int(rng.integers(1, 200))
                row["drug_era_end_date"] = _shifted(row["drug_era_start_date"], -early)
    if some("eras without an end", 0.15):
        for row in tables["drug_era"]:
            if rng.random() < 0.2:
                row["drug_era_end_date"] = None
    if some("duplicated people", 0.25):
        _repeat_people(rng, tables["person"])
    if some("deaths", 0.3):
        tables["death"] = [
            {
                "person_id": row["person_id"],
                # A day within the first years of observation, after which there may be records.
                "death_date": _shifted(
                    row["observation_period_start_date"], int(rng.integers(0, 900))
                ),
            }
            for row in tables["observation_period"]
            if rng.random() < 0.3
        ]
    if some("dates beyond nanoseconds", 0.2):
        _far_dates(rng, tables)
    if "measurement" in tables:
        _values(rng, tables["measurement"], some("values as text", 0.3))


def add_placeholder_ends(rng: np.random.Generator, rows: list[Row]) -> None:
    """Let half of the observation periods end on the last day of the calendar, in place."""
    column = "observation_period_end_date"
    for row in rows:
        end = row[column]
        if isinstance(end, dt.date) and rng.random() < 0.5:
            row[column] = end.replace(year=9999, month=12, day=31)


def _repeat_people(rng: np.random.Generator, rows: list[Row]) -> None:
    for row in [row for row in rows if rng.random() < 0.3]:
        other = dict(row)
        if rng.random() < 0.5:
            other["gender_concept_id"] = int(rng.choice([8507, 8532, 0]))
            other["year_of_birth"] = int(rng.integers(1920, 2011))
        rows.insert(int(rng.integers(len(rows) + 1)), other)


def _shifted(value: object, days: int) -> object:
    """Move a date by some days; a missing one stays missing."""
    return value + dt.timedelta(days=days) if isinstance(value, dt.date) else None


def _far_dates(rng: np.random.Generator, tables: dict[str, list[Row]]) -> None:
    """Put a few dates into years that nanoseconds do not reach."""

    def far(value: object, years: tuple[int, ...] = FAR) -> object:
        if not isinstance(value, dt.date):
            return value
        return value.replace(year=int(rng.choice(years)), month=1, day=int(rng.integers(1, 29)))

    for table, column in (
        ("condition_occurrence", "condition_start_date"),
        ("drug_era", "drug_era_start_date"),
        ("drug_era", "drug_era_end_date"),
    ):
        for row in tables[table]:
            if rng.random() < 0.05:
                row[column] = far(row[column])
    for row in tables["observation_period"][:2]:
        column = "observation_period_end_date" if rng.random() < 0.7 else (
            "observation_period_start_date"
        )  # fmt: skip
        row[column] = far(row[column], FAR[2:] if "end" in column else FAR[:2])


def _values(rng: np.random.Generator, rows: list[Row], text: bool) -> None:
    """Repeat measurements, and give them values, of which some are no finite numbers, and units."""
    for row in list(rows):
        for _ in range(int(rng.integers(0, 6))):
            days = int(rng.choice([-300, -30, -1, 0, 0, 30, 300]))
            rows.append({**row, "measurement_date": _shifted(row["measurement_date"], days)})
    for row in rows:
        pool = TEXTS if text else VALUES
        row["value_as_number"] = pool[int(rng.integers(len(pool)))]
        row["unit_concept_id"] = int(rng.choice([0, 8753, 8840]))
