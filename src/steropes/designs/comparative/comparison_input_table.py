"""People to compare, from columns of a table, with checks of every column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.data.number_formatting import value_text
from steropes.design_matrix import Design
from steropes.designs.comparative.compared_people import ComparisonTable, Outcome
from steropes.designs.comparative.covariate_reading import (
    Missing,
    covariate_of_column,
    covariates_of_long_table,
    covariates_of_rows,
    described_column,
    numbers_of_column,
    refuse_indicators_of_one_group,
    refuse_names_of_indicators,
    repeated_columns,
)
from steropes.designs.covariates.covariates_by_column import Covariates
from steropes.designs.values.input_checks import refuse_missing
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError, listed

__all__ = ["people_to_compare"]


def people_to_compare(
    data: Any,
    *,
    treatment: str,
    covariates: Any,
    outcome: str | None,
    time: str | None,
    event: str | None,
    entry: str | None,
    target: object,
    id: str | None,
    cluster: str | None,
    missing: Missing,
) -> ComparisonTable:
    """Read and check the columns of a comparison; see `compare_groups`."""
    if missing not in ("error", "indicator"):
        raise DataError(f"missing must be 'error' or 'indicator', not {missing!r}.")
    _refuse_other_than_names(
        treatment=treatment, outcome=outcome, time=time, event=event, entry=entry, id=id,
        cluster=cluster,
    )  # fmt: skip
    parts = _columns_of_outcome(outcome, time, event, entry)
    for part, name in {**parts, **({} if id is None else {"id": id})}.items():
        if name == treatment:
            raise DataError(
                f"{part} {name!r} is the treatment itself; name the column of the {part}."
            )
    wide = _wide_names(covariates, treatment, parts, id)
    others = [name for name in (id, cluster) if name is not None]
    names = dict.fromkeys([treatment, *parts.values(), *(wide or ()), *others])
    frame = read_columns(data, list(names), "data")
    if not len(frame):
        raise DataError("data has no rows.")
    code, groups = _groups(frame[treatment], treatment, target)
    found = _outcome(frame, parts)
    _refuse_no_time(found, code, parts)
    ids = None if id is None else _ids(frame[id], id)
    described = None
    if wide is None:
        if missing == "indicator":
            raise DataError(
                "missing='indicator' is for columns of data; a long table and Covariates have no "
                "missing values, leave it out."
            )
        X: pd.DataFrame | Design = (
            covariates_of_rows(covariates, len(frame))
            if isinstance(covariates, Covariates)
            else covariates_of_long_table(covariates, ids, id)
        )
    else:
        X, described = _covariates_of_columns(frame, wide, code, missing)
    codes = None if cluster is None else _clusters(frame[cluster], cluster, treatment)
    table = ComparisonTable(X, code, groups, found, ids, described, codes, cluster or "")
    _refuse_copies(table, treatment, next(iter(parts.values())))
    return table


def _refuse_other_than_names(**given: object) -> None:
    """Refuse an argument that is neither the name of a column nor None."""
    for argument, name in given.items():
        if name is not None and not isinstance(name, str):
            raise DataError(f"{argument} must be the name of a column, not {name!r}.")


def _covariates_of_columns(
    frame: pd.DataFrame, wide: list[str], code: NDArray, missing: Missing
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the covariates with indicators of missing values, and as they are described."""
    numbers = {name: numbers_of_column(frame[name]) for name in wide}
    described = pd.DataFrame(
        {name: described_column(frame[name], own) for name, own in numbers.items()}, copy=False
    )
    parts = {
        name: covariate_of_column(frame[name], name, own, missing) for name, own in numbers.items()
    }
    indicators = [k for name, own in parts.items() for k in own if k != name]
    refuse_names_of_indicators(indicators, wide)
    # One array for each column, without a copy of all columns as one block.
    X = pd.DataFrame({k: v for own in parts.values() for k, v in own.items()}, copy=False)
    refuse_indicators_of_one_group(X[indicators], code)
    if repeated := repeated_columns(X[indicators]):
        X = X.drop(columns=repeated)
    return X, described


def _columns_of_outcome(
    outcome: str | None, time: str | None, event: str | None, entry: str | None
) -> dict[str, str]:
    """Return the columns of the outcome by their part; refuse other combinations."""
    given = {"outcome": outcome, "time": time, "event": event, "entry": entry}
    parts = {part: name for part, name in given.items() if name is not None}
    if set(parts) not in ({"outcome"}, {"time", "event"}, {"time", "event", "entry"}):
        raise DataError(
            "Give outcome=, a column of numbers, or time= and event= (and entry= for people who "
            f"came under observation late); given are {listed(list(parts)) or 'none of them'}."
        )
    return parts


def _wide_names(
    covariates: Any, treatment: str, parts: dict[str, str], id: str | None
) -> list[str] | None:
    """Return the names of the covariates; None for a long table or sparse columns."""
    if isinstance(covariates, Covariates):
        return None
    if isinstance(covariates, str):
        covariates = [covariates]
    if isinstance(covariates, pd.Index | np.ndarray):
        covariates = covariates.tolist()
    if not (isinstance(covariates, Sequence) and all(isinstance(name, str) for name in covariates)):
        if id is None:
            raise DataError(
                "covariates is a table of people and covariates, which needs id=, the column of "
                "data with the ids of people. For columns of data give their names."
            )
        return None
    names = list(covariates)
    if not names:
        raise DataError("covariates is empty; name the columns that confound the comparison.")
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise DataError(f"covariates has {listed(twice)} more than once; name each column once.")
    used = {treatment: "the treatment", **{name: f"the {part}" for part, name in parts.items()}}
    for name in names:
        if name in used or name == id:
            raise DataError(
                f"The covariate {name!r} is {used.get(name, 'the id')} itself; leave it out of "
                "covariates."
            )
    return names


def _groups(
    column: pd.Series, name: str, target: object
) -> tuple[NDArray[np.int8], tuple[str, str]]:
    """Return 1 for the target and 0 for the comparator, and the names of both."""
    refuse_missing(column, f"treatment {name!r}")
    numbers = numbers_of_column(column)
    values = column.astype(object).map(value_text) if numbers is None else numbers
    found = sorted(pd.unique(values))
    shown = [value_text(value) for value in found]
    if len(found) != 2:
        remedy = "select the rows of both groups" if len(found) > 2 else "add the other group"
        raise DataError(
            f"treatment {name!r} has {len(found)} value{'s' * (len(found) != 1)} "
            f"({listed(shown)}); two are needed: {remedy}."
        )
    if target is None:
        if found != [0, 1]:
            raise DataError(
                f"treatment {name!r} has the values {shown[0]!r} and {shown[1]!r}; say which of "
                f"them is the group of interest, such as target={shown[1]!r}."
            )
        one = found[1]
        names = (f"{name} = 1", f"{name} = 0")
    else:
        same = [
            value for value, text in zip(found, shown, strict=True) if text == value_text(target)
        ]
        if not same:
            raise DataError(
                f"target={target!r} is no value of treatment {name!r}, which has {listed(shown)}."
            )
        one = same[0]
        names = (value_text(one), value_text(next(value for value in found if value != one)))
    return (np.asarray(values) == one).astype(np.int8), names


def _outcome(frame: pd.DataFrame, parts: dict[str, str]) -> Outcome:
    """Read and check the outcome."""
    columns = {}
    for part, name in parts.items():
        # Methods with a model of missingness allow some outcomes to be missing.
        if part != "outcome" or frame[name].isna().all():
            refuse_missing(frame[name], f"{part} {name!r}")
        numbers = numbers_of_column(frame[name])
        if numbers is None:
            raise DataError(f"{part} {name!r} must be numbers; code it as 0 and 1, for example.")
        if np.isinf(numbers).any():
            row = int(np.argmax(np.isinf(numbers)))
            raise DataError(
                f"{part} {name!r} is infinite in row {row} (counted from 0); correct the value or "
                "leave the row out."
            )
        columns[part] = numbers.copy()  # The result keeps them.
    if "outcome" in columns:
        y = columns["outcome"]
        known = y[~np.isnan(y)]
        if (known == known[0]).all():
            raise DataError(f"outcome {parts['outcome']!r} is the same for everybody.")
        return Outcome("binary" if np.isin(known, (0, 1)).all() else "continuous", y)
    time, event, entry = columns["time"], columns["event"], columns.get("entry")
    start = np.zeros(len(time)) if entry is None else entry
    for part, own in (("time", time), ("entry", start)):
        if (own < 0).any():
            row = int(np.argmax(own < 0))
            raise DataError(
                f"{part} {parts[part]!r} is negative in row {row} (counted from 0); count it from "
                "the start of follow-up."
            )
    if entry is not None and (start >= time).any():
        row = int(np.argmax(start >= time))
        raise DataError(
            f"entry {parts['entry']!r} is not before time {parts['time']!r} in row {row} (counted "
            "from 0); leave such people out."
        )
    wrong = ~np.isin(event, (0, 1, 2))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"event {parts['event']!r} must be 0 (censored), 1 (event) or 2 (a competing event); "
            f"row {row} (counted from 0) is {event[row]:g}."
        )
    if not (event == 1).any():
        raise DataError(f"event {parts['event']!r} has no 1, so nobody had the event.")
    return Outcome("time", time, event.astype(np.int64), entry)


def _refuse_no_time(outcome: Outcome, code: NDArray, parts: dict[str, str]) -> None:
    """Refuse groups whose people are not under observation for any time."""
    if outcome.event is None:
        return
    for arm, group in ((1, "target"), (0, "comparator")):
        if not (outcome.y[code == arm] > 0).any():
            raise DataError(
                f"time {parts['time']!r} is 0 for everybody of the {group}, so that nobody is at "
                "risk; count it from the start of follow-up to its end."
            )


def _clusters(column: pd.Series, name: str, treatment: str) -> NDArray:
    """Return codes of clusters; refuse missing ones, and fewer than two."""
    if name == treatment:
        raise DataError(f"cluster {name!r} is the treatment itself; name a column of clusters.")
    refuse_missing(column, f"cluster {name!r}")
    codes = pd.factorize(column)[0].astype(np.int64)
    if codes.max() < 1:
        raise DataError(f"cluster {name!r} has one value; errors by clusters need two or more.")
    return codes


def _ids(column: pd.Series, name: str) -> NDArray:
    """Return the ids; refuse missing and repeated ones."""
    refuse_missing(column, f"id {name!r}")
    twice = column.duplicated()
    if twice.any():
        raise DataError(
            f"id {name!r} is repeated: row {int(twice.to_numpy().argmax())} (counted from 0) has "
            "the id of an earlier row. Keep one row per person."
        )
    return np.asarray(column)


def _refuse_copies(table: ComparisonTable, treatment: str, outcome: str) -> None:
    """Refuse covariates that determine the treatment alone, or are the outcome under another name.

    A covariate that is constant in each group and differs between them is the treatment.
    """
    columns, target = table.columns, table.target == 1
    shares = [target / target.sum(), ~target / (~target).sum(), np.full(table.n, 1 / table.n)]
    moments = columns.moments(np.column_stack(shares))
    mean, variance = moments.mean, moments.variance
    copies = (variance[:, :2] == 0).all(axis=1) & (mean[:, 0] != mean[:, 1])
    if copies.any():
        raise DataError(
            f"The covariate {listed([columns.names[j] for j in np.flatnonzero(copies)])} has one "
            f"value in each group: it is the treatment {treatment!r} under another name, or nobody "
            "with it is in one of the groups. Leave it out of covariates."
        )
    y = table.outcome.y if table.outcome.event is None else table.outcome.event.astype(float)
    own = float(y.mean()), float(y.var())
    alike = np.isclose(mean[:, 2], own[0], rtol=1e-9)
    alike &= np.isclose(variance[:, 2], own[1], rtol=1e-9)
    for j in map(int, np.flatnonzero(alike)):
        if np.array_equal(columns.column(j), y):
            raise DataError(
                f"The covariate {columns.names[j]!r} equals the outcome {outcome!r} in every row; "
                "leave it out of covariates, which are known before the outcome."
            )
