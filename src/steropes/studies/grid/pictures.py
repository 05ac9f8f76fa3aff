"""Pictures of a grid as SVG: in the colours of the page, and with words for what they show.

Drawn as text, without a plotting library: lines and points on two axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import pairwise

import numpy as np
import pandas as pd

__all__ = ["balance_scatter", "calibration_plot", "forest", "survival_curves"]

WIDTH = 640


def forest(rows: Sequence[tuple[str, float, float, float]], unit: str) -> str:
    """Estimates with limits, one a line, on a log scale; rows are (label, ratio, lower, upper)."""
    known = [r for r in rows if all(math.isfinite(x) and x > 0 for x in r[1:])]
    if not known:
        return ""
    low = max(min(r[2] for r in [*known, ("", 1, 0.8, 1.25)]), 0.05)
    high = min(max(r[3] for r in [*known, ("", 1, 0.8, 1.25)]), 20)
    left, right, top = 250, WIDTH - 20, 20
    height = top + 24 * len(rows) + 40

    def x(ratio: float) -> float:
        share = math.log(min(max(ratio, low), high) / low) / math.log(high / low)
        return left + share * (right - left)

    parts = [_line(x(1), top - 8, x(1), height - 34, "axis")]
    for ratio in (0.1, 0.25, 0.5, 1, 2, 4, 10):
        if low <= ratio <= high:
            parts.append(_text(x(ratio), height - 18, f"{ratio:g}", "middle"))
    for i, (label, ratio, lower, upper) in enumerate(rows):
        y = top + 24 * i + 8
        parts.append(_text(0, y + 5, label[:38], "start"))
        if not all(math.isfinite(v) for v in (ratio, lower, upper)):
            parts.append(_text(left, y + 5, "no estimate shown", "start", "faint"))
            continue
        parts.append(_line(x(lower), y, x(upper), y, "target"))
        parts.append(f'<circle cx="{x(ratio):.1f}" cy="{y}" r="4.5" class="target"/>')
    parts.append(_text((left + right) / 2, height - 2, unit, "middle", "faint"))
    said = "; ".join(f"{a}: {b:.2f} ({c:.2f} to {d:.2f})" for a, b, c, d in known)
    return _svg(height, f"{unit} with 95 % limits. {said}", parts)


def balance_scatter(table: pd.DataFrame, threshold: float) -> str:
    """Absolute standardised differences after adjustment against before."""
    before = table["std_diff_before"].abs().to_numpy(float)
    after = table["std_diff_after"].abs().to_numpy(float)
    good = np.isfinite(before) & np.isfinite(after)
    if not good.any():
        return ""
    before, after = before[good], after[good]
    most = max(float(before.max()), float(after.max()), threshold) * 1.05
    frame = _Frame(360, (0, most), (0, most))
    parts = frame.axes("before adjustment", "after adjustment")
    parts.append(_line(frame.x(0), frame.y(0), frame.x(most), frame.y(most), "grid"))
    parts.append(_line(frame.x(0), frame.y(threshold), frame.x(most), frame.y(threshold), "over"))
    parts += [
        f'<circle cx="{frame.x(a):.1f}" cy="{frame.y(b):.1f}" r="2.6" class="dot"/>'
        for a, b in zip(before, after, strict=True)
    ]
    over = int((after > threshold).sum())
    said = (
        f"Absolute standardised differences of {len(after)} covariates after against before "
        f"adjustment. {over} are above {threshold:g} after it; the largest is {after.max():.2f}, "
        f"before {before.max():.2f}."
    )
    return _svg(360, said, parts)


def survival_curves(table: pd.DataFrame) -> str:
    """Kaplan–Meier curves of both arms with their limits."""
    if table.empty:
        return ""
    t = table["time_day"].to_numpy(float)
    lowest = float(table[["target_survival_lb", "comparator_survival_lb"]].min().min())
    frame = _Frame(340, (0, max(float(t.max()), 1)), (max(0.0, lowest - 0.01), 1.0))
    parts = frame.axes("days since the start", "without the outcome")
    for arm in ("target", "comparator"):
        s, low, high = (table[f"{arm}_survival{e}"].to_numpy(float) for e in ("", "_lb", "_ub"))
        band = [*_steps(t, high), *_steps(t, low)[::-1]]
        points = " ".join(f"{frame.x(a):.1f},{frame.y(b):.1f}" for a, b in band)
        parts.append(f'<polygon points="{points}" class="band {arm}"/>')
        points = " ".join(f"{frame.x(a):.1f},{frame.y(b):.1f}" for a, b in _steps(t, s))
        parts.append(f'<polyline points="{points}" class="curve {arm}"/>')
        parts.append(
            _text(WIDTH - 24, frame.y(s[-1]) + (14 if arm == "target" else -6), arm, "end", arm)
        )
    ends = [float(table[f"{arm}_survival"].iloc[-1]) for arm in ("target", "comparator")]
    said = (
        f"Survival curves over {t.max():.0f} days: {100 * ends[0]:.1f} % of the target arm and "
        f"{100 * ends[1]:.1f} % of the comparator arm are without the outcome at the end."
    )
    return _svg(340, said, parts)


def calibration_plot(controls: pd.DataFrame, mean: float, sd: float) -> str:
    """Standard errors of negative controls against their estimates, and where they are expected."""
    y, s = controls["log_rr"].to_numpy(float), controls["se_log_rr"].to_numpy(float)
    good = np.isfinite(y) & np.isfinite(s)
    if not good.any():
        return ""
    y, s = y[good], s[good]
    reach = max(math.log(4), float(np.abs(y).max()) * 1.1)
    frame = _Frame(320, (-reach, reach), (0, float(s.max()) * 1.1))
    parts = frame.axes("estimated ratio", "standard error", log=True)
    parts.append(_line(frame.x(0), frame.y(0), frame.x(0), frame.y(frame.high[1]), "grid"))
    se = np.linspace(0, frame.high[1], 60)
    for side in (-1.96, 1.96):
        for name, at in (("over", side * se), ("target", mean + side * np.hypot(se, sd))):
            for (a, b), (c, d) in pairwise(zip(at, se, strict=True)):
                if abs(a) <= reach and abs(c) <= reach:
                    parts.append(_line(frame.x(a), frame.y(b), frame.x(c), frame.y(d), name))
    parts += [
        f'<circle cx="{frame.x(a):.1f}" cy="{frame.y(b):.1f}" r="4" class="dot"/>'
        for a, b in zip(y, s, strict=True)
    ]
    outside = int((np.abs(y) > 1.96 * s).sum())
    said = (
        f"{len(y)} negative controls; {outside} have intervals that exclude no effect before "
        f"calibration. Systematic error: mean {mean:.2f}, standard deviation {sd:.2f} (log scale)."
    )
    return _svg(320, said, parts)


class _Frame:
    """A plot area with its scales."""

    def __init__(self, height: int, x: tuple[float, float], y: tuple[float, float]) -> None:
        self.low, self.high = (x[0], y[0]), (x[1], y[1])
        self.left, self.right, self.top, self.bottom = 64, WIDTH - 16, 12, height - 46

    def x(self, value: float) -> float:
        """Horizontal place of a value."""
        share = (value - self.low[0]) / (self.high[0] - self.low[0])
        return self.left + share * (self.right - self.left)

    def y(self, value: float) -> float:
        """Vertical place of a value."""
        share = (value - self.low[1]) / (self.high[1] - self.low[1])
        return self.bottom - share * (self.bottom - self.top)

    def axes(self, across: str, up: str, log: bool = False) -> list[str]:
        """Both axes with a few numbers."""
        parts = [
            _line(self.left, self.bottom, self.right, self.bottom, "axis"),
            _line(self.left, self.top, self.left, self.bottom, "axis"),
            _text((self.left + self.right) / 2, self.bottom + 40, across, "middle", "faint"),
            f'<text transform="translate(14 {(self.top + self.bottom) / 2:.0f}) rotate(-90)" '
            f'text-anchor="middle" class="faint">{escape(up)}</text>',
        ]
        ticks = np.log([0.1, 0.25, 0.5, 1, 2, 4, 10]) if log else _ticks(self.low[0], self.high[0])
        for v in ticks:
            if self.low[0] <= v <= self.high[0]:
                said = f"{math.exp(v):g}" if log else f"{v:g}"
                parts.append(_text(self.x(v), self.bottom + 18, said, "middle"))
        for v in _ticks(self.low[1], self.high[1]):
            parts.append(_text(self.left - 6, self.y(v) + 5, f"{v:g}", "end"))
        return parts


def _ticks(low: float, high: float) -> np.ndarray:
    """About five round numbers in a range."""
    step = 10 ** math.floor(math.log10(max(high - low, 1e-9) / 4))
    for factor in (1, 2, 5, 10):
        if (high - low) / (factor * step) <= 6:
            break
    step *= factor
    ticks = np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1) * step
    return np.round(ticks, 10) + 0.0


def _steps(t: np.ndarray, s: np.ndarray) -> list[tuple[float, float]]:
    """A right-continuous step function as corners."""
    corners = [(float(t[0]), float(s[0]))]
    for a, (b, c) in zip(t[1:], pairwise(s), strict=True):
        corners += [(float(a), float(b)), (float(a), float(c))]
    return corners


def _line(a: float, b: float, c: float, d: float, name: str) -> str:
    return f'<line x1="{a:.1f}" y1="{b:.1f}" x2="{c:.1f}" y2="{d:.1f}" class="{name}"/>'


def _text(x: float, y: float, said: str, anchor: str, name: str = "") -> str:
    kind = f' class="{name}"' if name else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(said)}</text>'


def _svg(height: int, said: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(said, quote=True)}" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{escape(said)}</title>{"".join(parts)}</svg>'
    )
