"""Tables of coefficients: selection of rows, standard errors, tests, limits and ratios."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from ...data import check_level, check_strata
from ...data.input_types import LabelsLike
from ...data.plottable_result_tables import ResultTable, present_coefficients
from ...errors import DataError, listed
from .fixed_and_initial_coefficients import FixedCoefficients

__all__ = ["cluster_codes", "coefficient_positions", "coefficient_table", "critical_value"]


def critical_value(level: object, df: float | None = None) -> float:
    """Return the half-width of an interval in standard errors, normal or t with ``df``."""
    at = 0.5 + check_level(level) / 2
    return float(stats.norm.ppf(at) if df is None else stats.t.ppf(at, df))


def coefficient_positions(
    params: ArrayLike | None, names: list[str], fixed: FixedCoefficients | None = None
) -> list[int]:
    """Find the rows of the table of coefficients that names, positions or a mask refer to.

    Parameters
    ----------
    params : name, position, sequence of them, or mask
        None means all. Positions count the intercept or baseline, if any, and then the
        coefficients of all columns of X, including fixed ones. A mask has an entry for each row
        of the table or for each coefficient.
    names : list of str
        Names of the rows of the table, the estimated coefficients.

    Raises
    ------
    DataError
        If there is no such coefficient, or it is fixed and not estimated.
    """
    if params is None:
        return list(range(len(names)))
    one = isinstance(params, str) or np.ndim(params) == 0
    chosen: list = list(params) if isinstance(params, Iterable) and not one else [params]
    is_mask = bool(chosen) and all(isinstance(item, bool | np.bool_) for item in chosen)
    of_table = is_mask and not one and len(chosen) == len(names)
    if fixed is not None and not of_table:
        whole = fixed.all_names(names)
        row = fixed.rows_of_table(names)
        places = coefficient_positions(params if one else chosen, whole)
        for j in places:
            if row[j] < 0:
                value = fixed.values[j - len(whole)]
                raise DataError(
                    f"The coefficient of {whole[j]!r} is fixed at {value:g} and not estimated; "
                    "leave it out."
                )
        return [int(row[j]) for j in places]
    if is_mask:
        if one or len(chosen) != len(names):
            raise DataError(
                f"params is a mask of {len(chosen)} coefficients, but there are {len(names)}: "
                f"{listed(names)}."
            )
        return [int(j) for j in np.flatnonzero(chosen)]
    return [_position(item, names) for item in chosen]


def _position(item: object, names: list[str]) -> int:
    """Find the row of one name or position."""
    if isinstance(item, str):
        if item not in names:
            raise DataError(f"There is no coefficient {item!r}; there are {listed(names)}.")
        if names.count(item) > 1:  # a model's own intercept, and a column of that name
            at = [j for j, name in enumerate(names) if name == item]
            raise DataError(
                f"Two coefficients are called {item!r}, at positions {at[0]} and {at[1]}: give the "
                "position, or rename the column of X."
            )
        return names.index(item)
    if isinstance(item, bool | np.bool_) or not isinstance(item, Integral):
        raise DataError(f"params takes names, positions or a mask of all, not {item!r}.")
    if not -len(names) <= int(item) < len(names):
        raise DataError(f"There is no coefficient {item}: there are {len(names)}.")
    return range(len(names))[int(item)]


def coefficient_table(
    coef: np.ndarray,
    se: np.ndarray,
    names: list[str],
    level: object,
    df: float | None = None,
    ratio: str | None = None,
    known: tuple[np.ndarray, np.ndarray] | None = None,
) -> ResultTable:
    """Tabulate coefficients with their limits, ratios and Wald tests.

    Parameters
    ----------
    coef, se : (p,) arrays
    level : float
        Confidence level of the limits.
    df : float, optional
        Residual degrees of freedom of t statistics. The default uses the normal distribution.
    ratio : str, optional
        Name of exp(coef), such as "hazard ratio", which then has columns of its own.
    known : tuple of (p,) and (p, 2) arrays, optional
        Statistics and limits that are not derived from the standard errors.

    Returns
    -------
    ResultTable
        Indexed by coefficient, with the columns ``coef``, ``lower``, ``upper``, ``exp(coef)``,
        ``exp(lower)``, ``exp(upper)`` (these three with ``ratio`` only), ``se``, ``z`` (``t``
        with ``df``) and ``p``.
    """
    q = critical_value(level, df)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        statistic = coef / se
        tail = stats.norm.sf(np.abs(statistic)) if df is None else stats.t.sf(np.abs(statistic), df)
        lower, upper = coef - q * se, coef + q * se
        if known is not None:
            statistic, (lower, upper) = known[0], known[1].T
            tail = stats.norm.sf(np.abs(statistic))
        table = {"coef": coef, "lower": lower, "upper": upper}
        if ratio is not None:
            table |= {f"exp({name})": np.exp(values) for name, values in table.items()}
        table |= {"se": se, "z" if df is None else "t": statistic, "p": 2 * tail}
    return present_coefficients(pd.DataFrame(table, index=list(names)), ratio, check_level(level))


def cluster_codes(cluster: LabelsLike | None, n: int, weights: np.ndarray) -> np.ndarray | None:
    """Convert cluster labels to codes; require two clusters among rows with positive weight."""
    if cluster is None:
        return None
    try:
        code = check_strata(cluster, n)
    except DataError as error:
        what = str(error).replace("strata", "cluster").replace("stratum", "cluster")
        raise DataError(what) from None
    assert code is not None
    if len(np.unique(code[weights > 0])) < 2:
        raise DataError(
            "cluster has one label only, and the scores of all rows add up to zero: robust errors "
            "need two clusters, and many to be of use."
        )
    return code
