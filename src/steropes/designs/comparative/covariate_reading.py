"""Covariates of people as numbers or labels, from columns of a table or from a long table."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.data.number_formatting import value_text
from steropes.design_matrix import Design
from steropes.designs.covariates.covariates_by_column import Covariates
from steropes.designs.values.table_reading import read_columns, unknown_name
from steropes.errors import DataError, listed

__all__ = [
    "Missing",
    "covariate_of_column",
    "covariates_of_long_table",
    "covariates_of_rows",
    "described_column",
    "numbers_of_column",
    "refuse_indicators_of_one_group",
    "refuse_names_of_indicators",
    "repeated_columns",
]

Missing = Literal["error", "indicator"]
# The level of a column of labels for people without a label.
NO_LABEL = "(missing)"
# Kinds of numbers that tables may hold as objects.
NUMBERS = ("decimal", "integer", "floating", "mixed-integer-float", "boolean")


def covariates_of_rows(covariates: Covariates, n: int) -> Design:
    """Return the sparse columns of covariates of the rows of the data."""
    if covariates.n != n:
        raise DataError(
            f"covariates are of {covariates.n:,} people and data has {n:,} rows; both must have "
            "the same people in the same order."
        )
    return covariates.design()


def covariates_of_long_table(covariates: Any, ids: NDArray | None, id: str | None) -> Design:
    """Convert a long table of person, covariate and value to sparse columns."""
    assert ids is not None
    assert id is not None
    frame = read_columns(covariates, None, "covariates")
    if id not in frame:
        raise unknown_name("covariates", id, list(map(str, frame.columns)))
    others = [str(name) for name in frame.columns if name != id]
    if not 1 <= len(others) <= 2:
        raise DataError(
            f"A long table of covariates has {id!r}, a column that names the covariate, and "
            f"perhaps one of values; besides {id!r} this one has {listed(others) or 'nothing'}."
        )
    values = others[1] if len(others) == 2 else None
    twice = frame.duplicated([id, others[0]]).to_numpy()
    if twice.any():
        raise DataError(
            f"Row {int(twice.argmax())} (counted from 0) of covariates repeats the {id!r} and "
            f"{others[0]!r} of an earlier row; keep one of them, or add them up."
        )
    known = frame[id].isin(ids).to_numpy()
    if not known.all():
        raise DataError(
            f"Row {int(np.argmin(known))} (counted from 0) of covariates is of a person who is not "
            f"in data; drop the rows of such people."
        )
    return Design.from_long(frame, ids, row=id, covariate=others[0], value=values)


def covariate_of_column(
    column: pd.Series, name: str, numbers: NDArray | None, missing: Missing
) -> dict[str, Any]:
    """Return a covariate as numbers or labels, perhaps with an indicator of missing values."""
    absent = column.isna().to_numpy(dtype=bool)
    if absent.any() and missing == "error":
        raise DataError(
            f"The covariate {name!r} is missing in {int(absent.sum()):,} rows, first in row "
            f"{int(absent.argmax())} (counted from 0). Leave these rows out, impute them, or set "
            "missing='indicator', which takes the median and adds an indicator."
        )
    if absent.all():
        raise DataError(f"The covariate {name!r} has no values; leave it out of covariates.")
    if numbers is None:
        return {name: _labels(column, absent)}
    infinite = np.isinf(numbers)
    if infinite.any():
        row = int(infinite.argmax())
        raise DataError(
            f"The covariate {name!r} is infinite in row {row} (counted from 0); correct the value "
            "or leave the row out."
        )
    if not absent.any():
        return {name: numbers}
    middle = float(np.median(numbers[~absent]))
    filled = np.where(absent, middle, numbers)
    return {name: filled, f"{name} missing": absent.astype(float)}


def described_column(column: pd.Series, numbers: NDArray | None) -> NDArray:
    """Return numbers with NaN, or text with None."""
    if numbers is not None:
        return numbers
    return column.astype(object).map(value_text, na_action="ignore").to_numpy(dtype=object)


def numbers_of_column(column: pd.Series) -> NDArray | None:
    """Return a column as numbers with NaN; None for labels."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return None
    if pd.api.types.is_complex_dtype(kind):
        raise DataError(
            f"The column {column.name!r} has complex numbers; take their real part, or their size."
        )
    dated = pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_timedelta64_dtype(kind)
    if dated or isinstance(kind, pd.PeriodDtype | pd.IntervalDtype):
        raise DataError(
            f"The column {column.name!r} has dates or durations; convert it to a number, such as "
            "days since the start."
        )
    numeric = pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_bool_dtype(kind)
    if not numeric and pd.api.types.infer_dtype(column, skipna=True) not in NUMBERS:
        return None
    return np.asarray(pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan))


def _labels(column: pd.Series, absent: NDArray) -> pd.Categorical:
    """Return labels as categories: sorted, or in the order of ordered categories."""
    text = column.astype(object).map(value_text, na_action="ignore").to_numpy(dtype=object)
    if absent.any() and NO_LABEL in text:
        raise DataError(
            f"The covariate {column.name!r} has the label {NO_LABEL!r} and missing values, which "
            "would get the same label; rename the label."
        )
    if isinstance(column.dtype, pd.CategoricalDtype) and column.cat.ordered:
        levels = [value_text(x) for x in column.cat.categories]
        used = set(text[~absent])
        levels = [level for level in levels if level in used]
    else:
        levels = sorted(set(text[~absent]))
    if absent.any():
        text = np.where(absent, NO_LABEL, text)
        levels = [*levels, NO_LABEL]
    return pd.Categorical(text, categories=levels)


def refuse_names_of_indicators(indicators: list[str], names: list[str]) -> None:
    """Refuse covariates that have the name of an indicator of missing values."""
    taken = [name for name in indicators if name in names]
    if taken:
        raise DataError(
            f"The covariate {listed(taken)} has the name of the indicator of missing values of "
            "another covariate; rename it."
        )


def refuse_indicators_of_one_group(indicators: pd.DataFrame, code: NDArray) -> None:
    """Refuse missing values of one group alone, which no adjustment can compare."""
    for name in indicators:
        if len(np.unique(code[indicators[name] == 1])) == 1:
            raise DataError(
                f"The covariate {name.removesuffix(' missing')!r} is missing in one of the groups "
                "only, so that nobody in the other group is like these people. Leave their rows "
                "out, impute the values, or leave the covariate out."
            )


def repeated_columns(indicators: pd.DataFrame) -> list[str]:
    """Return the names of columns that are equal to an earlier one."""
    patterns = pd.Series(
        [indicators[name].to_numpy().tobytes() for name in indicators], dtype=object
    )
    return list(indicators.columns[patterns.duplicated()])
