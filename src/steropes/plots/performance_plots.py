"""Plots of performance: calibration, decision curves, and measures of models and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..errors import DataError
from .plot_style import (
    FAINT,
    MUTED,
    curve_colour,
    get_axes,
    new_figure,
    remove_clutter,
    require_columns,
    shorten_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["calibration", "decision_curve", "performance"]


def calibration(table: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw observed against predicted risks, of groups with similar risk or as a curve.

    Parameters
    ----------
    table : DataFrame
        The result of `steropes.calibration_table`: ``predicted``, ``observed``, ``lower``,
        ``upper`` and ``people``, to which the areas of the dots are proportional. Or that of
        ``model.validation.calibration_curve``: ``predicted``, ``apparent`` and ``corrected``.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the table lacks columns.

    Examples
    --------
    >>> import steropes
    >>> table = steropes.calibration_table([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1], bins=2)
    >>> ax = steropes.plots.calibration(table)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('Predicted risk', 'Observed risk')
    """
    if isinstance(table, pd.DataFrame) and {"apparent", "corrected"} <= set(table.columns):
        return _calibration_curve(table, get_axes(ax, (5.0, 5.0)))
    require_columns(table, ("people", "predicted", "observed", "lower", "upper"), "calibration")
    ax = get_axes(ax, (5.0, 5.0))
    x, y = table["predicted"].to_numpy(float), table["observed"].to_numpy(float)
    low, high = table["lower"].to_numpy(float), table["upper"].to_numpy(float)
    end = 1.05 * max(float(x.max()), float(high.max()), 1e-6)
    end = min(end, 1.02)
    ax.plot([0, end], [0, end], color=MUTED, lw=0.9, ls=(0, (4, 3)), zorder=0, label="as predicted")
    ax.legend(loc="upper left", frameon=False, fontsize=9)
    ax.vlines(x, low, high, color=curve_colour(0), lw=1.3)
    size = table["people"].to_numpy(float)
    ax.scatter(x, y, s=60 * size / size.max(), color=curve_colour(0), zorder=3, lw=0)
    ax.set(xlim=(0, end), ylim=(0, end), xlabel="Predicted risk", ylabel="Observed risk")
    ax.set_aspect("equal")
    return remove_clutter(ax)


def _calibration_curve(table: pd.DataFrame, ax: Axes) -> Axes:
    """Draw the apparent curve and that corrected for optimism."""
    require_columns(table, ("predicted",), "calibration")
    x, apparent, corrected = (
        table[name].to_numpy(float) for name in ("predicted", "apparent", "corrected")
    )
    ends = [float(x.min()), float(x.max())]
    dashed = (0, (4, 3))
    ax.plot(ends, ends, color=MUTED, lw=0.9, ls=dashed, zorder=0, label="as predicted")
    ax.plot(x, apparent, color=FAINT, lw=2.5, label="apparent")
    ax.plot(x, corrected, color=curve_colour(0), lw=1.8, label="corrected for optimism")
    ax.legend(loc="upper left", frameon=False, fontsize=9)
    ax.set(xlabel="Predicted", ylabel="Observed")
    return remove_clutter(ax)


def decision_curve(table: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Draw the net benefit of decisions by predicted risks against the threshold.

    Parameters
    ----------
    table : DataFrame
        The result of `steropes.decision_curve`: ``net_benefit`` and ``treat_all``, indexed by
        threshold.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot, which cuts off net benefits far below zero.

    Raises
    ------
    DataError
        If the table lacks columns.

    References
    ----------
    Vickers and Elkin (2006), Medical Decision Making 26:565–574.

    Examples
    --------
    >>> import steropes
    >>> table = steropes.decision_curve([0.1, 0.2, 0.8, 0.9], [0, 0, 1, 1])
    >>> steropes.plots.decision_curve(table).get_ylabel()
    'Net benefit'
    """
    require_columns(table, ("net_benefit", "treat_all"), "decision_curve")
    ax = get_axes(ax, (6.0, 4.2))
    x = table.index.to_numpy(float)
    ax.axhline(0, color=MUTED, lw=1, label="treat no one")
    ax.plot(x, table["treat_all"], color=MUTED, lw=1, ls=(0, (4, 3)), label="treat everyone")
    ax.plot(x, table["net_benefit"], color=curve_colour(0), lw=1.8, label="treat by risk")
    top = max(float(table["net_benefit"].max()), float(table["treat_all"].max()), 1e-6)
    ax.set(ylim=(-0.25 * top, 1.1 * top), xlabel="Threshold", ylabel="Net benefit")
    ax.legend(frameon=False, fontsize=9)
    return remove_clutter(ax)


def performance(table: pd.DataFrame, *, axes: Any = None) -> np.ndarray:
    """Draw measures of performance, each in a panel with a scale of its own.

    Parameters
    ----------
    table : DataFrame
        The result of ``model.validation.validate()``: circles show the apparent performance, dots
        that corrected for optimism. Or the result of `steropes.validate_by_group`, with a line for
        each group.
    axes : (k,) array of matplotlib Axes, optional
        Axes for the k measures. Default: those of a new figure.

    Returns
    -------
    (k,) array of matplotlib Axes
        The axes with the plots.

    Raises
    ------
    DataError
        If the table has no measures, or ``axes`` has another length.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [0.1, 0.8, 2.3, 2.9, 4.2, 4.7]
    >>> model = steropes.LinearRegression().fit(X, y)
    >>> axes = steropes.plots.performance(model.validation.validate(20, random_state=0))
    >>> [ax.get_xlabel() for ax in axes]
    ['r2', 'mse', 'intercept', 'slope']
    """
    whole = isinstance(table, pd.DataFrame) and {"apparent", "corrected"} <= set(table.columns)
    names = list(table.index) if whole else [c for c in table.columns if c != "n"]
    if not names or len(table) == 0:
        raise DataError("The table has no measures of performance.")
    lines = [""] if whole else [shorten_label(group, 24) for group in table.index]
    y = np.arange(len(lines))
    if axes is None:
        axes = new_figure((6.6, len(names) * (0.75 + 0.24 * len(lines))), (len(names), 1))
    axes = np.asarray(axes, object).reshape(-1)
    if len(axes) != len(names):
        raise DataError(f"axes has {len(axes)} axes, but there are {len(names)} measures.")
    for ax, name in zip(axes, names, strict=True):
        if whole:
            apparent, corrected = (table.loc[[name], c] for c in ("apparent", "corrected"))
            ax.hlines(y, apparent, corrected, color=FAINT, lw=2, zorder=1)
            ax.plot(apparent, y, "o", ms=6, mfc="white", mec=MUTED, mew=1.4, label="apparent")
            ax.plot(corrected, y, "o", ms=6, color=curve_colour(0), label="corrected for optimism")
        else:
            ax.plot(table[name], y, "o", ms=6, color=curve_colour(0))
        ax.margins(x=0.2)
        ax.set_yticks(y, lines)
        ax.set_ylim(len(lines) - 0.4, -0.6)
        ax.set_xlabel(str(name))
        ax.grid(axis="x", color=FAINT, lw=0.6)
        ax.set_axisbelow(True)
        remove_clutter(ax).tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
    if whole:
        axes[0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, borderpad=0)
    return axes
