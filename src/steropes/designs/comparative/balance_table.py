"""Balance of covariates between groups: standardised differences, variance ratios and KS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from steropes.data.plottable_result_tables import ResultTable, present
from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.designs.covariates.weighted_moments import (
    Moments,
    mean_difference,
    standardized_difference,
)
from steropes.designs.values.argument_checks import check_flag
from steropes.designs.values.estimands import (
    SPREAD_OF_ESTIMAND,
    Denominator,
    check_estimand,
    denominators,
)
from steropes.designs.values.input_checks import require_arms, require_numbers
from steropes.errors import DataError

__all__ = [
    "CAPTIONS",
    "balance_table",
    "distance_of_shares",
    "shares_of_groups",
    "standard_deviations",
]

ARMS = ("target", "comparator")
# Most products of columns, which are as many as pairs.
MAX_PRODUCTS = 100_000

# Relative size of spreads that are rounding errors.
RANK = 1e-10

# Captions of the columns in a paper.
CAPTIONS = {
    f"{column}_{when}": f"{caption} {when}"
    for when in ("before", "after")
    for column, caption in (
        ("target_mean", "Target mean"), ("comparator_mean", "Comparator mean"),
        ("smd", "Standardised difference"), ("variance_ratio", "Variance ratio"),
        ("ks", "Largest difference of distributions"),
    )
}  # fmt: skip


def balance_table(
    X: Any,
    treatment: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    estimand: str = "ate",
    denominator: Denominator | None = None,
    before: ArrayLike | None = None,
    squares: bool = False,
    products: bool = False,
) -> ResultTable:
    """Compare the covariates of two groups, before and after weighting or matching.

    Differences of means are divided by standard deviations of the sample *before* adjustment,
    which weights do not change: that of the target under "att", that of the comparator under
    "atc", and otherwise the root of the mean of both groups' variances. Variances have n − 1 in
    the denominator, and p (1 − p) for columns of 0 and 1. Where this spread is zero, that of both
    groups together is taken.

    Parameters
    ----------
    X : data frame, array, sparse matrix or Design, shape (n, p)
        Covariates. Each level of a column of labels has a row, and the column itself another one.
    treatment : array_like, shape (n,)
        1 for the target group and 0 for the comparator.
    weights : array_like, shape (n,), optional
        Weights after adjustment, from any source; 0 for people left out. Default: only the
        columns ``_before``.
    estimand : {"ate", "att", "atc", "ato", "atm", "entropy"}, default "ate"
        Population of the effect, which determines the denominator.
    denominator : {"target", "comparator", "pooled", "all"}, optional
        Another group whose spread is the denominator.
    before : array_like, shape (n,), optional
        Weights before adjustment, such as those of a survey. Default 1.
    squares : bool, default False
        Whether to add squares of the columns with other values than 0 and 1.
    products : bool, default False
        Whether to add products of all pairs of columns.

    Returns
    -------
    DataFrame
        One row per covariate: ``name``; ``kind`` ("binary", "continuous" or "factor"); and with the
        suffixes ``_before`` and ``_after`` ``target_mean``, ``comparator_mean``, ``smd``
        (standardised mean difference; of a factor, Yang and Dalton's distance of all shares, which
        has no sign), ``variance_ratio`` (target by comparator, of continuous columns) and ``ks``
        (largest difference of the distribution functions).

    Raises
    ------
    DataError
        Shapes disagree, a weight is negative or missing, a group has no one, or a column is the
        treatment itself.

    See Also
    --------
    steropes.plots.love_plot : Draw the differences.
    table_one : Tabulate characteristics of groups for readers.

    Notes
    -----
    Weighted variances are Σw(x − m)² / (1 − Σw²) with weights that sum to one.

    References
    ----------
    Austin (2009), Statistics in Medicine 28:3083–3107. Yang and Dalton (2012), SAS Global Forum
    335 (factors). Stuart, Lee and Leacy (2013), Journal of Clinical Epidemiology 66:S84–S90.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs import balance_table
    >>> people = pd.DataFrame({"age": [61.0, 70, 55, 48, 66, 52], "male": [1, 1, 0, 0, 1, 0]})
    >>> table = balance_table(people, [1, 1, 1, 0, 0, 0], [1, 0, 1, 0, 1, 1])
    >>> table[["name", "smd_before", "smd_after"]].round(3)
       name  smd_before  smd_after
    0   age       0.779     -0.117
    1  male       0.707      0.000
    """
    columns = CovariateColumns.of(X)
    squares, products = check_flag("squares", squares), check_flag("products", products)
    target = require_arms(treatment, "treatment") == 1
    given = {"before": before} if weights is None else {"before": before, "after": weights}
    together = np.empty((columns.n, 3 * len(given)))
    for k, (stage, own) in enumerate(given.items()):
        label = "before" if stage == "before" else "weights"
        together[:, 3 * k : 3 * k + 3] = shares_of_groups(own, target, columns.n, label)
    whose = denominator or SPREAD_OF_ESTIMAND.get(check_estimand(estimand), "pooled")
    if whose not in get_args(Denominator):
        raise DataError(
            f"denominator must be one of {', '.join(get_args(Denominator))}, not {whose!r}."
        )
    table = _table_of(columns.chunks(), columns.names, columns.binary, together, list(given), whose)
    if columns is not X:  # Otherwise these are the columns of a fitted object.
        _refuse_treatment(table, columns, target)
    tables = [_with_factors(table, columns, list(given))]
    for chunks, names, binary in _derived(columns, squares, products):
        tables.append(_table_of(iter(chunks), names, binary, together, list(given), whose))
    table = pd.concat(tables, ignore_index=True)
    return present(table, "love_plot", captions=CAPTIONS)


def shares_of_groups(
    weights: ArrayLike | None, target: NDArray, n: int, label: str = "weights"
) -> NDArray:
    """Check weights and return the shares of people in the target, the comparator and both, (n, 3).

    Parameters
    ----------
    target : ndarray of bool, shape (n,)
    label : str
        Name of the weights, for messages.
    """
    if len(target) != n:
        raise DataError(f"treatment has {len(target)} rows and X {n}; they must agree.")
    w = np.ones(n) if weights is None else require_numbers(label, weights)
    if len(w) != n:
        raise DataError(f"{label}: {len(w)} weights for {n} people; numbers must agree.")
    if (w < 0).any():
        raise DataError(f"{label}: row {int(np.argmax(w < 0))} (counted from 0) is negative.")
    shares = np.column_stack([np.where(target, w, 0.0), np.where(target, 0.0, w), w])
    total = shares.sum(axis=0)
    if not total.all():
        name, code = ("target", 1) if total[0] == 0 else ("comparator", 0)
        if code not in np.asarray(target, dtype=int):
            raise DataError(
                f"treatment is never {code}: the {name} group has nobody; add its people, or check "
                "how treatment is coded (1 for the target group, 0 for the comparator)."
            )
        raise DataError(
            f"{label}: the {name} group (treatment {code}) has nobody with a positive weight, so "
            "that there is nothing to compare; weigh some of its people."
        )
    return np.asarray(shares / total)


def _refuse_treatment(table: pd.DataFrame, columns: CovariateColumns, target: NDArray) -> None:
    """Refuse a column of 0 and 1 that is the treatment, or its complement."""
    levels = {int(j) for own in columns.factors.values() for j in own}
    for j in map(int, np.flatnonzero(columns.binary & (table["ks_before"] > 1 - RANK))):
        x = columns.column(j) == 1  # People of zero weight may have other values.
        if j not in levels and (np.array_equal(x, target) or np.array_equal(x, ~target)):
            raise DataError(
                f"The column {columns.names[j]!r} of X is the treatment itself; leave it out of X."
            )


def standard_deviations(columns: CovariateColumns, shares: NDArray, whose: Denominator) -> NDArray:
    """Compute the denominators of standardised differences, (p,).

    Parameters
    ----------
    shares : ndarray, shape (n, 3)
        From `shares_of_groups`, before adjustment.
    """
    return _denominator(columns.moments(shares), columns.binary, whose)


def _derived(
    columns: CovariateColumns, squares: bool, products: bool
) -> Iterator[tuple[list[tuple[NDArray, Any]], list[str], NDArray]]:
    """Yield squares and products of columns, with names and kinds, a few at a time."""
    if squares:
        for j in map(int, np.flatnonzero(~columns.binary)):
            x = columns.column(j)[:, None]
            yield [(np.arange(1), x * x)], [f"{columns.names[j]}²"], np.zeros(1, bool)
    if not products:
        return
    if columns.p * (columns.p - 1) // 2 > MAX_PRODUCTS:
        raise DataError(
            f"X has {columns.p:,} columns, of which there are too many products; pass a table of "
            "fewer columns for products=True."
        )
    factor = {int(j): name for name, own in columns.factors.items() for j in own}
    for j, others in _pairs(columns.p, factor):
        first = columns.column(j)
        x = np.column_stack([columns.column(k) * first for k in others])
        names = [f"{columns.names[j]} × {columns.names[k]}" for k in others]
        binary = columns.binary[j] & columns.binary[others]
        yield [(np.arange(len(others)), x)], names, np.asarray(binary)


def _pairs(p: int, factor: dict[int, str]) -> Iterator[tuple[int, list[int]]]:
    """Yield each column with the later ones, without other levels of the same factor."""
    for j in range(p - 1):
        own = factor.get(j)
        others = [k for k in range(j + 1, p) if own is None or factor.get(k) != own]
        if others:
            yield j, others


def _table_of(
    chunks: Iterator[tuple[NDArray, Any]],
    names: list[str],
    binary: NDArray,
    together: NDArray,
    stages: list[str],
    whose: Denominator,
) -> pd.DataFrame:
    """Compare columns that are given in chunks.

    Parameters
    ----------
    together : ndarray, shape (n, 3 k)
        Shares of people in the target, the comparator and both, at each of k stages.
    """
    p = len(names)
    gaps = np.zeros((p, together.shape[1] // 3))
    signed = together[:, 0::3] - together[:, 1::3]

    def with_gaps() -> Iterator[tuple[NDArray, Any]]:
        for at, x in chunks:  # Each chunk is read once.
            gaps[at] = _largest_gaps(x, binary[at], signed)
            yield at, x

    moments = Moments.of(with_gaps(), p, together)
    of_stage = {stage: moments.take(slice(3 * k, 3 * k + 3)) for k, stage in enumerate(stages)}
    spread = _denominator(of_stage["before"], binary, whose)
    made: dict[str, NDArray] = {}
    for k, (stage, own) in enumerate(of_stage.items()):
        target, comparator = own.mean[:, 0], own.mean[:, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = own.corrected[:, 0] / own.corrected[:, 1]
        made |= {
            f"target_mean_{stage}": target,
            f"comparator_mean_{stage}": comparator,
            f"smd_{stage}": standardized_difference(target, comparator, spread),
            f"variance_ratio_{stage}": np.where(binary, np.nan, ratio),
            f"ks_{stage}": np.where(binary, abs(mean_difference(target, comparator)), gaps[:, k]),
        }
    kind = np.where(binary, "binary", "continuous")
    return pd.DataFrame({"name": names, "kind": kind, **made})


def _denominator(moments: Moments, binary: NDArray, whose: Denominator) -> NDArray:
    """Return the spread by which differences are divided, (p,)."""
    return denominators(np.where(binary[:, None], moments.variance, moments.corrected), whose)


def _largest_gaps(x: Any, binary: NDArray, signed: NDArray) -> NDArray:
    """Compute the largest differences of distribution functions, (m, k); zero for 0/1 columns.

    Parameters
    ----------
    signed : ndarray, shape (n, k)
        Shares of people in the target minus those in the comparator, at each stage.
    """
    gaps = np.zeros((len(binary), signed.shape[1]))
    for j in np.flatnonzero(~binary):
        if sp.issparse(x):  # All other people have the value zero.
            own = slice(x.indptr[j], x.indptr[j + 1])
            mass = signed[x.indices[own]]
            values, mass = np.append(x.data[own], 0.0), np.vstack([mass, -mass.sum(axis=0)])
        else:
            values, mass = np.ascontiguousarray(x[:, j]), signed
        order = np.argsort(values)
        ordered = values[order]
        last = np.append(np.flatnonzero(ordered[1:] != ordered[:-1]), len(order) - 1)
        for k in range(signed.shape[1]):
            gaps[j, k] = np.abs(np.cumsum(mass[order, k])[last]).max()
    return gaps


def _with_factors(
    table: pd.DataFrame, columns: CovariateColumns, stages: list[str]
) -> pd.DataFrame:
    """Insert a row for each column of labels before the rows of its levels."""
    if not columns.factors:
        return table
    position = np.arange(len(table), dtype=float)
    added = []
    for name, own in columns.factors.items():
        means = ("target_mean_before", "comparator_mean_before")
        first = [table[column].to_numpy()[own] for column in means]
        row: dict[str, object] = {"name": name, "kind": "factor"}
        for stage in stages:
            shares = [table[f"{arm}_mean_{stage}"].to_numpy()[own] for arm in ARMS]
            row[f"smd_{stage}"] = distance_of_shares(shares, first)
            row[f"ks_{stage}"] = float(np.nanmax(table[f"ks_{stage}"].to_numpy()[own]))
        added.append((float(own[0]) - 0.5, row))
    rows = pd.DataFrame([row for _, row in added]).reindex(columns=table.columns)
    order = np.argsort(np.concatenate([position, [at for at, _ in added]]), kind="stable")
    whole = {
        name: np.concatenate([table[name].to_numpy(), rows[name].to_numpy()])[order]
        for name in table.columns
    }
    return pd.DataFrame(whole).infer_objects()


def distance_of_shares(shares: list[NDArray], before: list[NDArray]) -> float:
    """Compute √(d' S⁻¹ d) of shares without the first level (Yang and Dalton 2012).

    S is the mean of the covariances diag(p) − pp' of both groups before adjustment, or where these
    have no spread in the direction of the difference, the covariance at their mean shares.
    """
    d = (shares[0] - shares[1])[1:]
    spreads = [_covariance_of_shares(p) for p in before]
    S = (spreads[0] + spreads[1]) / 2
    solved = np.linalg.pinv(S, rcond=RANK, hermitian=True) @ d
    if np.abs(S @ solved - d).max(initial=0.0) > RANK:
        S = _covariance_of_shares((before[0] + before[1]) / 2)
        solved = np.linalg.pinv(S, rcond=RANK, hermitian=True) @ d
    return float(np.sqrt(max(0.0, d @ solved)))


def _covariance_of_shares(shares: NDArray) -> NDArray:
    """Compute diag(p) − pp' without the first level."""
    whole = np.round(shares)  # Sums of shares are 0 or 1 except for rounding.
    p = np.where(np.abs(shares - whole) < 1e-12, whole, shares)[1:]
    return np.asarray(np.diag(p) - np.outer(p, p))
