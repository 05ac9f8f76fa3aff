"""The definition of a view on the page of results: a table with columns, and a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd

__all__ = ["Column", "Kind", "View", "checks", "column", "ids", "important", "texts"]

Kind = Literal[
    "text", "choice", "id", "count", "whole", "number", "bounded", "ratio", "p", "difference",
    "share", "check", "long",
]  # fmt: skip
VERDICT = "_verdict"  # Suffix of the hidden column with the verdict of a check.


@dataclass(frozen=True)
class Column:
    """A column of a view.

    Attributes
    ----------
    name : str
        Name in the data and in exported files.
    title : str
        Heading; empty for a column that is not shown.
    kind : str
        How values are formatted, sorted and filtered: "choice" is a text with few values, by which
        rows can be chosen above the table; "id" identifies rows and is not shown; a suppressed
        "count" or "bounded" number is the negative of a limit that it is below; "check" is a number
        with a verdict in a column of its own; "long" is a text that only the details of a row show.
    important : bool
        Whether the column is visible without scrolling, and comes first on narrow screens.
    """

    name: str
    title: str
    kind: Kind = "text"
    important: bool = False


@dataclass(frozen=True, repr=False, eq=False)
class View:
    """A table of the page.

    Attributes
    ----------
    name : str
        Identifies it in links.
    group : str
        Heading under which the navigation lists it.
    intro : str
        One or two sentences above the table.
    table : DataFrame
        With these columns and, for checks, those of their verdicts.
    chart : str
        Name of the chart above the table; empty for none.
    """

    name: str
    title: str
    group: str
    intro: str
    columns: tuple[Column, ...]
    table: pd.DataFrame
    chart: str = ""

    @property
    def fields(self) -> list[str]:
        """Names of all columns of the data."""
        found = []
        for c in self.columns:
            found += [c.name, f"{c.name}{VERDICT}"] if c.kind == "check" else [c.name]
        return found

    def data(self) -> pd.DataFrame:
        """Return the table with exactly these columns; missing ones are empty."""
        return self.table.reindex(columns=self.fields)


def column(name: str, title: str, kind: Kind = "number") -> Column:
    """Return a column of numbers, unless another kind is given."""
    return Column(name, title, kind)


def important(columns: Sequence[Column]) -> tuple[Column, ...]:
    """Mark columns that are visible without scrolling."""
    return tuple(replace(c, important=True) for c in columns)


def ids(*names: str) -> tuple[Column, ...]:
    """Return columns that identify a row and are not shown."""
    return tuple(Column(name, "", "id") for name in names)


def texts(kind: Kind = "choice", /, **titles: str) -> tuple[Column, ...]:
    """Return columns of texts by their names and titles."""
    return tuple(Column(name, title, kind) for name, title in titles.items())


def checks(declared: Sequence[tuple[str, str]]) -> tuple[Column, ...]:
    """Return columns of diagnostics by their names and titles."""
    return tuple(Column(name, title, "check") for name, title in declared)
