"""Conversion of estimates to log ratios with errors: from results, rows of tables, or counts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.effects.effect_estimate_result import Estimate
from steropes.designs.values.normal_quantile import Z
from steropes.designs.values.plottable_log_ratios import DrawnEffect
from steropes.errors import DataError

__all__ = ["AnyRatio", "ObservedRatio", "check_counts", "is_row", "log_measure", "observed_ratio"]

# An `Estimate` or combined or calibrated effect, a row of a table, or (ratio, lower, upper).
AnyRatio: TypeAlias = "Estimate | DrawnEffect | pd.Series | pd.DataFrame | Sequence[float]"
MEASURES = ("odds ratio", "risk ratio")
# Columns of ratios with limits that are always those of 95 %: of grids and syntheses, of a study of
# one question, and of drugs that are reported together.
LIMITS = (
    ("rr", "ci_95_lb", "ci_95_ub"), ("hr", "lower", "upper"), ("adjusted_or", "lower", "upper"),
)  # fmt: skip
# Columns of log ratios with standard errors: of case series, syntheses and monitoring, of case-only
# designs, and of models.
LOGARITHMS = (("log_rr", "se"), ("log_ratio", "se"), ("coef", "se"))


@dataclass(frozen=True)
class ObservedRatio:
    """A log ratio with its standard error and the limits of its 95 % interval."""

    log_ratio: float
    se: float
    lower: float
    upper: float


def observed_ratio(given: AnyRatio) -> ObservedRatio:
    """Read a ratio.

    Parameters
    ----------
    given : Estimate, combined or calibrated effect, Series, or (ratio, lower, upper)
        A Series, or a table of one row, is a row of a result. Its limits count if they are always
        those of 95 %, and otherwise its standard error.

    Raises
    ------
    DataError
        There is no ratio with finite limits.
    """
    numbers: tuple[float, ...]
    if isinstance(given, Estimate | DrawnEffect):
        numbers = given.log_rr, given.lower, given.upper
    elif isinstance(given, pd.Series) or is_row(given):
        numbers = _of_row(given.squeeze("index"))
    elif not isinstance(given, str) and np.shape(given) == (3,):
        numbers = _logs(*given)
    else:
        raise DataError(
            "estimate must be a result with log_rr, a row of a table of effects or coefficients, "
            f"(ratio, lower, upper), or a table of counts of 2 × 2, not {type(given).__name__}."
        )
    log_ratio, lower, upper = map(float, numbers)
    if not (math.isfinite(log_ratio) and math.isfinite(lower) and lower <= log_ratio <= upper):
        raise DataError(
            "The estimate has no finite ratio within its limits, so that a bias cannot be removed."
        )
    if lower == upper:
        raise DataError("The estimate has no standard error; give one with its limits.")
    if not math.isfinite(upper):
        raise DataError("The interval of the estimate has no upper limit.")
    return ObservedRatio(log_ratio, (upper - lower) / (2 * Z), lower, upper)


def _logs(*ratios: Any) -> tuple[float, ...]:
    """Return logarithms; refuse numbers that are no ratios."""
    try:
        values = [float(x) for x in ratios]
    except (TypeError, ValueError):
        raise DataError(f"A ratio and its limits must be numbers, not {ratios!r}.") from None
    if any(map(math.isnan, values)):
        raise DataError("The ratio or a limit is missing: there is no estimate, or it is hidden.")
    if not all(x > 0 for x in values):
        raise DataError(f"A ratio and its limits must be positive, not {tuple(values)}.")
    return tuple(math.log(x) for x in values)


def is_row(given: Any) -> TypeGuard[pd.DataFrame]:
    """Return whether a value is a table of one row."""
    return isinstance(given, pd.DataFrame) and len(given) == 1


def _of_row(row: pd.Series) -> tuple[float, ...]:
    """Read a row of a table: a log ratio with its error, or a ratio with its limits."""
    for names in LIMITS:
        if {*names} <= {*row.index}:
            return _logs(*row[[*names]])
    if "coef" in row and "exp(coef)" not in row:
        raise DataError(
            "The row is a coefficient that is no log ratio, such as a difference of means; a bias "
            "analysis is of a ratio."
        )
    for name, error in LOGARITHMS:
        if {name, error} <= {*row.index}:
            value, se = float(row[name]), float(row[error])
            return value, value - Z * se, value + Z * se
    if "measure" in row and not str(row["measure"]).endswith("ratio"):
        raise DataError(
            f"The row is a {row['measure']}; a bias analysis is of a ratio, such as the row "
            "'risk ratio'."
        )
    if {"estimate", "se"} <= set(row.index):
        (value,), se = _logs(row["estimate"]), float(row["se"])
        return value, value - Z * se, value + Z * se
    raise DataError(
        "The row needs a log ratio (log_rr, log_ratio or coef) with se, a ratio (rr or hr) with "
        "its limits, or estimate (a ratio) with se (of its logarithm); it has "
        f"{', '.join(map(str, row.index))}. Give (ratio, lower, upper) instead."
    )


def check_counts(name: str, given: Any) -> NDArray:
    """Return a table of counts as its four cells; refuse others.

    Parameters
    ----------
    name : str
        Name of the table, for the message.
    given : array_like, shape (2, 2)
        Exposed and unexposed cases, and exposed and unexposed people without the outcome.
    """
    try:
        cells = np.asarray(given, dtype=float)
    except (TypeError, ValueError):
        cells = np.empty(0)
    if cells.shape != (2, 2):
        raise DataError(
            f"{name} must be a table of 2 × 2: the cases exposed and unexposed, then the others."
        )
    if not (np.isfinite(cells).all() and (cells > 0).all()):
        raise DataError(f"{name} has an empty, negative or missing cell; no ratio is finite.")
    return cells.ravel()


def log_measure(cells: NDArray, measure: str) -> NDArray:
    """Compute the log ratio of tables of counts, (4, draws); NaN with a cell that is not positive.

    Parameters
    ----------
    measure : {"odds ratio", "risk ratio"}
    """
    if measure not in MEASURES:
        raise DataError(f"measure must be 'odds ratio' or 'risk ratio', not {measure!r}.")
    good = (cells > 0).all(axis=0) & np.isfinite(cells).all(axis=0)
    a, b, c, d = np.where(good, cells, 1.0)
    if measure == "odds ratio":
        found = np.log(a * d) - np.log(b * c)
    else:
        found = np.log(a / (a + c)) - np.log(b / (b + d))
    return np.where(good, found, np.nan)
