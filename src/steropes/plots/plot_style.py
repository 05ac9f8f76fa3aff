"""Axes, colours and labels that all plots share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..errors import DataError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "COLOURS",
    "FAINT",
    "INK",
    "MUTED",
    "curve_colour",
    "get_axes",
    "line_names",
    "new_figure",
    "remove_clutter",
    "require_columns",
    "shorten_label",
]  # fmt: skip

# The palette of Okabe and Ito, which colour-blind readers can distinguish. The first colours also
# differ in greyscale.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Colours of text and main lines, of secondary lines and labels, and of grids.
INK, MUTED, FAINT = "#1b1f24", "#5b6470", "#d9dde2"


def get_axes(ax: Any, size: tuple[float, float]) -> Axes:
    """Return the given axes, or those of a new figure of ``size`` inches."""
    return new_figure(size) if ax is None else ax


def new_figure(size: tuple[float, float], grid: tuple[int, int] = (1, 1)) -> Any:
    """Return the axes of a new figure of ``size`` inches, an array if they form a grid."""
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as error:
        raise ImportError(
            'Pictures need Matplotlib: pip install "steropes[plots]"', name="matplotlib"
        ) from error
    return pyplot.subplots(*grid, figsize=size, layout="constrained")[1]


def remove_clutter(ax: Axes) -> Axes:
    """Remove the top and right spines, and draw the others and short ticks in a muted colour."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(MUTED)
    ax.tick_params(length=3, color=MUTED)
    return ax


def curve_colour(i: int) -> str:
    """Return the colour of the i-th curve."""
    return COLOURS[i % len(COLOURS)]


def shorten_label(label: object, most: int = 44) -> str:
    """Shorten a long label in the middle; its end is kept longer because names differ there.

    Parameters
    ----------
    label : object
        Converted to text.
    most : int
        Maximum number of characters, default 44.
    """
    text = " ".join(str(label).split())
    if len(text) > most:
        begin = (most - 1) // 3
        text = f"{text[:begin].rstrip()}…{text[begin + 1 - most :].lstrip()}"
    # Matplotlib reads what is between two dollars as a formula.
    return text.replace("$", r"\$")


def line_names(table: pd.DataFrame, labels: Sequence[str] = ()) -> list[str]:
    """Return the names of the rows of a table: the values of ``labels``, or of the index."""
    rows = table[list(labels)].itertuples(index=False) if len(labels) else table.index
    return [" ".join(map(str, row)) if isinstance(row, tuple) else str(row) for row in rows]


def require_columns(table: object, columns: tuple[str, ...], what: str) -> None:
    """Refuse a table that lacks some columns."""
    missing = [name for name in columns if name not in getattr(table, "columns", ())]
    if missing:
        raise DataError(f"{what} needs a table with the columns {columns}; it lacks {missing}.")
