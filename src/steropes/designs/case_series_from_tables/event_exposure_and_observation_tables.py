"""Events, exposures and observation of people, from three tables, with checks of every column."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.data.number_formatting import value_text
from steropes.designs.case_series.interval_splitting import DAY
from steropes.designs.case_series_from_tables.day_columns import DayColumns
from steropes.designs.values.input_checks import refuse_missing, rows_of
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError

__all__ = [
    "ColumnNames", "Exposures", "Observation", "column_of", "period_of", "read_events",
    "read_exposures", "read_observation",
]  # fmt: skip


@dataclass(frozen=True)
class ColumnNames:
    """Names of columns, as in `self_controlled_case_series`."""

    id: str
    event_day: str
    exposure: str | None
    dose: str | None
    start: str
    end: str
    birth: str | None
    ended_early: str | None

    def __post_init__(self) -> None:
        """Refuse names that are no text, and a column that is named twice in one table."""
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        for part, name in given.items():
            if name is not None and not isinstance(name, str):
                raise DataError(f"{part} must be the name of a column, not {name!r}.")
        for table in (
            ("id", "event_day"),
            ("id", "start", "end", "exposure", "dose"),
            ("id", "start", "end", "birth", "ended_early"),
        ):
            own = [part for part in table if given[part] is not None]
            for k, part in enumerate(own):
                other = next((p for p in own[:k] if given[p] == given[part]), None)
                if other is not None:
                    raise DataError(
                        f"{other} and {part} are both the column {given[part]!r}; name another."
                    )


@dataclass(frozen=True)
class Observation:
    """Observation periods, sorted by person and first day."""

    ids: pd.Index
    person: NDArray
    first: NDArray
    last: NDArray
    age: NDArray
    shift: NDArray  # Added to days of the tables to give days since 1970-01-01.
    known: NDArray
    row: NDArray  # The row of the table.


def read_observation(observation: Any, names: ColumnNames, days: DayColumns) -> Observation:
    """Read the observation periods."""
    wanted = [names.id, names.start, names.end, names.birth, names.ended_early]
    table = read_columns(observation, [n for n in wanted if n is not None], "observation")
    if not len(table):
        raise DataError("observation is empty; it needs a row for each person with an event.")
    refuse_missing(table[names.id], column_of("observation", names.id))
    bounds = []
    for name in (names.start, names.end):
        refuse_missing(table[name], column_of("observation", name))
        bounds.append(days.read(table[name], column_of("observation", name))[0])
    first, last = bounds
    wrong = last < first
    if wrong.any():
        raise DataError(
            f"observation ends ({names.end!r}) before it starts ({names.start!r}) in "
            f"{rows_of(wrong)}; correct or leave out these rows."
        )
    wrong = last - first >= (1 << DAY) - 1
    if wrong.any():
        raise DataError(f"observation lasts longer than dates reach in {rows_of(wrong)}.")
    person, ids = _codes(table[names.id])
    order = np.lexsort((first, person))
    a, b = order[:-1], order[1:]
    over = (person[a] == person[b]) & (first[b] <= last[a])
    if over.any():
        k = int(over.argmax())
        raise DataError(
            f"observation has overlapping periods of one {names.id!r} in the rows "
            f"{min(a[k], b[k])} and {max(a[k], b[k])} (counted from 0); keep one row for each "
            "person or for each separate period."
        )
    age, shift = _ages(table, names, days, first)
    known = _known_ends(table, names)
    return Observation(
        ids, *(x[order] for x in (person, first, last, age, shift, known, np.arange(len(order))))
    )  # fmt: skip


def _ages(
    table: pd.DataFrame, names: ColumnNames, days: DayColumns, first: NDArray
) -> tuple[NDArray, NDArray]:
    """Return ages on the first day of observation, and the shift of days to calendar dates."""
    none = np.zeros(len(first), np.int64)
    if names.birth is None:
        # Numbers are ages, or days of another scale on which age groups are groups of time.
        return np.full(len(first), np.nan) if days.dates else first.astype(float), none
    what = column_of("observation", names.birth)
    born = days.read_dates(table[names.birth], what)
    age = first - born if days.dates else first
    wrong = age < 0
    if wrong.any():
        raise DataError(
            f"{what} is after the first day of observation in {rows_of(wrong)}; correct or leave "
            "out these rows."
        )
    return age.astype(float), none if days.dates else born


def _known_ends(table: pd.DataFrame, names: ColumnNames) -> NDArray:
    """Return whether the end of each period is independent of the person."""
    if names.ended_early is None:
        return np.ones(len(table), bool)
    column = table[names.ended_early]
    what = column_of("observation", names.ended_early)
    refuse_missing(column, what)
    known = {0: True, 1: False}
    found = [known.get(value) for value in column.tolist()]
    wrong = np.array([value is None for value in found])
    if wrong.any():
        raise DataError(
            f"{what} must be 1 if observation ended early, as by death, and 0 otherwise; it is "
            f"neither in {rows_of(wrong)}."
        )
    return np.array(found, bool)


def read_events(
    events: Any, names: ColumnNames, days: DayColumns, ids: pd.Index, what: str = "events"
) -> tuple[NDArray, NDArray]:
    """Read the distinct events, sorted by person and day.

    Parameters
    ----------
    what : str
        Name of the table, for messages.
    """
    table = read_columns(events, [names.id, names.event_day], what)
    if not len(table):
        raise DataError(f"{what} is empty; it needs a row for each event.")
    for name in (names.id, names.event_day):
        refuse_missing(table[name], column_of(what, name))
    day, _ = days.read(table[names.event_day], column_of(what, names.event_day))
    person = _places(table[names.id], ids)
    unknown = person < 0
    if unknown.any():
        raise DataError(
            f"{column_of(what, names.id)} is not in observation in {rows_of(unknown)}; add the "
            f"observation of these people or leave out their {what}."
            + _kinds(table[names.id], ids, bool(unknown.all()))
        )
    order = np.lexsort((day, person))
    person, day = person[order], day[order]
    new = np.ones(len(day), bool)
    new[1:] = (person[1:] != person[:-1]) | (day[1:] != day[:-1])
    return person[new], day[new]


@dataclass(frozen=True)
class Exposures:
    """Rows of the table of exposures, of people with observation."""

    person: NDArray
    exposure: NDArray
    first: NDArray
    last: NDArray
    dose: NDArray | None
    names: list[str]
    has_ends: bool


def read_exposures(
    exposures: Any, names: ColumnNames, days: DayColumns, ids: pd.Index
) -> Exposures:
    """Read the exposures; rows without a first day are people without exposure."""
    wanted = [names.id, names.start, names.exposure, names.dose]
    table = read_columns(
        exposures, [n for n in wanted if n is not None], "exposures", optional=[names.end]
    )
    refuse_missing(table[names.id], column_of("exposures", names.id))
    first, missing = days.read(table[names.start], column_of("exposures", names.start))
    table, first = table[~missing].reset_index(drop=True), first[~missing]
    last = first
    has_ends = names.end in table
    if has_ends:
        what = column_of("exposures", names.end)
        last, open_ = days.read(table[names.end], what)
        if open_.any():
            raise DataError(
                f"{what} is missing in {_original(missing, open_)}; enter the last day, such as "
                "the last day of observation for exposures that go on."
            )
        wrong = last < first
        if wrong.any():
            raise DataError(
                f"{what} is before {names.start!r} in {_original(missing, wrong)}; correct or "
                "leave out these rows."
            )
    labels, code = [""], np.zeros(len(first), np.int64)
    if names.exposure is not None:
        what = column_of("exposures", names.exposure)
        if table[names.exposure].isna().any():
            absent = table[names.exposure].isna().to_numpy(dtype=bool)
            raise DataError(
                f"{what} is missing in {_original(missing, absent)}; name the exposure."
            )
        text = table[names.exposure].astype(object).map(value_text)
        labels = sorted(set(text))
        code = pd.Index(labels).get_indexer(pd.Index(text)).astype(np.int64)
    dose = _doses(table, names, missing)
    person = _places(table[names.id], ids)
    here = person >= 0
    if not here.any():
        raise DataError(
            "Nobody in observation has a row in exposures."
            + _kinds(table[names.id], ids, len(table) > 0)
        )
    return Exposures(
        person[here], code[here], first[here], last[here], None if dose is None else dose[here],
        labels, has_ends,
    )  # fmt: skip


def _doses(table: pd.DataFrame, names: ColumnNames, dropped: NDArray) -> NDArray | None:
    """Return the numbers of doses from 0."""
    if names.dose is None:
        return None
    what = column_of("exposures", names.dose)
    values = pd.to_numeric(table[names.dose], errors="coerce").to_numpy(float, na_value=np.nan)
    wrong = ~((values >= 1) & (values == np.floor(values)))
    if wrong.any():
        raise DataError(
            f"{what} must be the number of the dose, from 1; it is not in "
            f"{_original(dropped, wrong)}."
        )
    return values.astype(np.int64) - 1


def _original(dropped: NDArray, mask: NDArray) -> str:
    """Describe rows of a table by their places before others were dropped."""
    full = np.zeros(len(dropped), bool)
    full[np.flatnonzero(~dropped)[mask]] = True
    return rows_of(full)


def period_of(periods: Observation, person: NDArray, day: NDArray) -> NDArray:
    """Return the observation period of each event; −1 if there is none."""
    lowest = min(int(periods.first.min()), int(day.min()))
    span = max(int(periods.last.max()), int(day.max())) - lowest + 1
    key = periods.person * span + (periods.first - lowest)
    at = np.searchsorted(key, person * span + (day - lowest), side="right") - 1
    near = np.maximum(at, 0)
    inside = (at >= 0) & (periods.person[near] == person) & (day <= periods.last[near])
    return np.where(inside, at, -1)


# -- ids ---------------------------------------------------------------------------------------


def _codes(column: pd.Series) -> tuple[NDArray, pd.Index]:
    """Number people in the order of their ids, so that results do not depend on that of rows."""
    plain = _plain(column)
    try:
        code, ids = pd.factorize(plain, sort=True)
    except TypeError:  # Ids of several types have no order.
        code, ids = pd.factorize(plain)
    return code.astype(np.int64), pd.Index(ids)


def _places(column: pd.Series, ids: pd.Index) -> NDArray:
    """Return the numbers of people; −1 if unknown."""
    return ids.get_indexer(pd.Index(_plain(column))).astype(np.int64)


def _plain(column: pd.Series) -> pd.Series:
    """Return ids without categories, whose order would decide about their comparison."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.astype(column.cat.categories.dtype)
    return column


def _kinds(column: pd.Series, ids: pd.Index, nobody: bool) -> str:
    """Explain why no ids agree, if they are text in one table and numbers in another."""
    kinds = {pd.api.types.is_numeric_dtype(x.dtype) for x in (_plain(column), ids)}
    if not nobody or len(kinds) == 1:
        return ""
    return " Ids are numbers in one table and text in the other; convert one of them."


def column_of(table: str, name: str) -> str:
    """Name a column of a table."""
    return f"{table}[{name!r}]"
