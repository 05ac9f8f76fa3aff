"""Plots of scans of hierarchies of outcomes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..errors import DataError
from .plot_style import (
    COLOURS,
    FAINT,
    MUTED,
    get_axes,
    line_names,
    remove_clutter,
    require_columns,
    shorten_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["tree_scan"]


def tree_scan(
    table: pd.DataFrame, *, bound: float | None = None, most: int = 20, ax: Axes | None = None
) -> Axes:
    """Draw the cuts of a tree scan with the largest log-likelihood ratios.

    Parameters
    ----------
    table : DataFrame
        The table of `steropes.designs.surveillance.TreeScan`, the largest statistic first.
    bound : float, optional
        Statistic above which a cut is a signal; signals are coloured.
    most : int, default 20
        Number of cuts.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the table lacks columns or rows, or ``most`` is not positive.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes import plots
    >>> table = pd.DataFrame({"node": ["skin", "rash"], "cases": [17, 9], "expected": [7.0, 3.0],
    ...                       "statistic": [5.1, 3.9]})
    >>> plots.tree_scan(table, bound=4).get_xlabel()
    'Log-likelihood ratio'
    """
    require_columns(table, ("node", "cases", "expected", "statistic"), "A plot of a tree scan")
    if not len(table) or most < 1:
        raise DataError("There is no cut to draw: the table has no rows, or most is below 1.")
    shown = table.iloc[:most]
    axes = get_axes(ax, (7.2, 1.0 + 0.28 * len(shown)))
    statistic = shown["statistic"].to_numpy(dtype=float)
    place = np.arange(len(shown))[::-1]
    signal = np.zeros(len(shown), bool) if bound is None else statistic > bound
    axes.barh(place, statistic, color=np.where(signal, COLOURS[1], FAINT), height=0.7)
    if bound is not None:
        axes.axvline(bound, color=MUTED, linestyle="--", linewidth=1)
    names = line_names(shown, ["name" if "name" in shown else "node"])
    axes.set_yticks(place, [shorten_label(name) for name in names])
    for y, x, cases, expected in zip(
        place, statistic, shown["cases"], shown["expected"], strict=True
    ):
        axes.annotate(f" {cases:,} / {expected:,.1f}", (x, y), va="center", color=MUTED, size=8)
    axes.margins(x=0.15)
    axes.set_xlim(left=0)
    axes.set_xlabel("Log-likelihood ratio")
    axes.set_title("Cases / expected", loc="right", size=9, color=MUTED)
    return remove_clutter(axes)
