"""Comparison of analyses by their expected absolute systematic error on the same controls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.backends.blas_threads import single_threaded_blas
from steropes.data.formatted_tables_for_papers import Interval
from steropes.data.input_types import TableLike
from steropes.data.plottable_result_tables import ResultTable, present
from steropes.data.vector_checks import check_level
from steropes.designs.controls.systematic_error_posterior import expected_absolute
from steropes.designs.values.argument_checks import check_whole
from steropes.designs.values.input_checks import refuse_missing
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError, listed

__all__ = ["compare_errors", "errors_of_draws"]

# Variances at which the likelihood is evaluated first, and halvings of the step around the best.
VARIANCES, HALVINGS = 60, 32


@single_threaded_blas()
def compare_errors(
    estimates: TableLike,
    *,
    analysis: str = "analysis",
    control: str = "control",
    log_rr: str = "log_rr",
    se: str = "se",
    reference: Any = None,
    draws: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> ResultTable:
    """Compare the expected absolute systematic error of analyses of the same negative controls.

    Bootstrap draws of controls are shared by all analyses, so that the differences are paired.

    Parameters
    ----------
    estimates : DataFrame
        One row per analysis and negative control. Rows without a finite estimate and standard error
        are left out.
    analysis, control, log_rr, se : str
        Its columns. Default "analysis", "control", "log_rr" and "se".
    reference : object, optional
        The analysis with which the others are compared. Default: the one with the smallest error.
    draws : int, default 1000
        Number of bootstrap draws of controls.
    seed : int, default 0
        Seed of the draws.
    level : float, default 0.95
        Level of the percentile intervals.

    Returns
    -------
    DataFrame
        A row for each analysis: ``controls``, ``ease`` with ``lower`` and ``upper``, its
        ``difference`` from the reference with ``difference_lower`` and ``difference_upper``, and
        ``p`` (two-sided, twice the smaller share of draws beyond no difference); missing for the
        reference.

    Raises
    ------
    DataError
        A column is missing, a control has two rows in one analysis, an analysis has fewer than two
        usable controls, or the reference is unknown.

    See Also
    --------
    error_posterior : An interval for one analysis without draws.

    Notes
    -----
    Controls are drawn with replacement among all that any analysis has, and each analysis fits the
    drawn controls that it has by maximum likelihood. ``compareEase`` of R's EmpiricalCalibration
    does the same for two analyses, with a one-sided p-value.

    References
    ----------
    Schuemie, Cepeda, Suchard and others (2020), Harvard Data Science Review 2(1).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from steropes.designs.controls import compare_errors
    >>> rng = np.random.default_rng(0)
    >>> bias = rng.normal(0, 0.3, 50)
    >>> table = pd.DataFrame(
    ...     {
    ...         "analysis": ["crude"] * 50 + ["matched"] * 50,
    ...         "control": [*range(50), *range(50)],
    ...         "log_rr": [*(bias + rng.normal(0, 0.1, 50)), *rng.normal(0, 0.1, 50)],
    ...         "se": 0.1,
    ...     }
    ... )
    >>> compare_errors(table)[["ease", "difference", "difference_lower"]].round(2)
             ease  difference  difference_lower
    crude    0.21        0.21              0.15
    matched  0.00         NaN               NaN
    """
    check_level(level)
    check_whole("draws", draws, 100)
    check_whole("seed", seed, 0)
    y, s, names = _by_analysis(estimates, analysis, control, log_rr, se)
    if reference is not None and reference not in names:
        raise DataError(f"reference is {reference!r}; analyses are {listed(list(names))}.")
    n = y.shape[1]
    drawn = np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=draws)
    counts = np.vstack([np.ones(n), drawn])
    ease = np.array([_of_analysis(counts, a, b) for a, b in zip(y, s, strict=True)])
    at = int(np.argmin(ease[:, 0])) if reference is None else list(names).index(reference)
    tails = ((1 - level) / 2, (1 + level) / 2)
    lower, upper = np.nanquantile(ease[:, 1:], tails, axis=1)
    gap = ease - ease[at]
    gap_lower, gap_upper = np.nanquantile(gap[:, 1:], tails, axis=1)
    shares = [np.nanmean(np.where(np.isnan(gap), np.nan, f(gap, 0))[:, 1:], axis=1)
              for f in (np.less_equal, np.greater_equal)]  # fmt: skip
    table = pd.DataFrame(
        {
            "controls": np.isfinite(y).sum(axis=1), "ease": ease[:, 0], "lower": lower,
            "upper": upper, "difference": gap[:, 0], "difference_lower": gap_lower,
            "difference_upper": gap_upper, "p": np.minimum(2 * np.minimum(*shares), 1.0),
        },
        names.rename(None),
    )  # fmt: skip
    table.iloc[at, 4:] = np.nan
    return present(
        table, "forest", label="Expected absolute systematic error",
        intervals=(
            Interval("Expected systematic error", "ease", "lower", "upper", level),
            Interval("Difference", "difference", "difference_lower", "difference_upper", level),
        ),
    )  # fmt: skip


def _by_analysis(
    estimates: TableLike, analysis: str, control: str, log_rr: str, se: str
) -> tuple[NDArray, NDArray, pd.Index]:
    """Return estimates and standard errors, (analyses, controls), NaN where there is none."""
    rows = read_columns(estimates, [analysis, control, log_rr, se], "estimates")
    for name in (analysis, control):
        refuse_missing(rows[name], f"estimates[{name!r}]")
    twice = rows.duplicated([analysis, control])
    if twice.any():
        raise DataError(
            f"estimates has a control twice in one analysis, in row {int(twice.argmax())} (counted "
            f"from 0); give each {control!r} one row for each {analysis!r}."
        )
    y, s = (rows.pivot(index=analysis, columns=control, values=name) for name in (log_rr, se))
    a, b = y.to_numpy(float), s.to_numpy(float)
    good = np.isfinite(a) & np.isfinite(b) & (b > 0)
    few = good.sum(axis=1) < 2
    if few.any():
        raise DataError(
            f"The analysis {y.index[int(few.argmax())]!r} has fewer than two controls with "
            "estimates."
        )
    return np.where(good, a, np.nan), np.where(good, b, np.nan), y.index


def _of_analysis(counts: NDArray, y: NDArray, s: NDArray) -> NDArray:
    """Return the expected systematic error of an analysis for each draw; NaN without controls."""
    own = np.isfinite(y)
    counts = counts[:, own]
    found = np.full(len(counts), np.nan)
    some = counts.sum(axis=1) > 0
    mean, sd = errors_of_draws(counts[some], y[own], s[own])
    found[some] = expected_absolute(mean, np.maximum(sd, 1e-12))
    return found


def errors_of_draws(counts: NDArray, y: NDArray, s: NDArray) -> tuple[NDArray, NDArray]:
    """Fit the systematic error of each draw by maximum likelihood, as `fit_systematic_error`.

    Parameters
    ----------
    counts : (draws, n) array
        How often each control is in each draw.
    y, s : (n,) arrays
        Log ratios and their standard errors.

    Returns
    -------
    mean, sd : (draws,) arrays
    """
    top = float(y.max() - y.min()) ** 2 + 1e-6
    grid = np.concatenate([[0.0], np.geomspace(min(1e-8, top / 10), top, VARIANCES)])
    fits = np.array([_profile(counts, y, s, np.full(len(counts), v))[0] for v in grid])
    at = fits.argmax(axis=0)
    low, high = grid[np.maximum(at - 1, 0)], grid[np.minimum(at + 1, len(grid) - 1)]
    # The likelihood has one maximum between the neighbours of the best value of the grid.
    golden = (np.sqrt(5) - 1) / 2
    for _ in range(HALVINGS):
        a, b = high - golden * (high - low), low + golden * (high - low)
        left = _profile(counts, y, s, a)[0] >= _profile(counts, y, s, b)[0]
        low, high = np.where(left, low, a), np.where(left, b, high)
    best = (low + high) / 2
    value, mean = _profile(counts, y, s, best)
    none, mean_of_none = _profile(counts, y, s, np.zeros(len(counts)))
    flat = none >= value
    return np.where(flat, mean_of_none, mean), np.where(flat, 0.0, np.sqrt(best))


def _profile(counts: NDArray, y: NDArray, s: NDArray, variance: NDArray) -> tuple[NDArray, NDArray]:
    """Return the log-likelihood of each draw at a variance and the best mean, and that mean."""
    w = 1 / (s**2 + variance[:, None])
    weighted = counts * w
    total = weighted.sum(axis=1)
    mean = (weighted * y).sum(axis=1) / total
    value = 0.5 * (counts * np.log(w) - weighted * (y - mean[:, None]) ** 2).sum(axis=1)
    return value, mean
