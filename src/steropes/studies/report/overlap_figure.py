"""Picture of the preference scores of two arms, before and after adjustment."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.integrate import trapezoid

from steropes.plots.comparison_plots import EQUIPOISE
from steropes.studies.report.svg_canvas import Axes, Canvas, Picture

__all__ = ["score_overlap"]


def score_overlap(
    name: str, before: pd.DataFrame, after: pd.DataFrame, names: dict[str, str]
) -> Picture | None:
    """Draw densities of the preference score; None if they are missing.

    Parameters
    ----------
    before, after : DataFrame
        ``preference_score``, ``target_density``, ``comparator_density``; ``after`` may be empty.
    names : dict of str
        Names of the arms ``target`` and ``comparator``.
    """
    panels = {
        f"{when} adjustment": t
        for when, t in (("Before", before), ("After", after))
        if len(t) and t[["target_density", "comparator_density"]].notna().all(axis=None)
    }
    if not panels:
        return None
    highest = max(
        float(t[["target_density", "comparator_density"]].max().max()) for t in panels.values()
    )
    said = "Densities of the preference score in both arms. " + " ".join(
        f"{title}: {100 * _shared(t):.0f}% of the two areas overlap." for title, t in panels.items()
    )

    def draw(c: Canvas) -> None:
        """Draw a panel for each population, with the band of equipoise."""
        y = 0.0
        for title, t in panels.items():
            c.text(58, y + 16, title, "strong")
            axes = Axes(c, (0, 1), (0, 1.05 * highest), y + 24, y + 24 + (150 if c.narrow else 170))
            c.box(
                axes.x(EQUIPOISE[0]),
                axes.top,
                axes.x(EQUIPOISE[1]) - axes.x(EQUIPOISE[0]),
                axes.bottom - axes.top,
                "band middle",
            )
            x = t["preference_score"].to_numpy(float)
            for arm in ("target", "comparator"):
                points = axes.at(x, t[f"{arm}_density"].to_numpy(float))
                ground = [(axes.x(x[-1]), axes.bottom), (axes.x(x[0]), axes.bottom)]
                c.curve([*points, *ground], f"band {arm}", closed=True)
                c.curve(points, f"curve {arm}")
            axes.across("preference score")
            axes.up("density", numbers=False)
            y = axes.bottom + 52
        for arm in ("target", "comparator"):
            y = c.lines(58, y + 4, names[arm], c.width - 60, arm) + 16

    return Picture(name, said, draw)


def _shared(t: pd.DataFrame) -> float:
    """Compute the area under both densities as a share of the area under one."""
    x = t["preference_score"].to_numpy(float)
    a, b = (t[f"{arm}_density"].to_numpy(float) for arm in ("target", "comparator"))
    whole = (trapezoid(a, x) + trapezoid(b, x)) / 2
    return float(trapezoid(np.minimum(a, b), x) / whole) if whole > 0 else 0.0
