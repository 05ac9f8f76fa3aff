"""Parts of a page as data: cells, tables and figures, which the templates render."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from steropes.studies.report.canvas import Picture
from steropes.studies.report.digits import Relation, deciding, limit_text, passes

__all__ = [
    "Cell",
    "Figure",
    "Finding",
    "KeyNumber",
    "Table",
    "TableRow",
    "figure",
    "number_table",
    "table",
    "verdict_cell",
    "verdict_word",
]

KeyNumber = tuple[str, str]  # A number and its description.
Finding = tuple[str, str]  # A verdict ("PASS", "WARN", "FAIL" or "NOT EVALUATED") and a sentence.


@dataclass(frozen=True)
class Cell:
    """A cell with a verdict or a remark.

    Attributes
    ----------
    text : str
    kind : {"", "PASS", "FAIL", "faint"}
        The class that styles it.
    remark : str
        Small text below.
    """

    text: str
    kind: str = ""
    remark: str = ""


TableRow = Sequence[str | Cell]


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes
    ----------
    head : sequence of str
    sections : mapping of str to sequence of rows
        The rows below each title; an empty title is not shown.
    words : tuple of int
        Columns of words rather than numbers.
    caption : str
    layout : {"stacked", "numbers"}
        On a phone, each row of a stacked table becomes a block of lines. The rows of a table of
        numbers stay rows.
    """

    head: Sequence[str]
    sections: Mapping[str, Sequence[TableRow]]
    words: tuple[int, ...] = ()
    caption: str = ""
    layout: Literal["stacked", "numbers"] = "stacked"


@dataclass(frozen=True)
class Figure:
    """A picture with its caption."""

    picture: Picture
    caption: str


def figure(picture: Picture | None, caption: str) -> Figure | None:
    """Give a picture a caption; None without a picture."""
    return None if picture is None else Figure(picture, caption)


def table(
    head: Sequence[str], rows: Iterable[TableRow], *, words: tuple[int, ...] = (), caption: str = ""
) -> Table | None:
    """Make a table of rows that are stacked on a phone; None without rows."""
    listed = list(rows)
    return Table(head, {"": listed}, words, caption) if listed else None


def number_table(
    head: Sequence[str],
    rows: Iterable[TableRow] | Mapping[str, Sequence[TableRow]],
    caption: str = "",
) -> Table | None:
    """Make a table of a name and a few short numbers, optionally in sections; None without rows."""
    sections = rows if isinstance(rows, Mapping) else {"": list(rows)}
    kept = any(sections.values())
    return Table(head, sections, caption=caption, layout="numbers") if kept else None


def verdict_word(verdict: str) -> Cell:
    """Make a cell with a verdict in lower case, emphasised if it is "FAIL"."""
    return Cell(verdict.lower(), "FAIL" if verdict == "FAIL" else "")


def verdict_cell(
    value: float,
    verdict: str,
    digits: int = 2,
    relation: Relation = "below",
    limit: float | None = None,
) -> Cell:
    """Format a number with its verdict.

    The number has enough digits to distinguish it from the limit. A value that disclosure control
    rounded to the other side of the limit is shown as a bound that agrees with the verdict.

    Parameters
    ----------
    value : float
    verdict : {"PASS", "FAIL", "NOT EVALUATED"}
    digits : int, default 2
        Fewest decimals.
    relation, limit
        The condition for passing; None for no limit.
    """
    shown = "" if math.isnan(value) else deciding(value, limit, digits=digits)
    if verdict == "NOT EVALUATED":
        return Cell(shown or "–", "faint")
    passed = verdict == "PASS"
    if math.isfinite(value) and limit is not None and passes(value, relation, limit) != passed:
        above = passed == (relation in ("at least", "above"))
        shown = f"{'>' if above else '<'}{limit_text(limit)}"
    return Cell(shown, verdict, verdict.lower())
