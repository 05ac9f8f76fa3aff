"""Table 1 of any table: characteristics of groups, with standardised differences."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import combinations

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.data import check_classes
from steropes.data.input_types import TableLike
from steropes.data.number_formatting import value_text
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.data.vector_checks import check_weights
from steropes.data.weighted_quantiles import weighted_quantiles
from steropes.designs.comparative.balance_table import distance_of_shares
from steropes.designs.covariates.weighted_moments import Moments
from steropes.designs.values.argument_checks import check_names, check_whole
from steropes.designs.values.table_reading import in_memory
from steropes.errors import DataError, listed

__all__ = ["table_one"]

# Columns with more levels than this are identifiers rather than characteristics.
MAX_LEVELS = 50
# Columns of the table besides those of groups.
COLUMNS = ("characteristic", "level", "missing", "overall", "smd")
CAPTIONS = {"overall": "Overall", "missing": "Missing", "smd": "Standardised difference"}


def table_one(
    data: TableLike,
    by: str | ArrayLike,
    *,
    columns: Sequence[str] | None = None,
    median: Collection[str] = (),
    categorical: Collection[str] = (),
    weights: ArrayLike | None = None,
    digits: int = 1,
) -> ResultTable:
    """Tabulate the characteristics of groups.

    Numbers are shown as mean (SD), columns of 0 and 1 and levels of labels as number (%). Missing
    values are counted and left out of means and percentages.

    Parameters
    ----------
    data : data frame
        A table of pandas, polars or pyarrow with a row for each person, or a DuckDB relation.
    by : str or array_like, shape (n,)
        Column with the groups, such as the treatment, or the group of each person.
    columns : sequence of str, optional
        Columns to tabulate; default all but ``by``.
    median : collection of str, default ()
        Numeric columns that are shown as median [quartiles].
    categorical : collection of str, default ()
        Numeric columns that are shown by value.
    weights : array_like, shape (n,), optional
        Weights of people, such as those of `PropensityWeights` or `Matching`.
    digits : int, default 1
        Decimals of the text.

    Returns
    -------
    DataFrame
        One row per characteristic, and one per level of labels: ``characteristic``, ``level``
        (empty for numbers), ``missing`` (number of people), ``overall`` and a column for each
        group with text, and ``smd``, the absolute standardised difference, on the first row of a
        characteristic. Of several groups it is the mean over pairs. The denominators are those of
        everybody without weights, as in `balance_table`; of labels it is Yang and Dalton's
        distance. Significance tests are left out, because
        they do not measure confounding (STROBE). ``paper_table()`` gives a table for Word, LaTeX
        or Excel.

    Raises
    ------
    DataError
        If a column does not exist, holds dates or has as many levels as identifiers have, or there
        is only one group.

    References
    ----------
    Vandenbroucke and others (2007), PLoS Medicine 4:e297 (STROBE). Yang and Dalton (2012), SAS
    Global Forum 335.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs import table_one
    >>> people = pd.DataFrame({
    ...     "drug": [1, 1, 1, 0, 0, 0], "age": [61.0, 70, 55, 48, 66, None],
    ...     "sex": ["f", "m", "f", "m", "m", "f"],
    ... })
    >>> table_one(people, "drug")[["characteristic", "level", "0", "1", "smd"]].round(2)
      characteristic level            0           1   smd
    0              n                  3           3   NaN
    1            age        57.0 (12.7)  62.0 (7.5)  0.48
    2            sex     f    1 (33.3%)   2 (66.7%)  0.71
    3            sex     m    2 (66.7%)   1 (33.3%)   NaN
    """
    frame = nw.from_native(in_memory(data), eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise DataError(
            "table_one needs a table with named columns, of pandas, polars, pyarrow or DuckDB, not "
            f"{type(data).__name__}."
        )
    if not isinstance(by, str):
        frame, by = _with_groups(frame, by)
    wanted = [c for c in frame.columns if c != by] if columns is None else None
    if wanted is None:
        given = columns.tolist() if isinstance(columns, pd.Index | np.ndarray) else columns
        wanted = check_names("columns", given)
    median, categorical = check_names("median", median), check_names("categorical", categorical)
    check_whole("digits", digits, 0)
    unknown = [c for c in (by, *wanted, *median, *categorical) if c not in frame.columns]
    if unknown:
        raise DataError(f"The table has no column {listed(unknown)}.")
    _refuse_contradictions(by, wanted, median, categorical)
    labels, group = check_classes(frame[by].to_native(), len(frame), f"Column {by!r}")
    if len(labels) < 2:
        raise DataError(f"Column {by!r} has one value only; two groups or more are needed.")
    reserved = [str(x) for x in labels if str(x) in COLUMNS]
    if reserved:
        raise DataError(
            f"Column {by!r} has a group {listed(reserved)}, which is the name of a column of Table "
            "1; rename the group."
        )
    w = check_weights(weights, len(frame))
    shown = _Table(np.asarray(group), [str(x) for x in labels], w, digits)
    shown.count()
    for name in wanted:
        shown.add(frame[name], name in median, name in categorical)
    return shown.frame()


def _with_groups(frame: nw.DataFrame, groups: ArrayLike) -> tuple[nw.DataFrame, str]:
    """Add the group of each person as a column of a new name."""
    values = np.asarray(groups)
    if values.shape != (len(frame),):
        raise DataError(
            f"by has shape {values.shape}; give the name of a column, or a group for each of "
            f"{len(frame)} people."
        )
    name = "group"
    while name in frame.columns:
        name += " "
    column = nw.new_series(name, values.tolist(), backend=frame.implementation)
    return frame.with_columns(column), name


def _refuse_contradictions(
    by: str, columns: list[str], median: list[str], categorical: list[str]
) -> None:
    """Refuse columns that are named twice, or that no row would show as asked."""
    twice = [name for name in dict.fromkeys(columns) if columns.count(name) > 1]
    if twice:
        raise DataError(f"columns has {listed(twice)} more than once; name each column once.")
    if by in columns:
        raise DataError(f"columns has {by!r}, which is the column of the groups; leave it out.")
    both = [name for name in median if name in categorical]
    if both:
        raise DataError(f"median and categorical both name {listed(both)}; keep one of them.")
    for what, names in (("median", median), ("categorical", categorical)):
        absent = [name for name in names if name not in columns]
        if absent:
            raise DataError(f"{what} names {listed(absent)}, which columns leaves out.")


def _refuse_many(name: str, levels: int) -> None:
    """Refuse a column with as many levels as identifiers have."""
    if levels > MAX_LEVELS:
        raise DataError(
            f"Column {name!r} has {levels} levels, as identifiers have; leave it out of columns, "
            f"or merge levels ({MAX_LEVELS} at most)."
        )


class _Table:
    """The rows of a table.

    Parameters
    ----------
    group : ndarray of int, shape (n,)
    labels : list of str
        Names of the groups.
    weights : ndarray, shape (n,)
    digits : int
        Decimals of the text.
    """

    def __init__(self, group: NDArray, labels: list[str], weights: NDArray, digits: int) -> None:
        self.group, self.labels, self.w, self.digits = group, labels, weights, digits
        self.unweighted = bool((weights == 1).all())
        self.rows: list[dict[str, object]] = []
        everybody = np.ones(len(group), dtype=bool)
        self.groups = {"overall": everybody} | {label: group == k for k, label in enumerate(labels)}

    def count(self) -> None:
        """Add the numbers of people, or the sums of their weights."""
        sums = {name: self._number(self.w[own].sum()) for name, own in self.groups.items()}
        self.rows.append({"characteristic": "n", "level": "", "missing": 0, **sums})

    def add(self, column: nw.Series, median: bool, categorical: bool) -> None:
        """Add a column by its type; the other arguments are choices for numbers."""
        name, n = column.name, len(column)
        if column.dtype.is_temporal():
            raise DataError(f"Column {name!r} holds dates; leave it out, or convert it to numbers.")
        missing = column.is_null().to_numpy().astype(bool)
        if column.dtype.is_numeric() or column.dtype == nw.Boolean:
            x = np.full(n, np.nan)
            x[~missing] = column.drop_nulls().to_numpy().astype(float)
            missing |= np.isnan(x)
            if categorical:
                values = np.unique(x[~missing])
                _refuse_many(name, len(values))
                text = [value_text(v) for v in values]
                self.levels(name, np.searchsorted(values, x), text, missing)
            elif not (median or missing.all()) and np.isin(x[~missing], (0, 1)).all():
                self.binary(name, x, missing)
            else:
                self.number(name, x, missing, median)
        elif median:
            raise DataError(f"median names {name!r}, which has labels; leave it out of median.")
        elif missing.all():
            self.number(name, np.full(n, np.nan), missing, median=False)
        else:
            known, codes = check_classes(column.drop_nulls().to_native(), int((~missing).sum()))
            _refuse_many(name, len(known))
            whole = np.zeros(n, dtype=np.int64)
            whole[~missing] = codes
            self.levels(name, whole, [str(x) for x in known], missing)

    def number(self, name: str, x: NDArray, missing: NDArray, median: bool) -> None:
        """Add a numeric column."""
        row: dict[str, object] = {"characteristic": name, "level": "", "missing": missing.sum()}
        means, variances, known = [], [], []
        if np.isinf(x).any():
            row_number = int(np.argmax(np.isinf(x)))
            raise DataError(f"Column {name!r} is infinite in row {row_number} (counted from 0).")
        for label, own in self.groups.items():
            own = own & ~missing & (self.w > 0)
            if not own.any():
                row[label] = ""
                continue
            mean, variance = _moments(x[own], self.w[own])
            if median:
                q1, q2, q3 = weighted_quantiles(x[own], self.w[own], [0.25, 0.5, 0.75])
                row[label] = f"{self._text(q2)} [{self._text(q1)}, {self._text(q3)}]"
            else:
                row[label] = f"{self._text(mean)} ({self._text(np.sqrt(variance))})"
            if label != "overall":
                means.append(mean)
                plain = self.groups[label] & ~missing
                # Without weights this is the variance above, of which a second pass is saved.
                variances.append(variance if self.unweighted else _variance(x[plain]))
                known.append(plain)

        def distance(j: int, k: int) -> float:
            spread = (variances[j] + variances[k]) / 2 or _variance(x[known[j] | known[k]])
            return _ratio(means[j] - means[k], spread)

        row["smd"] = _mean_over_pairs(len(means), distance)
        self.rows.append(row)

    def binary(self, name: str, x: NDArray, missing: NDArray) -> None:
        """Add a column of 0 and 1 by the ones."""
        codes = np.where(missing, 0, x).astype(np.int64)
        self.levels(name, codes, ["0", "1"], missing)
        zeros, ones = self.rows[-2:]
        first = {"level": "", "missing": zeros["missing"], "smd": zeros["smd"]}
        self.rows[-2:] = [ones | first]

    def levels(self, name: str, codes: NDArray, levels: list[str], missing: NDArray) -> None:
        """Add a column of labels, with a row for each level."""
        sums, plain = {}, {}
        for label, own in self.groups.items():
            own = own & ~missing
            sums[label] = np.bincount(codes[own], self.w[own], minlength=len(levels))
            plain[label] = np.bincount(codes[own], minlength=len(levels))
        with np.errstate(invalid="ignore"):
            shares = {label: each / each.sum() for label, each in sums.items()}
            spread = {label: each / each.sum() for label, each in plain.items()}

        def distance(j: int, k: int) -> float:
            a, b = self.labels[j], self.labels[k]
            if not (np.isfinite(shares[a]).all() and np.isfinite(shares[b]).all()):
                return np.nan
            return distance_of_shares([shares[a], shares[b]], [spread[a], spread[b]])

        difference = _mean_over_pairs(len(self.labels), distance)
        for k, level in enumerate(levels):
            row: dict[str, object] = {"characteristic": name, "level": level}
            row |= {"missing": missing.sum() if k == 0 else 0}
            for label in self.groups:
                share = shares[label][k]
                percent = f"{self._text(100 * share)}%" if np.isfinite(share) else "–"
                row[label] = f"{self._number(sums[label][k])} ({percent})"
            self.rows.append(row | {"smd": difference if k == 0 else np.nan})

    def frame(self) -> ResultTable:
        """Return the table."""
        names = ["characteristic", "level", "missing", *self.groups, "smd"]
        table = pd.DataFrame(self.rows).reindex(columns=names).astype({"missing": int})
        captions = CAPTIONS | {label: label for label in self.labels}
        return present(table, "love_plot", labels=("characteristic", "level"), captions=captions)

    def _text(self, value: float) -> str:
        """Format a number with the decimals of the table."""
        return f"{value:,.{self.digits}f}"

    def _number(self, value: float) -> str:
        """Format a number of people, which is whole without weights."""
        return f"{value:,.0f}" if float(value).is_integer() else self._text(value)


def _moments(x: NDArray, w: NDArray) -> tuple[float, float]:
    """Return the weighted mean and variance, with n − 1 for equal weights."""
    moments = Moments.of([(0, x[:, None])], 1, (w / w.sum())[:, None])
    return float(moments.mean[0, 0]), float(moments.corrected[0, 0])


def _variance(x: NDArray) -> float:
    """Return the variance, with n − 1."""
    return _moments(x, np.ones(len(x)))[1]


def _ratio(difference: float, variance: float) -> float:
    """Return the absolute standardised difference."""
    if difference == 0:
        return 0.0
    return abs(difference) / float(np.sqrt(variance)) if variance > 0 else np.inf


def _mean_over_pairs(groups: int, of: Callable[[int, int], float]) -> float:
    """Return the mean over all pairs of groups; NaN if there are none."""
    if groups < 2:
        return np.nan
    return float(np.mean([of(j, k) for j, k in combinations(range(groups), 2)]))
