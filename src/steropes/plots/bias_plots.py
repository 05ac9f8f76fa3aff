"""Histogram of the draws of a bias analysis, with and without random error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ..errors import DataError
from .plot_style import INK, curve_colour, get_axes, remove_clutter, require_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bias_draws"]

# Share of the draws in each tail that the axis leaves out.
TAIL = 0.005


def bias_draws(
    draws: pd.DataFrame, *, observed: float | None = None, bins: int = 60, ax: Axes | None = None
) -> Axes:
    """Draw the distribution of a ratio without bias, with and without random error.

    Parameters
    ----------
    draws : DataFrame
        ``log_ratio`` and ``log_ratio_with_error``, such as the draws of
        `steropes.designs.bias_analysis.BiasAnalysis`.
    observed : float, optional
        The observed log ratio, which is a dashed line.
    bins : int, default 60
        Number of bars. The outermost half percent of the draws at each end is left out.
    ax : matplotlib Axes, optional
        Axes to draw on. Default: those of a new figure.

    Returns
    -------
    matplotlib Axes
        The axes with the plot.

    Raises
    ------
    DataError
        If the table lacks columns, or has one draw only.

    Examples
    --------
    >>> from steropes.designs.bias_analysis import UnmeasuredConfounder, bias_analysis, trapezoid
    >>> missing = UnmeasuredConfounder(0.5, 0.2, trapezoid(1, 1.5, 2, 3))
    >>> ax = bias_analysis((1.5, 1.2, 1.9), missing, draws=500).plot()
    >>> ax.get_xlabel()
    'Ratio (log scale)'
    """
    columns = {"log_ratio": "Systematic error", "log_ratio_with_error": "and random error"}
    require_columns(draws, tuple(columns), "bias_draws")
    values = draws[list(columns)].to_numpy(float)
    if len(values) < 2:
        raise DataError("There is one draw only, because all parameters of the biases are numbers.")
    low, high = map(float, np.quantile(values, [TAIL, 1 - TAIL]))
    ax = get_axes(ax, (7.0, 3.6))
    edges = np.exp(np.linspace(low, high, bins + 1)).tolist()
    for i, label in enumerate(columns.values()):
        shown = np.exp(values[:, i])
        ax.hist(shown, edges, color=curve_colour(i), alpha=0.45, label=label)
    if observed is not None:
        ax.axvline(float(np.exp(observed)), color=INK, lw=1.0, ls=(0, (4, 3)), label="Observed")
    ax.set_xscale("log")
    ax.set(xlabel="Ratio (log scale)", ylabel="Draws")
    ax.legend(frameon=False)
    return remove_clutter(ax)
