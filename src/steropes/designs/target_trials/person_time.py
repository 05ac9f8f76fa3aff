"""Person-time: a row for each person and period, read from any table and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError

__all__ = ["PersonTime", "coded_columns", "read_person_time"]


@dataclass(frozen=True, repr=False)
class PersonTime:
    """Rows of people and periods, in the order of people and, within a person, of periods.

    Attributes
    ----------
    data : DataFrame
        Covariates; labels are columns of 0 and 1.
    person : ndarray of int, shape (n,)
        Number of the person of each row.
    period : ndarray of int, shape (n,)
        Periods, which are consecutive within a person.
    treatment, outcome, censored, eligible : ndarray of int8, shape (n,)
        0 or 1. The outcome and the censoring are those of the period of the row.
    starts : ndarray of int, shape (people + 1,)
        First row of each person, and the number of rows.
    names : dict of str to list of str
        Columns of ``data`` of each column of the table.
    dropped : int
        Rows before the first eligible period of their person, which have no role.
    """

    data: pd.DataFrame
    person: NDArray[np.int64]
    period: NDArray[np.int64]
    treatment: NDArray[np.int8]
    outcome: NDArray[np.int8]
    censored: NDArray[np.int8]
    eligible: NDArray[np.int8]
    starts: NDArray[np.int64]
    names: Mapping[str, list[str]]
    dropped: int = 0

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.person)

    @property
    def people(self) -> int:
        """Number of people."""
        return len(self.starts) - 1

    @property
    def is_first(self) -> NDArray[np.bool_]:
        """Whether a row is the first of its person."""
        first = np.zeros(self.n, dtype=bool)
        first[self.starts[:-1]] = True
        return first

    @property
    def previous(self) -> NDArray[np.int8]:
        """Treatment in the period before; 0 in the first row of a person."""
        before = np.append(0, self.treatment[:-1]).astype(np.int8)
        return np.where(self.is_first, 0, before).astype(np.int8)

    @property
    def ends(self) -> NDArray[np.int64]:
        """Row after the last one of each row's person."""
        return self.starts[self.person + 1]

    def columns(self, names: Sequence[str]) -> pd.DataFrame:
        """Return the coded columns of some columns of the table."""
        return self.data[self.coded(names)]

    def coded(self, names: Sequence[str]) -> list[str]:
        """Return the names of the coded columns of some columns of the table."""
        return [column for name in names for column in self.names[name]]

    def changing(self, names: Sequence[str]) -> list[str]:
        """Return which columns of the table have several values within a person."""
        same = ~self.is_first[1:]
        found = []
        for name in names:
            values = self.columns([name]).to_numpy()
            if (values[1:] != values[:-1])[same].any():
                found.append(name)
        return found


def read_person_time(
    data: object,
    *,
    id: str,
    period: str,
    treatment: str,
    outcome: str,
    eligible: str | None,
    censored: str | None,
    covariates: Sequence[str],
    measured: Mapping[str, str],
) -> PersonTime:
    """Read and check a table of person-time; see `sequential_trials`."""
    roles = [id, period, treatment, outcome, *filter(None, (eligible, censored))]
    wanted = list(dict.fromkeys([*covariates, *measured]))
    for name in wanted:
        if name in roles:
            raise DataError(f"{name!r} is a covariate and has another role; name it once.")
    columns = list(dict.fromkeys([*roles, *wanted, *measured.values()]))
    table = read_columns(data, columns, "data")
    if table.empty:
        raise DataError("data has no rows.")
    missing = [name for name in columns if table[name].isna().any()]
    if censored is not None and outcome in missing:
        table[outcome] = table[outcome].where(_flags(table, censored) == 0, 0)
        missing = [name for name in missing if table[name].isna().any()]
    if missing:
        raise DataError(
            f"Column {missing[0]!r} has missing values; drop or impute these rows, or carry the "
            "last value forward."
        )
    _refuse_later_measurements(table, period, measured)
    person = pd.factorize(table[id])[0]
    when = _periods(table, period)
    order = np.lexsort((when, person))
    person, when = person[order].astype(np.int64), when[order]
    starts = np.append(np.flatnonzero(np.append(True, np.diff(person) != 0)), len(person))
    _refuse_gaps(person, when, order)
    flags = {
        name: _flags(table, name)[order]
        for name in (treatment, outcome, eligible, censored)
        if name is not None
    }
    none = np.zeros(len(person), np.int8)
    if (np.diff(order) != 1).any():  # A sorted table needs no copy.
        table = table.iloc[order].reset_index(drop=True)
    coded, names = coded_columns(table, wanted)
    whole = PersonTime(
        coded, person, when, flags[treatment], flags[outcome],
        none if censored is None else flags[censored],
        none + np.int8(1) if eligible is None else flags[eligible],
        starts.astype(np.int64), names,
    )  # fmt: skip
    _refuse_rows_after_the_end(whole, outcome, censored)
    return _from_first_eligibility(whole)


def coded_columns(
    table: pd.DataFrame, names: Sequence[str]
) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Convert covariates to numbers, labels to columns of 0 and 1 without that of the first."""
    parts: dict[str, pd.Series] = {}
    coded: dict[str, list[str]] = {}
    for name in names:
        values = table[name]
        if pd.api.types.is_datetime64_any_dtype(values):
            raise DataError(f"Column {name!r} holds dates; give numbers, such as ages in years.")
        if pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
            # Short types stay, because person-time has many rows.
            short = values.dtype in (np.float32, np.int8, np.int16)
            numbers = values if short else values.astype(np.float64, copy=False)
            if not np.isfinite(numbers.to_numpy()).all():
                raise DataError(f"Column {name!r} has infinite values; drop these rows.")
            own = {name: numbers}
        else:
            levels = values.astype("category").cat.remove_unused_categories()
            flags = pd.get_dummies(levels, drop_first=True, dtype=np.int8)
            own = {f"{name}[{level}]": flags[level] for level in flags}
        parts |= own
        coded[name] = list(own)
    # Person-time has many rows: columns are those of the table, not copies.
    return pd.DataFrame(parts, index=table.index, copy=False), coded


def _flags(table: pd.DataFrame, name: str) -> NDArray[np.int8]:
    """Return a column of 0 and 1."""
    values = table[name]
    if not (pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values)):
        raise DataError(f"Column {name!r} must be 0 or 1, not text.")
    found = values.to_numpy(np.float64, na_value=np.nan)
    bad = ~np.isin(found, (0.0, 1.0))
    if bad.any():
        raise DataError(f"Column {name!r} must be 0 or 1; row {int(bad.argmax())} is not.")
    return found.astype(np.int8)


def _periods(table: pd.DataFrame, name: str) -> NDArray[np.int64]:
    """Return whole numbers of periods."""
    values = table[name]
    if not pd.api.types.is_numeric_dtype(values):
        raise DataError(
            f"Column {name!r} must hold whole numbers of periods, such as months since the start "
            "of the study, not dates or text."
        )
    found = values.to_numpy(np.float64)
    bad = found != np.floor(found)
    if bad.any():
        raise DataError(f"Column {name!r} must hold whole numbers; row {int(bad.argmax())} not.")
    return found.astype(np.int64)


def _refuse_gaps(person: NDArray, when: NDArray, order: NDArray) -> None:
    """Refuse rows of a person that overlap, or that miss a period."""
    step = np.diff(when)[np.diff(person) == 0]
    at = np.flatnonzero(np.diff(person) == 0)
    for wrong, text in (
        (step == 0, "are of the same person and period; people must have one row a period."),
        (
            step > 1,
            "are successive rows of a person, but a period between them is missing; add its row, "
            "or end the person's rows at the gap with censored=1.",
        ),
    ):
        if wrong.any():
            j = int(at[wrong.argmax()])
            count = int(wrong.sum())
            rows = sorted((int(order[j]), int(order[j + 1])))
            more = f" ({count:,} such pairs of rows)" if count > 1 else ""
            raise DataError(f"Rows {rows[0]} and {rows[1]} {text[:-1]}{more}.")


def _refuse_rows_after_the_end(rows: PersonTime, outcome: str, censored: str | None) -> None:
    """Refuse rows after the outcome or the censoring of their person."""
    inside = ~rows.is_first[1:]
    for name, values in ((outcome, rows.outcome), (censored, rows.censored)):
        after = (values[:-1] == 1) & inside
        if name is not None and after.any():
            raise DataError(
                f"{int(after.sum()):,} people have rows after {name} = 1; drop the later rows, or "
                "mark only the last period."
            )


def _refuse_later_measurements(
    table: pd.DataFrame, period: str, measured: Mapping[str, str]
) -> None:
    """Refuse covariates that were measured after the treatment of their period."""
    for name, when in measured.items():
        late = table[when].to_numpy(np.float64) > table[period].to_numpy(np.float64)
        if late.any():
            raise DataError(
                f"{name!r} was measured after the treatment of its period in {int(late.sum()):,} "
                f"rows ({when!r} is later than {period!r}). A consequence of treatment is no "
                "confounder of it: use the last value before the period."
            )


def _from_first_eligibility(rows: PersonTime) -> PersonTime:
    """Drop the rows before the first eligible period of each person."""
    seen = np.cumsum(rows.eligible)
    before = np.append(0, seen)[rows.starts[:-1]]
    kept = seen > before[rows.person]
    if not kept.any():
        raise DataError("Nobody is ever eligible, so that no trial starts.")
    if kept.all():
        return rows
    person = np.unique(rows.person[kept], return_inverse=True)[1].astype(np.int64)
    starts = np.append(np.flatnonzero(np.append(True, np.diff(person) != 0)), len(person))
    return PersonTime(
        rows.data[kept].reset_index(drop=True), person, rows.period[kept], rows.treatment[kept],
        rows.outcome[kept], rows.censored[kept], rows.eligible[kept], starts.astype(np.int64),
        rows.names, int((~kept).sum()),
    )  # fmt: skip
