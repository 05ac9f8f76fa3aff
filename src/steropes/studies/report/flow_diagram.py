"""Flow diagram of attrition, with the people that each rule leaves in both arms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from steropes.data.number_formatting import counted
from steropes.studies.report.svg_canvas import Canvas, Picture

__all__ = ["attrition_diagram"]


def attrition_diagram(
    name: str, steps: Sequence[tuple[str, float, float]], names: dict[str, str], least: int = 0
) -> Picture | None:
    """Draw the rules from top to bottom, with the people of both arms at their sides.

    Parameters
    ----------
    steps : sequence of (rule, target, comparator)
        Counts; -n stands for fewer than n.
    names : dict of str
        Names of the arms ``target`` and ``comparator``.
    least : int, default 0
        The smallest number of dropped people that is shown.
    """
    if not steps:
        return None
    said = "People left by each rule, on the target and on the comparator. " + "; ".join(
        f"{rule}: {counted(a)} and {counted(b)}" for rule, a, b in steps
    )

    def draw(c: Canvas) -> None:
        """Draw a column of boxes for each arm, and the people that each rule removes."""
        box = 96.0 if c.narrow else 150.0
        height, gap = 30.0, 34.0
        right = c.width - box - 1
        y = 0.0
        for x, arm in ((1.0, "target"), (right, "comparator")):
            y = max(y, c.lines(x, 14, names[arm], box + (30 if c.narrow else 90), arm))
        y += 12
        before: tuple[float, float] | None = None
        for rule, *people in steps:
            for k, (x, arm) in enumerate(((1.0, "target"), (right, "comparator"))):
                if before is not None:
                    c.line(x + box / 2, y - gap, x + box / 2, y, "arrow")
                    gone = _gone(before[k], people[k], least)
                    c.text(x + box / 2 + 6, y - gap / 2 + 5, gone, "faint")
                c.box(x, y, box, height, f"box {arm}")
                c.text(x + box / 2, y + 20, counted(people[k]), "strong", "middle")
            room = right - box - 24
            lines = c.wrapped(rule, room)
            start = y + height / 2 + 5 - 8 * (len(lines) - 1)
            for i, line in enumerate(lines):
                c.text(c.width / 2, start + 16 * i, line, anchor="middle")
            before = (people[0], people[1])
            y += height + gap
        c.reach(y - gap)

    return Picture(name, said, draw)


def _gone(before: float, after: float, least: int) -> str:
    """Format the number of people that a rule left out; empty if it is suppressed."""
    if before < 0 or after < 0 or not math.isfinite(before + after):
        return ""
    gone = before - after
    return f"−{gone:,.0f}" if gone > 0 and gone >= least else ""
