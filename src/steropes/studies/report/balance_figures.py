"""Pictures of covariate balance: all covariates, and the most unequal ones by name."""

from __future__ import annotations

import numpy as np
import pandas as pd

from steropes.plots.comparison_plots import most_unequal
from steropes.studies.formatting.released_numbers import decimals
from steropes.studies.report.svg_canvas import Axes, Canvas, Picture, ticks

__all__ = ["balance_scatter", "love_plot"]


def balance_scatter(name: str, table: pd.DataFrame, threshold: float) -> Picture | None:
    """Draw absolute standardised differences after adjustment against those before.

    Parameters
    ----------
    name : str
        The name of the file.
    table : DataFrame
        ``std_diff_before`` and ``std_diff_after``.
    threshold : float
        Larger differences count as imbalance.
    """
    before = table["std_diff_before"].abs().to_numpy(float)
    after = table["std_diff_after"].abs().to_numpy(float)
    good = np.isfinite(before) & np.isfinite(after)
    if not good.any():
        return None
    before, after = before[good], after[good]
    most = max(float(before.max()), float(after.max()), threshold) * 1.05
    over = [int((v > threshold).sum()) for v in (before, after)]
    said = (
        f"Absolute standardised differences of {len(after):,} covariates after adjustment against "
        f"before. Before, {over[0]:,} are above {threshold:g} and the largest is "
        f"{decimals(float(before.max()))}; after it {over[1]:,}, and "
        f"{decimals(float(after.max()))}."
    )

    def draw(c: Canvas) -> None:
        """Draw a dot for each covariate, with its difference before and after adjustment."""
        side = min(c.width - 72, 420)
        axes = Axes(c, (0, most), (0, most), 8, 8 + side, 58, 58 + side)
        c.curve(axes.at((0, most), (0, most)), "curve dashed")
        c.line(axes.x(0), axes.y(threshold), axes.x(most), axes.y(threshold), "guide")
        c.line(axes.x(threshold), axes.y(0), axes.x(threshold), axes.y(most), "guide")
        c.dots([axes.x(v) for v in before], [axes.y(v) for v in after], "dots")
        axes.across("standardised difference before")
        axes.up("standardised difference after")

    return Picture(name, said, draw)


def love_plot(name: str, table: pd.DataFrame, threshold: float, most: int = 20) -> Picture | None:
    """Draw the most unequal covariates with their differences before and after adjustment.

    Parameters
    ----------
    table : DataFrame
        ``covariate_name``, ``std_diff_before``, ``std_diff_after`` (with their signs).
    most : int, default 20
        Number of covariates: half are the most unequal after adjustment, the others before.
    """
    known = table[np.isfinite(table["std_diff_before"]) & np.isfinite(table["std_diff_after"])]
    if known.empty:
        return None
    differences = known[["std_diff_before", "std_diff_after"]].astype(float)
    differences.columns = ["before", "after"]
    chosen = most_unequal(differences, most)
    names = known["covariate_name"].loc[chosen.index].astype(str)
    rows = list(zip(names, chosen["before"], chosen["after"], strict=True))
    reach = max(threshold, *(abs(v) for _, a, b in rows for v in (a, b))) * 1.08
    said = "Standardised differences before and after adjustment. " + "; ".join(
        f"{label}: {decimals(a)}, then {decimals(b)}" for label, a, b in rows
    )

    def draw(c: Canvas) -> None:
        """Draw the differences of named covariates, one per line."""
        left = 12.0 if c.narrow else 0.46 * c.width
        axes = Axes(c, (-reach, reach), (0, 1), 0, 0, left, c.width - 12)
        y = 22.0
        c.dot(left + 4, 10, "hollow")
        c.text(left + 14, 14.5, "before")
        c.dot(left + 84, 10, "target")
        c.text(left + 94, 14.5, "after")
        middle: list[float] = []
        for label, _, _ in rows:
            if c.narrow:
                y = c.lines(0, y + 22, label, c.width) + 12
                middle.append(y)
            else:
                middle.append(y + 12)
                y = c.lines(0, y + 16, label, left - 14) + 5
        axes.bottom = y + 12
        for v in (-threshold, 0.0, threshold):
            kind = "guide" if v else "axis"
            c.line(axes.x(v), 24, axes.x(v), axes.bottom, kind, under=True)
        for (_, a, b), at in zip(rows, middle, strict=True):
            c.line(axes.x(a), at, axes.x(b), at, "link")
            c.dot(axes.x(a), at, "hollow", 4)
            c.dot(axes.x(b), at, "target", 4)
        axes.across("standardised difference", ticks(-reach, reach, 5 if c.narrow else 7))

    return Picture(name, said, draw)
