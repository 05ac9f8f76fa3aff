"""Counts of codes in the records of people, and how often they recur."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from steropes.designs.covariates.covariates_by_column import Covariates, with_statistics
from steropes.designs.values.dates_and_ages import as_days
from steropes.designs.values.input_checks import require_numbers
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError

__all__ = ["LEVELS", "count_records", "recurrence_levels"]

# Levels of recurrence with their quantiles among people who have the code (Schneeweiss 2009).
LEVELS = {"once": 0.0, "sporadic": 0.5, "frequent": 0.75}


def count_records(
    records: Any,
    people: ArrayLike,
    *,
    id: str,
    covariate: str,
    dimension: str | None = None,
    count: str | None = None,
    date: str | None = None,
    start: ArrayLike | None = None,
    window: tuple[int, int] = (-365, 0),
) -> Covariates:
    """Count how often each person has each code, from a long table of records.

    Parameters
    ----------
    records : data frame, relation or path
        A row per record, such as a diagnosis: a table of any library, or a Parquet or CSV file.
    people : array_like, shape (n,)
        Ids of all people, in the order of the rows of the result. Records of others are left out.
    id : str
        Column of ids of people.
    covariate : str
        Column of codes.
    dimension : str, optional
        Column that names the source of a code, such as diagnoses and drugs. Equal codes of two
        dimensions are different covariates.
    count : str, optional
        Column with the number of records that a row stands for. Default one.
    date : str, optional
        Column of dates, of which those in the window count. Default: all records count.
    start : array_like of dates, shape (n,), optional
        The date from which the window of each person counts; with ``date``.
    window : (int, int), default (−365, 0)
        First and last day of the window relative to ``start``.

    Returns
    -------
    Covariates
        The counts, (n, p), with the column ``dimension`` in ``columns``; names are
        ``dimension_code``, or the codes without dimensions.

    Raises
    ------
    DataError
        A column is missing or has missing values, ids repeat, or no one has a record.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.covariates import count_records
    >>> records = pd.DataFrame({"person": [7, 7, 8], "code": ["I10", "I10", "E11"]})
    >>> counts = count_records(records, [7, 8, 9], id="person", covariate="code")
    >>> counts.columns[["name", "people", "largest"]]
      name  people  largest
    0  E11       1      1.0
    1  I10       1      2.0
    """
    if (date is None) != (start is None):
        raise DataError("date and start belong together; give both, or neither.")
    names = [name for name in (id, covariate, dimension, count, date) if name is not None]
    frame = read_columns(records, names, "records")
    for name in names:
        absent = frame[name].isna().to_numpy(dtype=bool)
        if absent.any():
            raise DataError(
                f"records: {name!r} is missing in row {int(absent.argmax())} (counted from 0); "
                "leave such rows out."
            )
    ids = pd.Index(np.asarray(people))
    if not ids.is_unique:
        row = int(np.asarray(ids.duplicated()).argmax())
        raise DataError(f"people: row {row} (counted from 0) repeats an earlier id.")
    row = ids.get_indexer(pd.Index(frame[id]))
    used = row >= 0
    if date is not None and start is not None:
        used &= _in_window(frame[date], start, window, row, ids)
    value = np.ones(len(frame)) if count is None else require_numbers(f"{count}", frame[count])
    if (value < 0).any():
        raise DataError(
            f"records: {count!r} is negative in row {int(np.argmax(value < 0))} (counted from 0)."
        )
    if not used.any():
        raise DataError("records has no record of these people in the window.")
    keys = frame.loc[used, [name for name in (dimension, covariate) if name is not None]]
    codes = keys.groupby(list(keys), sort=True, observed=True).ngroup().to_numpy()
    distinct = keys.iloc[np.unique(codes, return_index=True)[1]]
    return _covariates_of(distinct, dimension, covariate, codes, row[used], value[used], len(ids))


def _covariates_of(
    keys: pd.DataFrame,
    dimension: str | None,
    covariate: str,
    codes: NDArray,
    row: NDArray,
    value: NDArray,
    n: int,
) -> Covariates:
    """Add the records of each person and code."""
    x = sp.csc_array((value, (row, codes)), shape=(n, len(keys)))
    x.sum_duplicates()
    x.eliminate_zeros()
    own = keys[covariate].astype(str).to_numpy(dtype=object)
    source = np.full(len(keys), "", dtype=object)
    if dimension is not None:
        source = keys[dimension].astype(str).to_numpy(dtype=object)
    columns = pd.DataFrame({
        "covariate_id": np.arange(len(keys), dtype=np.int64),
        "name": own if dimension is None else source + "_" + own,
        "analysis_id": np.unique(source, return_inverse=True)[1],
        "dimension": source,
    })  # fmt: skip
    indptr = x.indptr.astype(np.int64)
    table = with_statistics(columns, indptr, x.data)
    return Covariates(n, indptr, x.indices.astype(np.int32), x.data, table)


def _in_window(
    date: pd.Series, start: ArrayLike, window: tuple[int, int], row: NDArray, ids: pd.Index
) -> NDArray:
    """Return whether records lie in the windows of their people."""
    first, last = window
    if first > last:
        raise DataError(f"window must be its first and its last day, not {window!r}.")
    begin = as_days(start, "start")
    if len(begin) != len(ids) or np.isnat(begin).any():
        raise DataError("start needs one date for each of the people.")
    days = (as_days(date, "records, date") - begin[row]).astype(np.int64)
    return np.asarray((days >= first) & (days <= last))


def recurrence_levels(
    counts: Covariates, *, per_dimension: int | None = 200, min_people: int = 1
) -> Covariates:
    """Make 0/1 columns of codes that people have at all, sporadically and frequently.

    Of each dimension the codes with the largest prevalence are kept, where a prevalence above one
    half counts as one minus itself. A code becomes up to three columns: people who have it, those
    with at least the median of the counts of these people ("sporadic"), and those with at least
    their upper quartile ("frequent"). A level with the same people as the one before is left out.

    Parameters
    ----------
    counts : Covariates
        Counts of codes, none negative, such as those of `count_records`.
    per_dimension : int or None, default 200
        Largest number of codes of a dimension; None for all. Without the column ``dimension``, the
        dimensions are the values of ``analysis_id``.
    min_people : int, default 1
        Smallest number of people with a code.

    Returns
    -------
    Covariates
        The columns, with ``code``, ``dimension`` and ``level`` in ``columns``. They keep the ids
        of ``counts`` if each code has one level, and otherwise are numbered from 0.

    Raises
    ------
    DataError
        A count is negative, or no code has enough people.

    References
    ----------
    Schneeweiss and others (2009), Epidemiology 20:512–522.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs.covariates import Covariates, recurrence_levels
    >>> counts = Covariates.of(pd.DataFrame({"I10": [1, 1, 2, 5, 0], "E11": [1, 0, 0, 1, 0]}))
    >>> recurrence_levels(counts).columns["name"].tolist()
    ['I10_once', 'I10_sporadic', 'I10_frequent', 'E11_once']
    """
    if (counts.values < 0).any():
        at = int(np.argmax(counts.values < 0))
        j = int(np.searchsorted(counts.indptr, at, side="right")) - 1
        raise DataError(
            f"the covariate {counts.columns['name'].iloc[j]!r} has a negative value, which is no "
            "count; leave it out, and add it to the columns that are selected"
        )
    kept = _candidates(counts, per_dimension, min_people)
    if not len(kept):
        raise DataError(f"no code has {min_people} people or more")
    own = counts.select(kept)
    size = np.diff(own.indptr)
    column = np.repeat(np.arange(len(kept)), size)
    ordered = own.values[np.lexsort((own.values, column))]
    rows, columns, people = [], [], np.zeros(len(kept), dtype=np.int64)
    for level, quantile in LEVELS.items():
        has = own.values >= _quantiles(ordered, own.indptr, quantile)[column]
        number = np.bincount(column[has], minlength=len(kept))
        new = number != people
        people = number
        rows.append(np.where(has & new[column], column, -1).astype(np.int32))
        table = own.columns[["covariate_id", "name", "analysis_id"]].assign(level=level, new=new)
        columns.append(table)
    return _levels(own, np.array(rows), columns)


def _levels(own: Covariates, used: NDArray, tables: list[pd.DataFrame]) -> Covariates:
    """Put the levels of each code beside each other.

    Parameters
    ----------
    used : ndarray of int, shape (3, entries)
        The code of an entry that is a one at a level, or −1.
    """
    k = len(tables)
    table = pd.concat(tables).sort_index(kind="stable").reset_index(drop=True)
    place = np.cumsum(table["new"].to_numpy()) - 1
    level, entry = np.nonzero(used >= 0)
    target = place[used[level, entry] * k + level]
    order = np.lexsort((own.rows[entry], target))
    table = table[table["new"]].reset_index(drop=True)
    source = pd.Series(_dimensions(own.columns), own.columns["covariate_id"])
    code = own.columns.set_index("covariate_id")["name"]
    one_each = len(table) == len(own.columns)
    table = pd.DataFrame({
        "covariate_id": table["covariate_id"] if one_each else np.arange(len(table)),
        "name": table["name"] + "_" + table["level"],
        "analysis_id": table["analysis_id"],
        "code": code.loc[table["covariate_id"]].to_numpy(),
        "dimension": source.loc[table["covariate_id"]].to_numpy(),
        "level": table["level"],
    })  # fmt: skip
    indptr = np.concatenate(([0], np.cumsum(np.bincount(target, minlength=len(table)))))
    values = np.ones(len(target))
    described = with_statistics(table, indptr, values)
    return Covariates(own.n, indptr, own.rows[entry][order], values, described)


def _dimensions(columns: pd.DataFrame) -> NDArray:
    """Return the dimension of each column."""
    known = "dimension" in columns
    return np.asarray(columns["dimension"] if known else columns["analysis_id"].astype(str))


def _candidates(counts: Covariates, per_dimension: int | None, min_people: int) -> NDArray:
    """Return the positions of the most prevalent codes of each dimension, ascending."""
    people = np.diff(counts.indptr)
    share = np.minimum(people, counts.n - people)
    enough = np.flatnonzero(people >= max(min_people, 1))
    if per_dimension is None:
        return enough
    group = _dimensions(counts.columns)[enough]
    table = pd.DataFrame({"at": enough, "group": group, "share": share[enough]})
    table = table.sort_values("share", ascending=False, kind="stable")
    return np.sort(table[table.groupby("group").cumcount() < per_dimension]["at"].to_numpy())


def _quantiles(ordered: NDArray, indptr: NDArray, quantile: float) -> NDArray:
    """Return a quantile of the sorted entries of each column, by linear interpolation."""
    place = quantile * (np.diff(indptr) - 1)
    low = np.floor(place).astype(np.int64)
    below, above = ordered[indptr[:-1] + low], ordered[indptr[:-1] + np.ceil(place).astype(int)]
    return np.asarray(below + (place - low) * (above - below))
