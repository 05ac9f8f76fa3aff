"""Plots of intervals: a profile likelihood, and a forest plot of many estimates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.interpolate import CubicHermiteSpline
from scipy.stats import chi2

from ..data import check_level
from ..errors import DataError, listed
from ..infer.profile_search import is_flat_at_end
from .plot_style import (
    FAINT,
    INK,
    MUTED,
    curve_colour,
    get_axes,
    line_names,
    remove_clutter,
    require_columns,
    shorten_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["forest", "profile_curve", "ratio_forest"]

# Lines of a forest plot that can still be read, on a figure of about 1.4 m.
MOST_LINES = 200


def profile_curve(
    profile: pd.DataFrame,
    *,
    level: float = 0.95,
    name: str | None = None,
    param: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a profile log-likelihood relative to its maximum, with its interval.

    Parameters
    ----------
    profile : DataFrame
        The result of ``model.inference.profile(param)``: ``point``, ``log_likelihood`` and
        ``gradient``, and ``param`` with several coefficients. The curve is the cubic Hermite
        interpolant.
    level : float
        Confidence level of the interval, with ends at which the profile is half the
        chi-squared quantile below its maximum. The title reports an end outside the points as
        beyond the last point, and as infinite only if the profile is flat there.
    name : str, optional
        The label of the axis; default the coefficient's name, or "Coefficient" if the table has
        none.
    param : str, optional
        The coefficient to draw; required if the table has several.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the profile has several coefficients and ``param`` is none of them, or fewer than two
        finite points.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
    >>> profile = steropes.LogisticRegression().fit(X, y).inference.profile("x0")
    >>> ax = steropes.plots.profile_curve(profile, name="log odds ratio")
    >>> ax.get_xlabel()
    'log odds ratio'
    """
    require_columns(profile, ("point", "log_likelihood", "gradient"), "profile_curve")
    if "param" in profile:
        profile, name = _one_profile(profile, param, name)
    check_level(level)
    table = profile.sort_values("point").drop_duplicates("point")
    table = table[np.isfinite(table["log_likelihood"])]
    if len(table) < 2:
        raise DataError("A curve needs the profile at two points at least.")
    x, y, g = (table[k].to_numpy(float) for k in ("point", "log_likelihood", "gradient"))
    curve = CubicHermiteSpline(x, y, g)
    fine = np.unique(np.concatenate([np.linspace(x[0], x[-1], 800), x]))
    inside = np.asarray(curve(fine))
    at = int(inside.argmax())
    top, cut = float(inside[at]), 0.5 * float(chi2.ppf(level, 1))
    ax = get_axes(ax, (6.4, 4.0))
    fallen = inside - top
    ax.plot(fine, fallen, color=curve_colour(0), lw=1.8)
    ax.plot(x, y - top, "o", ms=3, color=curve_colour(0), alpha=0.7)
    ax.axhline(-cut, color=MUTED, lw=0.9, ls=(0, (4, 3)))
    lower = _crossing(curve, x[0], fine[at], top - cut)
    upper = _crossing(curve, x[-1], fine[at], top - cut)
    flat = [is_flat_at_end(curve, x[k], x[-1 - k], g[k]) for k in (0, -1)]
    ends = (x[0] if lower is None else lower, x[-1] if upper is None else upper)
    within = (fine >= ends[0]) & (fine <= ends[1])
    ax.fill_between(fine[within], fallen[within], -cut, color=curve_colour(0), alpha=0.14, lw=0)
    for end in (lower, upper):
        if end is not None:
            ax.vlines(end, -cut, 0, color=MUTED, lw=0.7)
            ax.annotate(
                _number(end), (end, 0), xytext=(0, 2), textcoords="offset points", ha="center",
                va="bottom", fontsize=9, color=MUTED,
            )  # fmt: skip
    said = " to ".join(
        _number(end) if end is not None else without if level_side
        else f"beyond {_number(last)} (perhaps {without})"
        for end, without, level_side, last in
        ((lower, "−∞", flat[0], x[0]), (upper, "∞", flat[1], x[-1]))
    )  # fmt: skip
    if at in (0, len(fine) - 1) and not flat[0 if at == 0 else 1]:
        said = f"not known, as the profile rises to its last point, {_number(fine[at])}"
    shown = f"{100 * level:g} % interval: {said}"
    floor = max(float(fallen.min()), -4.0 * cut)
    of = shorten_label(name or "Coefficient", 70)
    ax.set(xlabel=of, ylabel="Profile log-likelihood, less its maximum")
    ax.set_title(shown, fontsize=10, color=INK, pad=16)
    ax.set_ylim(floor - 0.04 * abs(floor), 0.03 * abs(floor))
    ax.set_xlim(*_window(fine, fallen, floor, (lower is None, upper is None)))
    ax.locator_params(axis="x", nbins=6)
    return remove_clutter(ax)


def _one_profile(
    profile: pd.DataFrame, param: str | None, name: str | None
) -> tuple[pd.DataFrame, str]:
    """Select the profile of one coefficient; return it and the label of the axis."""
    known = list(dict.fromkeys(profile["param"]))
    if param is None and len(known) == 1:
        param = known[0]
    if param not in known:
        raise DataError(
            f"The profile is of {len(known)} coefficients; choose one as param: {listed(known)}."
        )
    return profile[profile["param"] == param], name or str(param)


def _window(
    x: np.ndarray, fallen: np.ndarray, floor: float, flat: tuple[bool, bool]
) -> tuple[float, float]:
    """Choose the limits of the axis; a flat side is cut off after its beginning."""
    shown = x[fallen >= floor]
    low, high = float(shown[0]), float(shown[-1])
    moves = [np.abs(fallen - fallen[end]) > 0.02 for end in (0, -1)]
    if flat[0] and moves[0].any():
        first = float(x[moves[0].argmax()])
        low = max(low, first - 0.4 * (high - first))
    if flat[1] and moves[1].any():
        last = float(x[len(x) - 1 - moves[1][::-1].argmax()])
        high = min(high, last + 0.4 * (last - low))
    pad = 0.03 * (high - low)
    return low - pad, high + pad


def _number(x: float) -> str:
    """Format a number with three digits and a minus sign."""
    return f"{x:.3g}".replace("-", "−")


def _crossing(curve: Any, end: float, middle: float, height: float) -> float | None:
    """Find the crossing of a height between the maximum and one end; None if there is none."""
    from scipy.optimize import brentq

    if curve(end) > height:
        return None
    return float(brentq(lambda t: float(curve(t)) - height, min(end, middle), max(end, middle)))


def forest(
    table: pd.DataFrame,
    *,
    shade: object = None,
    exponentiate: bool = False,
    columns: tuple[str, str, str] = ("coef", "lower", "upper"),
    labels: Sequence[str] = (),
    without: Sequence[str] = (),
    label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw estimates with their intervals, one per line, optionally shaded.

    With a bootstrap's ``.nonzero`` as the shade this is Figure 3 of Suchard and others (2013),
    in which dark lines are coefficients that are rarely zero.

    Parameters
    ----------
    table : DataFrame
        A row for each line, at most 200: ``summary()``, or ``coef_`` joined with
        ``bootstrap().confint()``. A table without the column of estimates, such as ``confint()``,
        has intervals alone.
    shade : (k,) array or Series, optional
        Numbers between 0 (pale) and 1 (dark), such as the share of draws in which a coefficient
        is not zero; a Series is matched by its index.
    exponentiate : bool
        Whether to draw exp(coef), a ratio, on a log scale.
    columns : (str, str, str)
        Columns of the estimate, its lower and its upper limit.
    labels : sequence of str
        Columns whose values name the lines. Default: the index names them.
    without : sequence of str
        Labels of lines that are left out if there are others, such as the intercept.
    label : str, optional
        The label of the axis. Default "Coefficient" or "exp(coefficient), log scale".
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the table has no rows, more than 200 or lacks columns, or ``shade`` is not between 0
        and 1.

    References
    ----------
    Suchard, Simpson, Zorych, Ryan and Madigan (2013), ACM TOMACS 23:10.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
    >>> table = steropes.LogisticRegression().fit(X, y).summary()
    >>> ax = steropes.plots.forest(table.drop("intercept"), exponentiate=True)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x0']
    """
    require_columns(table, (*columns[1:], *labels), "forest")
    share = _shares(table, shade)
    names = table[labels[-1]] if len(labels) else table.index
    kept = ~names.isin(list(without)).to_numpy() if len(labels) else ~names.isin(list(without))
    if kept.any():
        table, share = table[kept], share if share is None else share[kept]
    if len(table) == 0:
        raise DataError("The table has no rows to draw.")
    if len(table) > MOST_LINES:
        raise DataError(
            f"The table has {len(table):,} rows, and a forest plot at most {MOST_LINES}; select "
            "rows, such as table.head(20)."
        )
    ax = get_axes(ax, (6.6, 1.1 + 0.27 * len(table)))
    lower, upper = (table[k].to_numpy(float) for k in columns[1:])
    coef = table[columns[0]].to_numpy(float) if columns[0] in table else np.full_like(lower, np.nan)
    y = np.arange(len(table))[::-1]
    finite = np.concatenate([v[np.isfinite(v)] for v in (coef, lower, upper)])
    low, high = float(finite.min(initial=0.0)), float(finite.max(initial=0.0))
    pad = 0.06 * (high - low or 1.0)
    low, high = low - pad, high + pad

    def place(v: Any) -> Any:
        return np.exp(v) if exponentiate else v

    from matplotlib import colormaps

    colours = [INK] * len(table) if share is None else colormaps["Greys"](0.2 + 0.8 * share)
    for i, colour in enumerate(colours):
        _draw_interval(ax, y[i], (coef[i], lower[i], upper[i]), (low, high), place, colour)
    ax.axvline(1.0 if exponentiate else 0.0, color=MUTED, lw=0.9, ls=(0, (4, 3)), zorder=0)
    if exponentiate:
        _ratio_axis(ax, high - low)
    ax.set_xlim(place(low), place(high))
    ax.set_ylim(-0.7, len(table) - 0.3)
    ax.set_yticks(y, [shorten_label(name) for name in line_names(table, labels)])
    default = "exp(coefficient), log scale" if exponentiate else "Coefficient"
    ax.set_xlabel(default if label is None else label)
    ax.grid(axis="x", color=FAINT, lw=0.6, zorder=0)
    ax.set_axisbelow(True)
    if share is not None:
        _shade_bar(ax)
    remove_clutter(ax)
    ax.tick_params(axis="y", length=0, pad=7)
    ax.spines["left"].set_visible(False)
    return ax


def _draw_interval(
    ax: Axes,
    y: float,
    line: tuple[float, float, float],
    ends: tuple[float, float],
    place: Callable[[Any], Any],
    colour: Any,
) -> None:
    """Draw an estimate with its limits; arrows at the ends of the axis mark infinite limits."""
    estimate, lower, upper = line
    shown = np.clip([lower, upper], *ends)
    if np.isfinite(shown).all():
        ax.plot(place(shown), [y, y], color=colour, lw=2.2, solid_capstyle="butt")
        for limit, end, mark in ((lower, ends[0], "<"), (upper, ends[1], ">")):
            if np.isinf(limit):
                ax.plot([place(end)], [y], mark, color=colour, ms=6, clip_on=False)
    if np.isfinite(estimate):  # one without a finite estimate has its interval alone
        ax.plot([place(estimate)], [y], "o", ms=6, mfc=colour, mec=MUTED, mew=0.6, zorder=3)


def ratio_forest(
    table: pd.DataFrame,
    *,
    columns: tuple[str, str, str] = ("rr", "ci_95_lb", "ci_95_ub"),
    labels: Sequence[str] = (),
    ratio: str = "Ratio",
    ax: Axes | None = None,
) -> Axes:
    """Draw ratios with their limits on a log scale, one per line, such as those of a study.

    Parameters
    ----------
    table : DataFrame
        A row for each line. A missing ratio leaves its line empty; a limit of zero or infinity
        becomes an arrow.
    columns : (str, str, str)
        Columns of the ratio, its lower and its upper limit. The default are those of
        ``GridResults.estimates()``; a study of one question has ``("hr", "lower", "upper")``.
    labels : sequence of str
        Columns whose values name the lines. Default: the index names them.
    ratio : str
        The label of the axis, such as "Hazard ratio".
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the table has no rows, lacks columns or has negative numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes import plots
    >>> estimates = pd.DataFrame(
    ...     {"hr": [1.35, 1.00], "lower": [1.11, 0.77], "upper": [1.67, 1.30]},
    ...     index=["crude", "matched"],
    ... )
    >>> columns = ("hr", "lower", "upper")
    >>> ax = plots.ratio_forest(estimates, columns=columns, ratio="Hazard ratio")
    >>> ax.get_xlabel()
    'Hazard ratio (log scale)'
    """
    require_columns(table, columns, "ratio_forest")
    values = table[list(columns)].astype(float)
    if (values < 0).any(axis=None):
        raise DataError("Ratios and their limits cannot be negative.")
    with np.errstate(divide="ignore"):
        logs = np.log(values).set_axis(["coef", "lower", "upper"], axis=1)
    logs.index = pd.Index(line_names(table, labels))
    return forest(logs, exponentiate=True, label=f"{ratio} (log scale)", ax=ax)


def _shares(table: pd.DataFrame, shade: object) -> np.ndarray | None:
    """Validate the shades of the rows."""
    if shade is None:
        return None
    values = shade.reindex(table.index) if isinstance(shade, pd.Series) else shade
    share = np.asarray(values, float)
    if share.shape != (len(table),) or not ((share >= 0) & (share <= 1)).all():
        raise DataError("shade must be one number between 0 and 1 for each row of the table.")
    return share


def _ratio_axis(ax: Axes, width: float) -> None:
    """Set a log scale with ticks at round ratios, fewer on a wide axis."""
    from matplotlib.ticker import LogLocator, NullLocator

    subs = (1.0, 2.0, 5.0) if width > 2.5 else (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(10, subs=subs, numticks=40))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _shade_bar(ax: Axes) -> None:
    """Add a colour bar that explains the shades."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize

    greys = colormaps["Greys"](np.linspace(0.2, 1.0, 64))
    mapped = ScalarMappable(Normalize(0, 1), LinearSegmentedColormap.from_list("shade", greys))
    # The bar at the top has the same size for any number of lines.
    figure = ax.get_figure(root=True)
    height = 4.0 if figure is None else figure.get_figheight()
    bar = ax.figure.colorbar(
        mapped,
        ax=ax,
        location="top",
        fraction=min(0.12 / height, 0.1),
        pad=0.1 / height,
        shrink=0.6,
        aspect=30,
    )
    bar.set_label("Share of draws that are not zero", fontsize=9)
    bar.outline.set_visible(False)
