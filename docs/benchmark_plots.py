"""Plots of the tables in benchmarks/RESULTS.md, drawn for light and dark pages at each build."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from steropes.plots.plot_style import COLOURS

HERE = Path(__file__).parent
FOLDER = HERE / "images" / "benchmarks"
INKS = {"light": "#1b1f24", "dark": "#ced6dd"}


def read_table(heading: str, number: int = 0) -> list[list[str]]:
    """Return the rows of a table under a heading; empty cells repeat the cell above."""
    text = (HERE.parent / "benchmarks" / "RESULTS.md").read_text("utf-8")
    section = re.split(r"^## ", text.partition(f"## {heading}\n")[2], flags=re.M)[0]
    lines = re.findall(r"(?:^\|.*\n)+", section, re.M)[number].splitlines()[2:]
    rows = [[cell.strip(" `") for cell in line.strip("| ").split("|")] for line in lines]
    for above, row in zip(rows, rows[1:], strict=False):
        row[:] = [cell or former for cell, former in zip(row, above, strict=True)]
    return rows


def speed(ax: Any, ink: str) -> None:
    """Draw how many times faster than adelie the fits are."""
    rows = read_table("Claims-like data against adelie")[::-1]
    ratios = [float(row[-1]) for row in rows]
    bars = ax.barh([f"{row[2]}\n{row[1]}" for row in rows], ratios, color=COLOURS[5], height=0.6)
    ax.bar_label(bars, fmt="%.1f", padding=3, color=ink)
    ax.axvline(1, color=ink, lw=1, ls=":")
    ax.set_xlabel("times faster than adelie, same lasso and objective")


def growth(ax: Any, ink: str) -> None:
    """Draw the cost of a fit against the number of active columns."""
    rows = read_table("Growth with the number of active columns")
    active, passes = ([float(row[k].replace(",", "")) for row in rows] for k in (1, 3))
    ax.loglog(active, passes, "o-", color=COLOURS[5], label="one fit")
    ax.loglog(active, [passes[0] * k / active[0] for k in active], ":", color=ink, label="linear")
    ax.set(xlabel="nonzero coefficients", ylabel="products with X, in passes")
    ax.legend(frameon=False, labelcolor=ink)


def write_plots(app: Any) -> None:
    """Draw all plots with the ink of each theme on a transparent ground."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for draw in (speed, growth):
        for theme, ink in INKS.items():
            figure = Figure(figsize=(6.4, 4), layout="constrained")
            ax = figure.subplots()
            draw(ax, ink)
            ax.spines[["top", "right"]].set_visible(False)
            ax.spines[["left", "bottom"]].set_color(ink)
            ax.tick_params(which="both", colors=ink, labelcolor=ink)
            ax.xaxis.label.set_color(ink)
            ax.yaxis.label.set_color(ink)
            path = FOLDER / f"{draw.__name__}-{theme}.svg"
            figure.savefig(path, transparent=True, metadata={"Date": None})
