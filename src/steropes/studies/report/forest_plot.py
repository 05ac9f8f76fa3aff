"""Forest plots: ratios with their limits, one per line, on a log scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from steropes.data.number_formatting import decimals, effect
from steropes.studies.report.svg_canvas import Axes, Canvas, Picture, log_ticks

__all__ = ["Row", "forest"]

LEAST, MOST = 0.05, 20.0  # Limits outside of this range are cut off with an arrow.


@dataclass(frozen=True)
class Row:
    """One line of a forest plot.

    Attributes
    ----------
    ratio, lower, upper : float
        NaN without an estimate; a limit may be infinite.
    second : tuple of float, optional
        Another estimate of the same ratio with its limits, such as the calibrated one.
    note : str
        Text that replaces a missing estimate.
    shade : int, default 5
        Strength of the colour, from 1 to 5.
    remark : str
        Text that follows the numbers in the description.
    """

    label: str
    ratio: float = math.nan
    lower: float = math.nan
    upper: float = math.nan
    second: tuple[float, float, float] = (math.nan, math.nan, math.nan)
    note: str = "no estimate"
    shade: int = 5
    remark: str = ""

    @property
    def known(self) -> bool:
        """Whether there is an estimate."""
        return math.isfinite(self.ratio)

    @property
    def ends(self) -> tuple[float, ...]:
        """The limits, or the ratio alone without limits."""
        return (self.ratio,) if math.isnan(self.lower) else (self.lower, self.upper, *self.second)

    @property
    def text(self) -> str:
        """The estimate with its limits, if it has any, or the note."""
        if not self.known:
            return self.note
        return effect(self.ratio, self.lower, self.upper) or decimals(self.ratio)


def forest(name: str, rows: Sequence[Row], unit: str) -> Picture | None:
    """Draw a forest plot; None if no row has an estimate.

    Parameters
    ----------
    name : str
        The name of the file.
    unit : str
        The kind of ratio, such as "hazard ratio".
    """
    known = [r for r in rows if r.known]
    if not known:
        return None
    ends = [v for r in known for v in r.ends if math.isfinite(v) and v > 0]
    low = max(min([*ends, 0.8]), LEAST)
    high = min(max([*ends, 1.25]), MOST)
    said = f"{unit[:1].upper()}{unit[1:]} with 95% limits. " + "; ".join(
        f"{r.label}: {r.text}"
        + (f", calibrated {effect(*r.second)}" if r.known and math.isfinite(r.second[0]) else "")
        + r.remark
        for r in rows
    )
    both = any(math.isfinite(r.second[0]) for r in known)

    def draw(c: Canvas) -> None:
        """Draw a row for each ratio, with the axis and its guides."""
        left = 10.0 if c.narrow else 0.34 * c.width
        right = c.width - (10 if c.narrow else 170)
        axes = Axes(c, (math.log(low * 0.97), math.log(high * 1.03)), (0, 1), 0, 0, left, right)
        tops = [6.0]
        for r in rows:
            tops.append(tops[-1] + _row(c, axes, r, tops[-1], both))
        axes.bottom = tops[-1] + 6
        marks = [math.log(t) for t in log_ticks(low, high)]
        guide = axes.x(0.0)
        c.line(guide, 2, guide, axes.bottom, "guide", under=True)
        axes.log = True
        axes.across(unit, marks)
        if both:
            _legend(c, axes)

    return Picture(name, said, draw)


def _row(c: Canvas, axes: Axes, r: Row, top: float, both: bool) -> float:
    """Draw a row and return its height."""
    shown = r.text
    kind = "" if r.known else "faint"
    if c.narrow:
        y = c.lines(0, top + 14, r.label, c.width - 10, "strong")
        y = c.lines(10, y + 17, shown, c.width - 20, kind) + 14
        end = y + (12 if both and r.known else 0) + 16
    else:
        last = c.lines(0, top + 16, r.label, axes.left - 12)
        if r.known:
            c.text(c.width, top + 16, shown, kind, "end")
        else:
            last = max(last, c.lines(axes.left, top + 16, shown, c.width - axes.left, kind))
        y = top + 12
        end = max(last + 8, y + (22 if both else 16))
    if r.known:
        shade = f" shade{r.shade}" if r.shade < 5 else ""
        _mark(c, axes, r.ratio, r.lower, r.upper, y, f"target{shade}")
        if math.isfinite(r.second[0]):
            _mark(c, axes, *r.second, y + 10, "second")
    return end - top


def _mark(
    c: Canvas, axes: Axes, ratio: float, lower: float, upper: float, y: float, kind: str
) -> None:
    """Draw an estimate and, if they are known, its limits."""
    low, high = axes.xs
    ends = []
    for value, side in () if math.isnan(lower) else ((lower, -1), (upper, 1)):
        at = math.log(value) if 0 < value < math.inf else side * math.inf
        x = axes.x(min(max(at, low), high))
        if not low <= at <= high:
            points = [(x - 6 * side, y - 4), (x, y), (x - 6 * side, y + 4)]
            c.curve(points, f"curve {kind if kind.startswith('target') else 'comparator'}")
        ends.append(x)
    if ends:
        c.line(ends[0], y, ends[1], y, kind)
    centre = math.log(ratio) if ratio > 0 else -math.inf
    if low <= centre <= high:
        c.dot(axes.x(centre), y, kind)


def _legend(c: Canvas, axes: Axes) -> None:
    """Draw the legend for the two estimates of a line."""
    y = axes.bottom + 58
    x = 10.0 if c.narrow else axes.left
    c.dot(x, y - 4, "target")
    c.text(x + 10, y, "as estimated")
    c.dot(x + 120, y - 4, "second")
    c.text(x + 130, y, "calibrated")
