"""Pictures as SVG: marks on a plane in pixels, and axes with round numbers.

They need no plotting library. The same numbers give the same bytes everywhere.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from steropes.studies.report.template_rendering import render

__all__ = [
    "Axes",
    "Canvas",
    "Mark",
    "PagePicture",
    "Picture",
    "by_section",
    "drawn",
    "log_ticks",
    "ticks",
]

Of = TypeVar("Of")

LETTER = 7.3  # The width of an average letter of 13 pixels.
DIGIT = 8.3  # The width of a digit of 13 pixels in the widest of common fonts.


class Mark(NamedTuple):
    """An SVG element with its attributes and text."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""


class Canvas:
    """Marks on a plane with its origin at the upper left.

    Parameters
    ----------
    width : float
        In pixels.
    """

    def __init__(self, width: float) -> None:
        self.width, self.height = float(width), 0.0
        self.marks: list[Mark] = []

    @property
    def narrow(self) -> bool:
        """Whether the picture is for a phone."""
        return self.width < 500

    @property
    def viewbox(self) -> str:
        """Width and height of the picture."""
        return f"{self.width:g} {math.ceil(self.height) + 2}"

    def reach(self, y: float) -> None:
        """Extend the picture down to y."""
        self.height = max(self.height, y)

    def line(
        self, x1: float, y1: float, x2: float, y2: float, kind: str, under: bool = False
    ) -> None:
        """Draw a straight line, with ``under`` below all earlier marks."""
        self.reach(max(y1, y2))
        ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
        mark = Mark("line", {**{k: f"{v:.1f}" for k, v in ends.items()}, "class": kind})
        self.marks.insert(0 if under else len(self.marks), mark)

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        """Draw a line of text with its base line at y."""
        self.reach(y + 4)
        at = {"x": f"{x:.1f}", "y": f"{y:.1f}"}
        where = None if anchor == "start" else anchor
        if text:
            style = {"text-anchor": where, "class": kind or None}
            self.marks.append(Mark("text", {**at, **style}, text))

    def lines(self, x: float, y: float, text: str, width: float, kind: str = "") -> float:
        """Draw text in as many lines as it needs and return the base line of the last."""
        for i, row in enumerate(self.wrapped(text, width)):
            y += 16 * (i > 0)
            self.text(x, y, row, kind)
        return y

    @staticmethod
    def wrapped(text: str, width: float) -> list[str]:
        """Split a text of 13 pixels into lines."""
        return textwrap.wrap(text, max(8, int(width / LETTER))) or [""]

    def upward(self, x: float, y: float, text: str) -> None:
        """Draw text that runs upward, centred at y."""
        turned = f"translate({x:.0f} {y:.0f}) rotate(-90)"
        style: dict[str, str | None] = {"text-anchor": "middle", "class": "faint"}
        self.marks.append(Mark("text", {"transform": turned, **style}, text))

    def dot(self, x: float, y: float, kind: str, radius: float = 4.5) -> None:
        """Draw a disc."""
        self.reach(y + radius)
        at = {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": f"{radius:g}"}
        self.marks.append(Mark("circle", {**at, "class": kind}))

    def dots(self, x: ArrayLike, y: ArrayLike, kind: str) -> None:
        """Draw many small dots as one path; dots that coincide are drawn once."""
        at = np.unique(np.round(np.column_stack((x, y))).astype(int), axis=0)
        path = "".join(f"M{a} {b}h0" for a, b in at)
        self.marks.append(Mark("path", {"d": path, "class": kind}))

    def curve(self, points: Iterable[tuple[float, float]], kind: str, closed: bool = False) -> None:
        """Draw a line through points, or the area that they enclose."""
        listed = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
        tag = "polygon" if closed else "polyline"
        self.marks.append(Mark(tag, {"points": listed, "class": kind}))

    def box(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """Draw a rectangle with round corners."""
        self.reach(y + height)
        sizes = {"x": x, "y": y, "width": width, "height": height}
        sides = {name: f"{v:.1f}" for name, v in sizes.items()}
        self.marks.append(Mark("rect", {**sides, "rx": "5", "class": kind}))


@dataclass(frozen=True)
class Picture:
    """A picture, drawn for wide and for narrow screens when it is rendered.

    Attributes
    ----------
    name : str
        The name of its file.
    description : str
        A text alternative for readers who cannot see the picture.
    draw : callable
        Draws on the canvas that it receives.
    caption : str, default ""
        The text below the picture.
    """

    name: str
    description: str
    draw: Callable[[Canvas], None]
    caption: str = ""

    def canvas(self, width: float) -> Canvas:
        """Draw the picture on a canvas of a width in pixels."""
        canvas = Canvas(width)
        self.draw(canvas)
        return canvas

    def file(self) -> str:
        """Return the picture as an SVG file."""
        return render("file.svg.jinja", picture=self, width=720)


@dataclass(frozen=True)
class PagePicture(Generic[Of]):
    """A picture that a page of some results may have, with its place and its caption.

    Attributes
    ----------
    name : str
        The name of its file.
    section : str
        The part of the page, a name in its template.
    draw : callable
        Makes the picture of the results; None if there is nothing to draw.
    caption : str or callable
        The text below it, or a function of the results.
    """

    name: str
    section: str
    draw: Callable[[Of], Picture | None]
    caption: str | Callable[[Of], str]

    def of(self, results: Of) -> Picture | None:
        """Return the picture of some results, with its caption; None if there is none."""
        picture = self.draw(results)
        if picture is None:
            return None
        said = self.caption if isinstance(self.caption, str) else self.caption(results)
        return replace(picture, name=self.name, caption=said)


def drawn(pictures: Iterable[PagePicture[Of]], results: Of) -> dict[str, Picture]:
    """Return the pictures of a page that exist, by name."""
    found = {p.name: p.of(results) for p in pictures}
    return {name: picture for name, picture in found.items() if picture is not None}


def by_section(
    pictures: Iterable[PagePicture[Of]], drawn: Mapping[str, Picture]
) -> dict[str, list[Picture]]:
    """Group drawn pictures by the sections of their page, with an empty list if there is none."""
    found: dict[str, list[Picture]] = {}
    for p in pictures:
        found.setdefault(p.section, []).extend([drawn[p.name]] if p.name in drawn else [])
    return found


class Axes:
    """A plot area with its scales.

    Parameters
    ----------
    x, y : (float, float)
        Least and largest value.
    top, bottom : float
        In pixels.
    left, right : float, optional
        In pixels.
    log, log_y : bool
        Whether x, or y, is a logarithm and its numbers are shown as ratios.
    """

    def __init__(
        self,
        canvas: Canvas,
        x: tuple[float, float],
        y: tuple[float, float],
        top: float,
        bottom: float,
        left: float = 58.0,
        right: float | None = None,
        log: bool = False,
        log_y: bool = False,
    ) -> None:
        self.canvas, self.xs, self.ys = canvas, x, y
        self.log, self.log_y = log, log_y
        self.left, self.top, self.bottom = left, top, bottom
        self.right = canvas.width - 14 if right is None else right

    def x(self, value: float) -> float:
        """Return the horizontal position of a value."""
        share = (value - self.xs[0]) / (self.xs[1] - self.xs[0])
        return self.left + share * (self.right - self.left)

    def y(self, value: float) -> float:
        """Return the vertical position of a value."""
        share = (value - self.ys[0]) / (self.ys[1] - self.ys[0])
        return self.bottom - share * (self.bottom - self.top)

    def at(self, x: Iterable[float], y: Iterable[float]) -> list[tuple[float, float]]:
        """Return the positions of points."""
        return [(self.x(a), self.y(b)) for a, b in zip(x, y, strict=True)]

    def across(self, label: str, marks: Sequence[float] | None = None, plain: bool = False) -> None:
        """Draw the horizontal axis; ``plain`` numbers, such as years, have no separators."""
        c = self.canvas
        c.line(self.left, self.bottom, self.right, self.bottom, "axis")
        few = 4 if self.right - self.left < 300 else 6
        if marks is None and self.log:
            marks = [math.log(t) for t in log_ticks(*(math.exp(v) for v in self.xs))]
        end = -math.inf  # The end of the last number, which the next one must not touch.
        for v in ticks(*self.xs, few) if marks is None else marks:
            said = f"{math.exp(v):.3g}" if self.log else f"{v:g}" if plain else f"{v:,g}"
            half = LETTER * len(said) / 2
            c.line(self.x(v), self.bottom, self.x(v), self.bottom + 4, "axis")
            if self.x(v) - half > end + 5:
                middle = min(
                    self.x(v), c.width - DIGIT * len(said) / 2
                )  # Keep it within the picture.
                c.text(middle, self.bottom + 18, said, anchor="middle")
                end = middle + half
        c.text((self.left + self.right) / 2, self.bottom + 38, label, "faint", "middle")

    def up(self, label: str, percent: bool = False, numbers: bool = True) -> None:
        """Draw the vertical axis."""
        c = self.canvas
        c.line(self.left, self.top, self.left, self.bottom, "axis")
        marks = ticks(*self.ys, 6)
        if self.log_y:
            marks = [math.log(t) for t in log_ticks(*(math.exp(v) for v in self.ys))]
        for v in marks if numbers else ():
            said = f"{100 * v:g}%" if percent else f"{math.exp(v) if self.log_y else v:.6g}"
            c.line(self.left - 4, self.y(v), self.left, self.y(v), "axis")
            c.text(self.left - 7, self.y(v) + 4.5, said, anchor="end")
        c.upward(13, (self.top + self.bottom) / 2, label)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Choose at most ``most`` round numbers in a range."""
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-9) / most))
    for factor in (1, 2, 5, 10, 20, 50):
        first, last = (
            math.ceil(low / (factor * step) - 1e-9),
            math.floor(high / (factor * step) + 1e-9),
        )
        if last - first + 1 <= most:
            break
    return [round(k * factor * step, 10) + 0.0 for k in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Choose round ratios in a range, from the coarsest series that has three."""
    rows: tuple[tuple[float, ...], ...] = (
        (0.01, 0.1, 1, 10, 100),
        (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 10, 20),
        (0.3, 0.5, 0.7, 1, 1.5, 2, 3),
        (0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.6),
    )
    found: list[float] = []
    for row in rows:
        found = [t for t in row if low <= t <= high]
        if len(found) >= 3:
            break
    return found
