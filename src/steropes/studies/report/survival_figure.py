"""Picture of the survival curves of two arms, with numbers at risk below."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.data.number_formatting import counted
from steropes.designs.values.arm_names import ARMS
from steropes.studies.formatting.released_numbers import decimals
from steropes.studies.report.svg_canvas import Axes, Canvas, Picture

__all__ = ["survival_figure"]


def survival_figure(name: str, table: pd.DataFrame, names: dict[str, str]) -> Picture | None:
    """Draw Kaplan–Meier curves with their limits; None if there are none.

    Parameters
    ----------
    table : DataFrame
        ``time_day`` and, for each arm, ``_survival``, ``_survival_lb``, ``_survival_ub`` and
        ``_at_risk`` (missing between the marks; -n stands for fewer than n). A curve ends at
        its first missing value. One arm may have no curve, but not both. Without any mark, the
        numbers at risk are left out.
    names : dict of str
        Names of the arms ``target`` and ``comparator``.
    """
    if table.empty:
        return None
    t = table["time_day"].to_numpy(float)
    lowest = float(table[[f"{a}_survival_lb" for a in ARMS]].min().min())
    floor = next((1 - r for r in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5) if lowest > 1 - r), 0.0)
    known = {a: int(table[f"{a}_survival"].notna().sum()) for a in ARMS}
    drawn = [a for a in ARMS if known[a]]
    shares = [
        f"{decimals(100 * float(table[f'{a}_survival'].iloc[known[a] - 1]), 1)}% of the {a} arm "
        f"({names[a]}{_ended(t, known[a])})"
        for a in drawn
    ]
    said = (
        f"Survival curves over {t.max():,.0f} days: at the end {' and '.join(shares)} are without "
        "the outcome."
    )
    left = 70.0 if floor >= 0.98 else 58.0  # "99.5%" is wider than "100%"
    marks = table[table["target_at_risk"].notna() | table["comparator_at_risk"].notna()]

    def draw(c: Canvas) -> None:
        """Draw the curves with their bands, and the numbers at risk below."""
        ends = (0, max(float(t.max()), 1.0)), (floor, 1.0)
        axes = Axes(c, *ends, 8, 268, left=left, right=c.width - 22)
        for arm in drawn:
            u, of_arm = t[: known[arm]], table.iloc[: known[arm]]
            s, low, high = (
                of_arm[f"{arm}_survival{e}"].to_numpy(float) for e in ("", "_lb", "_ub")
            )
            band = [*_steps(u, high), *_steps(u, np.maximum(low, floor))[::-1]]
            c.curve([(axes.x(a), axes.y(b)) for a, b in band], f"band {arm}", closed=True)
            c.curve([(axes.x(a), axes.y(b)) for a, b in _steps(u, s)], f"curve {arm}")
        days = marks["time_day"].to_numpy(float)
        room = max(1, int((axes.right - axes.left) / 62))
        days = days[:: max(1, -(-len(days) // room))]
        axes.across("days since the start of risk", list(days) or None)
        axes.up("without the outcome", percent=True)
        if not len(days):
            return
        y = axes.bottom + 62
        c.text(0, y, "At risk", "faint")
        for arm in ARMS:
            y += 20
            y = c.lines(0, y, names[arm], c.width, arm) + 18
            for day in days:
                at = marks.loc[marks["time_day"] == day, f"{arm}_at_risk"].iloc[0]
                c.text(axes.x(day), y, counted(at), anchor="middle")

    return Picture(name, said, draw)


def _ended(t: NDArray, n: int) -> str:
    """Describe the end of a curve that has only the first n of the times t; "" if it has all."""
    return "" if n == len(t) else f", whose curve ends on day {t[n - 1]:,.0f}"


def _steps(t: NDArray, s: NDArray) -> list[tuple[float, float]]:
    """Return the corners of a right-continuous step function."""
    corners = [(float(t[0]), float(s[0]))]
    for a, (b, c) in zip(t[1:], pairwise(s), strict=True):
        corners += [(float(a), float(b)), (float(a), float(c))]
    return corners
