"""Plots of tests, residuals, and systematic error of control outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import linalg, stats

from ..data.number_formatting import deciding_p
from ..errors import DataError
from .plot_style import (
    COLOURS,
    FAINT,
    MUTED,
    curve_colour,
    get_axes,
    line_names,
    new_figure,
    remove_clutter,
    require_columns,
    shorten_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["control_estimates", "hypothesis_tests", "residuals", "schoenfeld_residuals"]

# Columns of residuals that a figure has panels for.
MOST_PANELS = 12


def schoenfeld_residuals(
    model: Any,
    param: str | int,
    *,
    df: int = 4,
    level: float = 0.95,
    log_time: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw scaled Schoenfeld residuals against time with a smooth curve of the effect.

    A horizontal curve supports proportional hazards; the dashed line is the estimate. The curve
    is a natural cubic spline with the band of R's ``plot.cox.zph``.

    Parameters
    ----------
    model : fitted CoxRegression or FineGrayRegression
        The model, which must still have its data.
    param : name or position
        The coefficient.
    df : int
        Degrees of freedom of the spline, default 4.
    level : float
        Confidence level of the band.
    log_time : bool
        Whether to use a log scale for time, and a spline in log time.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If there are too few event times for the spline, or times at or below 0 on a log scale.

    References
    ----------
    Grambsch and Therneau (1994), Biometrika 81:515–526.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 1))
    >>> y = steropes.Surv(rng.exponential(np.exp(-X[:, 0])), np.ones(100, int))
    >>> model = steropes.CoxRegression().fit(X, y)
    >>> ax = steropes.plots.schoenfeld_residuals(model, "x0")
    """
    residual = model.checks.residuals("scaled_schoenfeld", param)
    name, values = residual.columns[0], residual.iloc[:, 0].to_numpy()
    time = residual.index.get_level_values("time").to_numpy(float)
    if not (isinstance(df, int | np.integer) and df >= 2):
        raise DataError(f"df must be a whole number from 2, not {df!r}.")
    if len(np.unique(time)) <= df + 1:
        raise DataError(f"A smooth of {df} degrees of freedom needs more event times; lower df.")
    if log_time and (time <= 0).any():
        raise DataError("There are events at time 0 or before; leave log_time=False.")
    x = np.log(time) if log_time else time
    grid = np.linspace(x.min(), x.max(), 200)
    basis, fine = _natural_spline(x, x, df), _natural_spline(x, grid, df)
    Q, R = linalg.qr(basis, mode="economic")
    smooth = fine @ linalg.solve_triangular(R, Q.T @ values)
    leverage = linalg.solve_triangular(R, fine.T, trans="T")
    V = model.vcov("model").loc[name, name]
    width = stats.norm.ppf(0.5 + level / 2) * np.sqrt(V * len(values) * (leverage**2).sum(axis=0))
    ax = get_axes(ax, (7.0, 4.2))
    back = np.exp(grid) if log_time else grid
    ax.plot(time, values, "o", ms=3, color=MUTED, alpha=0.5, mew=0)
    ax.fill_between(back, smooth - width, smooth + width, color=curve_colour(0), alpha=0.15, lw=0)
    ax.plot(back, smooth, color=curve_colour(0), lw=1.8)
    coef = float(np.asarray(model.summary()["coef"].loc[name]))
    ax.axhline(coef, color=COLOURS[1], lw=1, ls=(0, (4, 3)))
    ax.axhline(0, color=FAINT, lw=1, zorder=0)
    if log_time:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    # Residuals so far out that they would flatten the curve are cut off.
    ends = np.percentile(values, [1, 99])
    room = ends[1] - ends[0]
    near = values[(values >= ends[0] - room) & (values <= ends[1] + room)]
    low = min(float(near.min()), float((smooth - width).min()), coef, 0.0)
    high = max(float(near.max()), float((smooth + width).max()), coef, 0.0)
    ax.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
    ax.set(xlabel="Time", ylabel=f"β(t) of {shorten_label(name)}")
    return remove_clutter(ax)


def _natural_spline(x: np.ndarray, at: np.ndarray, df: int) -> np.ndarray:
    """Compute a natural spline basis with intercept, (len(at), df + 1).

    Knots are at quantiles of x, and the functions are linear beyond its ends.

    References
    ----------
    Hastie, Tibshirani and Friedman (2009), The Elements of Statistical Learning, eq. 5.4–5.5.
    """
    low, high = x.min(), x.max()
    knots = np.quantile(np.unique(x), np.linspace(0, 1, df + 1))
    knots = (knots - low) / (high - low)
    z = (at - low) / (high - low)

    def d(k: int) -> np.ndarray:
        """Compute the truncated power function of a knot."""
        cubes = np.maximum(z - knots[k], 0) ** 3 - np.maximum(z - knots[-1], 0) ** 3
        return cubes / (knots[-1] - knots[k])

    bent = [d(k) - d(len(knots) - 2) for k in range(len(knots) - 2)]
    return np.column_stack([np.ones(len(z)), z, *bent])


def control_estimates(
    table: pd.DataFrame,
    *,
    mean: float | None = None,
    sd: float | None = None,
    true_ratio: float = 1.0,
    level: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """Draw the standard errors of control outcomes against their estimated ratios.

    An estimate below the dashed lines has an interval that excludes the true ratio. With the
    systematic error, the solid lines are the same after calibration.

    Parameters
    ----------
    table : DataFrame
        ``log_rr`` and ``se_log_rr`` of each control. Rows with missing values are left out.
    mean, sd : float, optional
        Mean and standard deviation of the systematic error on the log scale, such as those of
        `steropes.designs.controls.fit_systematic_error`.
    true_ratio : float
        The known ratio of the controls; 1, the default, for negative controls.
    level : float
        Confidence level of the intervals.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the table lacks columns or has no estimates.

    References
    ----------
    Schuemie and others (2014), Statistics in Medicine 33:209–218.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes import plots
    >>> controls = pd.DataFrame({"log_rr": [0.1, 0.3, -0.1], "se_log_rr": [0.2, 0.1, 0.15]})
    >>> plots.control_estimates(controls, mean=0.1, sd=0.1).get_ylabel()
    'Standard error'
    """
    require_columns(table, ("log_rr", "se_log_rr"), "control_estimates")
    known = table[["log_rr", "se_log_rr"]].astype(float)
    known = known[np.isfinite(known).all(axis=1)]
    if known.empty:
        raise DataError("No control has an estimate.")
    y, s = known["log_rr"].to_numpy(), known["se_log_rr"].to_numpy()
    truth, z = np.log(true_ratio), float(stats.norm.ppf(0.5 + level / 2))
    reach = max(float(np.log(4)), 1.1 * float(np.abs(y).max()))
    se = np.linspace(0, 1.1 * float(s.max()), 100)
    ax = get_axes(ax, (7.0, 4.2))
    ax.axvline(true_ratio, color=FAINT, lw=1, zorder=0)
    for side in (-z, z):
        ax.plot(np.exp(truth + side * se), se, color=MUTED, lw=1, ls=(0, (4, 3)))
        if mean is not None and sd is not None:
            after = truth + mean + side * np.hypot(se, sd)
            ax.plot(np.exp(after), se, color=curve_colour(1), lw=1.5)
    ax.plot(np.exp(y), s, "o", ms=5, color=curve_colour(0), mew=0)
    ax.set_xscale("log")
    ax.set(xlim=(np.exp(-reach), np.exp(reach)), ylim=(0, se[-1]))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set(xlabel="Estimated ratio (log scale)", ylabel="Standard error")
    return remove_clutter(ax)


def hypothesis_tests(
    table: pd.DataFrame | pd.Series, *, labels: Sequence[str] = (), ax: Axes | None = None
) -> Axes:
    """Draw χ² statistics less their degrees of freedom, one test per line, with the p-values.

    Under the hypothesis a statistic exceeds its degrees of freedom by zero on average.

    Parameters
    ----------
    table : DataFrame or Series
        ``chisq``, ``df`` and ``p``, such as ``model.inference.term_tests()``; a Series is one
        test. Rows without a statistic are left out.
    labels : sequence of str
        Columns whose values name the lines. Default: the index names them.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the table lacks columns or has no tests.

    References
    ----------
    Harrell (2015), Regression Modeling Strategies, 2nd ed., §5.1.2 (``plot(anova(…))``).

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
    >>> tests = steropes.LogisticRegression().fit(X, y).inference.model_tests()
    >>> [label.get_text() for label in steropes.plots.hypothesis_tests(tests).get_yticklabels()]
    ['likelihood ratio', 'score', 'wald']
    """
    tests = pd.DataFrame([table], [table.name or ""]) if isinstance(table, pd.Series) else table
    require_columns(tests, ("chisq", "df", "p", *labels), "hypothesis_tests")
    tests = tests[np.isfinite(tests["chisq"].to_numpy(float))]
    if tests.empty:
        raise DataError("The table has no test.")
    x = tests["chisq"].to_numpy(float) - tests["df"].to_numpy(float)
    y = np.arange(len(tests))
    ax = get_axes(ax, (6.6, 1.1 + 0.27 * len(tests)))
    ax.hlines(y, 0.0, x, color=FAINT, lw=2, zorder=1)
    ax.plot(x, y, "o", ms=6, color=curve_colour(0), mew=0)
    ax.axvline(0.0, color=MUTED, lw=0.9, ls=(0, (4, 3)), zorder=0)
    ax.set_yticks(y, [shorten_label(name) for name in line_names(tests, labels)])
    ax.set_ylim(len(tests) - 0.4, -0.6)
    for height, p in enumerate(tests["p"]):
        text = deciding_p(float(p))
        ax.annotate(
            f"p {text}" if text.startswith("<") else f"p = {text}", (1, height), fontsize=9,
            xycoords=("axes fraction", "data"), xytext=(6, 0), textcoords="offset points",
            va="center", color=MUTED, annotation_clip=False,
        )  # fmt: skip
    ax.set_xlabel("χ² minus its degrees of freedom")
    remove_clutter(ax).tick_params(axis="y", length=0, pad=7)
    return ax


def residuals(table: pd.DataFrame, *, axes: Any = None) -> np.ndarray:
    """Draw the residuals of each coefficient or class against time, or the position of the row.

    Parameters
    ----------
    table : DataFrame
        A column for each coefficient or class, at most 12, such as
        ``model.checks.residuals("schoenfeld")``. The level ``time`` of the index, if there is one,
        is the horizontal axis.
    axes : (k,) array of matplotlib Axes, optional
        Axes for the k columns. Default: those of a new figure.

    Returns
    -------
    (k,) array of matplotlib Axes
        The axes with the plots.

    Raises
    ------
    DataError
        If the table has no columns or more than 12.

    See Also
    --------
    schoenfeld_residuals : Draw those of one coefficient with a smooth curve of the effect.

    Examples
    --------
    >>> import steropes
    >>> y = steropes.Surv([5, 3, 4, 2, 6], [1, 1, 0, 1, 0])
    >>> model = steropes.CoxRegression().fit([[0.0], [1.0], [0.0], [0.0], [1.0]], y)
    >>> steropes.plots.residuals(model.checks.residuals("schoenfeld"))[0].get_ylabel()
    'x0'
    """
    if not isinstance(table, pd.DataFrame) or not 0 < table.shape[1] <= MOST_PANELS:
        raise DataError(
            f"residuals draws a table of 1 to {MOST_PANELS} columns; select some, such as "
            "table.iloc[:, :4]."
        )
    timed = "time" in table.index.names
    x = table.index.get_level_values("time").to_numpy(float) if timed else np.arange(len(table))
    if axes is None:
        axes = new_figure((7.0, 1.0 + 1.8 * table.shape[1]), (table.shape[1], 1))
    axes = np.asarray(axes, object).reshape(-1)
    if len(axes) != table.shape[1]:
        raise DataError(f"axes has {len(axes)} axes, but there are {table.shape[1]} columns.")
    for ax, (name, values) in zip(axes, table.items(), strict=True):
        ax.plot(x, values, "o", ms=3, color=curve_colour(0), alpha=0.5, mew=0)
        ax.axhline(0, color=MUTED, lw=0.9, ls=(0, (4, 3)), zorder=0)
        ax.set_ylabel(shorten_label(name, 24))
        remove_clutter(ax)
    axes[-1].set_xlabel("Time" if timed else "Row")
    return axes
