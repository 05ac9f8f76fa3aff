"""The rules by which entries of a target and a comparator cohort are kept, as functions of rows.

Days are whole numbers since 1970-01-01. ``comparison.py`` applies the rules and counts attrition.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.propensity.tied_scores import tie_keys
from steropes.designs.values.dates_and_ages import DAYS_PER_YEAR, AgeRule, birthday
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.age_sql import birth_day_sql
from steropes.studies.database.data_quality_notes import DataNote
from steropes.studies.database.observation_periods import (
    joined_periods,
    people_notes,
    undated_periods,
)
from steropes.studies.database.omop import OmopDatabase

__all__ = [
    "NEVER",
    "InclusionRule",
    "PersonData",
    "Rows",
    "common_period",
    "days",
    "distinct_rows",
    "has_person",
    "has_usable_period",
    "in_nesting_cohort",
    "is_first_in_arm",
    "observed",
    "random_sample",
    "resolve_people_in_both_arms",
    "within_ages",
    "within_study_dates",
]

NEVER = 10**9  # A day that never comes.
InclusionRule = Callable[["Rows"], NDArray]


def days(dates: NDArray) -> NDArray:
    """Convert dates to days since 1970-01-01."""
    return dates.astype("datetime64[D]").astype(np.int64)


@dataclass(frozen=True)
class Rows:
    """Entries of two cohorts as parallel columns, ordered by person and start."""

    person: NDArray
    treated: NDArray
    start: NDArray
    end: NDArray
    switch: NDArray  # The first entry into the other cohort after the start.
    observed_from: NDArray
    observed_to: NDArray

    @classmethod
    def of(cls, person: NDArray, treated: NDArray, start: NDArray, end: NDArray) -> Rows:
        """Create rows without known observation periods."""
        unknown = np.full(len(person), NEVER)
        return cls(person, treated, start, end, unknown, unknown, unknown)

    def where(self, keep: NDArray) -> Rows:
        """Select rows by a mask or by numbers."""
        return Rows(**{f.name: getattr(self, f.name)[keep] for f in fields(self)})


class PersonData:
    """Birth, sex and joined observation periods of some people, read once.

    Attributes
    ----------
    born : DataFrame
        ``person_id``, ``sex`` and ``born``.
    periods : DataFrame
        ``person``, ``observed_from`` and ``observed_to``; no two periods of a person overlap.
    notes : tuple of DataNote
    """

    def __init__(self, db: OmopDatabase, ids: NDArray) -> None:
        with db.workspace() as work:
            work.connection.register("wanted", pd.DataFrame({"person_id": ids}))
            self.born = work.frame(
                "SELECT p.person_id::BIGINT AS person_id, min(gender_concept_id)::BIGINT AS sex, "
                f"{birth_day_sql(db.columns('person'))} AS born "
                f"FROM {db.table('person')} p JOIN wanted w ON p.person_id = w.person_id GROUP BY 1"
            )
            periods = joined_periods(db, "SELECT person_id FROM wanted")
            self.periods = work.frame(
                "SELECT person_id AS person, first AS observed_from, last AS observed_to "
                f"FROM ({periods})"
            )
            self.undated = work.frame(undated_periods(db, "SELECT person_id FROM wanted"))
            self.notes = people_notes(db, work, "SELECT person_id FROM wanted", periods)
            work.connection.unregister("wanted")

    def birth(self, person: NDArray) -> tuple[NDArray, NDArray]:
        """Look up day of birth and sex of each person; NaN and 0 if unknown."""
        known = self.born.set_index("person_id").reindex(person)
        born = known["born"].to_numpy().astype("datetime64[D]")
        day = np.where(np.isnat(born), np.nan, born.astype(np.int64).astype(float))
        return day, known["sex"].fillna(0).to_numpy(np.int64)


def distinct_rows(rows: Rows) -> tuple[Rows, tuple[DataNote, ...]]:
    """Drop entries that repeat person, arm, start and end, and count them."""
    columns = (rows.person, rows.treated, rows.start, rows.end)
    repeats = np.zeros(len(rows.person), dtype=bool)
    repeats[1:] = np.logical_and.reduce([c[1:] == c[:-1] for c in columns])
    if not repeats.any():
        return rows, ()
    text = "Duplicate entries of a cohort, with the same days, count once"
    return rows.where(~repeats), (
        DataNote("repeated_entries", text, int(repeats.sum()), "entries"),
    )


def common_period(rows: Rows) -> tuple[int, int]:
    """Find the period from the later first start to the earlier last start of the arms."""
    starts = [rows.start[rows.treated == arm] for arm in (1, 0)]
    if not all(len(s) for s in starts):
        return -NEVER, NEVER
    return max(int(s.min()) for s in starts), min(int(s.max()) for s in starts)


def resolve_people_in_both_arms(rows: Rows, how: str) -> Rows:
    """Apply the rule for people in both arms, and record the switches to the other arm."""
    own, other = _first_starts(rows)
    rows = replace(rows, switch=_next_start(rows))
    if how == "remove all":
        return rows.where(other == NEVER)
    if how == "keep all":
        return rows
    kept, other = rows.where(own < other), other[own < other]
    if how == "keep first":
        return kept
    kept = replace(kept, end=np.minimum(kept.end, other - 1))
    return kept.where(kept.end >= kept.start)


def _keys(rows: Rows) -> tuple[NDArray, NDArray, int, int]:
    """Encode person and start as one number with the same order.

    Also returns the person's part of it, the origin and the width of a person's range.
    """
    _, code = np.unique(rows.person, return_inverse=True)
    origin = int(rows.start.min()) if len(rows.start) else 0
    width = int(rows.start.max()) - origin + 2 if len(rows.start) else 1
    base = code.astype(np.int64) * width
    return base + rows.start - origin, base, origin, width


def _look_up(keys: NDArray, wanted: NDArray, base: NDArray, origin: int, width: int) -> NDArray:
    """Find the first start in ``keys`` at or after ``wanted`` of the same person, else NEVER."""
    found = np.full(len(wanted), NEVER)
    place = np.searchsorted(keys, wanted)
    inside = np.flatnonzero(place < len(keys))
    start = keys[place[inside]] - base[inside]
    same = start < width - 1
    found[inside[same]] = start[same] + origin
    return found


def _first_starts(rows: Rows) -> tuple[NDArray, NDArray]:
    """Find the first start of each row's person in the row's arm and in the other arm."""
    key, base, origin, width = _keys(rows)
    by_arm = [
        _look_up(np.sort(key[rows.treated == arm]), base, base, origin, width) for arm in (0, 1)
    ]
    is_target = rows.treated == 1
    return np.where(is_target, *by_arm[::-1]), np.where(is_target, *by_arm)


def _next_start(rows: Rows) -> NDArray:
    """Find the first start in the other arm after each row's start."""
    key, base, origin, width = _keys(rows)
    by_arm = [
        _look_up(np.sort(key[rows.treated == arm]), key + 1, base, origin, width) for arm in (0, 1)
    ]
    return np.where(rows.treated == 1, *by_arm)


def is_first_in_arm(rows: Rows) -> NDArray:
    """Mark the first row of each person and arm."""
    own, _ = _first_starts(rows)
    earliest = np.flatnonzero(rows.start == own)
    repeated = pd.DataFrame({"person": rows.person, "treated": rows.treated}).iloc[earliest]
    keep = np.zeros(len(rows.person), dtype=bool)
    keep[earliest[~repeated.duplicated().to_numpy()]] = True
    return keep


def has_usable_period(rows: Rows, persons: PersonData) -> NDArray:
    """Mark rows, except those whose start lies only in a period that lacks a date."""
    keep = np.ones(len(rows.person), dtype=bool)
    if not len(persons.undated):
        return keep
    spans = pd.DataFrame(
        {
            "person": persons.undated["person_id"],
            "from": days(persons.undated["earliest"].to_numpy()),
            "to": days(persons.undated["latest"].to_numpy()),
        }
    )
    keep[_rows_within(rows, spans)] = False
    keep[_held(rows, persons)["row"].to_numpy()] = True
    return keep


def has_person(rows: Rows, persons: PersonData) -> NDArray:
    """Mark rows of people who have a row in the table ``person``."""
    return np.isin(rows.person, persons.born["person_id"].to_numpy())


def _rows_within(rows: Rows, spans: pd.DataFrame) -> NDArray:
    """Return the numbers of rows whose start lies in a span (``person``, ``from``, ``to``)."""
    frame = pd.DataFrame({"person": rows.person, "start": rows.start})
    held = frame.assign(row=np.arange(len(frame))).merge(spans, on="person")
    held = held[(held["start"] >= held["from"]) & (held["start"] <= held["to"])]
    return held["row"].to_numpy()


def observed(rows: Rows, persons: PersonData) -> Rows:
    """Keep the rows whose start lies in an observation period, and add that period."""
    held = _held(rows, persons)
    kept = rows.where(held["row"].to_numpy())
    return replace(
        kept,
        observed_from=held["observed_from"].to_numpy(),
        observed_to=held["observed_to"].to_numpy(),
    )


def _held(rows: Rows, persons: PersonData) -> pd.DataFrame:
    """Join rows with the observation period that contains their start, by row number."""
    frame = pd.DataFrame({"person": rows.person, "start": rows.start})
    frame["row"] = np.arange(len(frame))
    periods = persons.periods.assign(
        observed_from=days(persons.periods["observed_from"].to_numpy()),
        observed_to=days(persons.periods["observed_to"].to_numpy()),
    )
    held = frame.merge(periods, on="person")
    held = held[(held["start"] >= held["observed_from"]) & (held["start"] <= held["observed_to"])]
    return held.sort_values("row")


def within_ages(
    low: int | None, high: int | None, persons: PersonData, rule: AgeRule
) -> InclusionRule:
    """Return the rule that keeps completed ages from ``low`` to ``high`` at the start."""

    def keep(rows: Rows) -> NDArray:
        """Keep people within the limits of age at the start."""
        born, _ = persons.birth(rows.person)
        if rule == "365.25 days":
            age = (rows.start - born) / DAYS_PER_YEAR
            return (age >= (-np.inf if low is None else low)) & (
                age < (np.inf if high is None else high + 1)
            )
        known = ~np.isnan(born)
        days_of_birth = born[known].astype(np.int64).astype("datetime64[D]")
        start = rows.start[known]
        kept = np.zeros(len(born), dtype=bool)
        kept[known] = start >= days(birthday(days_of_birth, low or 0))
        if high is not None:
            kept[known] &= start < days(birthday(days_of_birth, high + 1))
        return kept

    return keep


def in_nesting_cohort(cohorts: CohortTable, nesting: int) -> InclusionRule:
    """Return the rule that keeps people who are in another cohort on the day of the start."""
    within = cohorts.only(nesting)
    spans = pd.DataFrame(
        {"person": within.subject, "from": days(within.start), "to": days(within.end)}
    )

    def keep(rows: Rows) -> NDArray:
        return np.isin(np.arange(len(rows.person)), _rows_within(rows, spans))

    return keep


def within_study_dates(first: dt.date | None, last: dt.date | None) -> InclusionRule:
    """Return the rule that keeps starts from one day to another, both inclusive."""
    low = -NEVER if first is None else int(np.datetime64(first, "D").astype(np.int64))
    high = NEVER if last is None else int(np.datetime64(last, "D").astype(np.int64))
    return lambda rows: (rows.start >= low) & (rows.start <= high)


def random_sample(most: int, seed: int) -> InclusionRule:
    """Return the rule that keeps the ``most`` entries of each arm with the smallest random keys.

    The key of an entry depends on the seed, the person and the day, not on the order of rows.
    """

    def keep(rows: Rows) -> NDArray:
        """Keep at most the given number of entries of each arm, drawn at random."""
        kept = np.zeros(len(rows.person), dtype=bool)
        keys = tie_keys(rows.person, seed)
        for arm in (1, 0):
            at = np.flatnonzero(rows.treated == arm)
            kept[at[np.lexsort((rows.start[at], keys[at]))[:most]]] = True
        return kept

    return keep
