"""Numbers of R and of this package, compared one by one, with the reasons why they may differ."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

__all__ = [
    "CLOSE", "EARLY", "ENDLESS", "LIMIT", "NO_EVENT", "SPLINES", "STEPS", "Parity", "Rows", "agree",
]  # fmt: skip

CLOSE = 1e-5
STEPS = 1e-4  # R stops the search for a confidence limit early.
LIMIT = "R's search of the limit ended early; ours is where the likelihood is 1.92 lower"
NO_EVENT = "no event in the window: the estimate is zero, R's is where its iterations ended"
SPLINES = "expected outcomes follow the model's splines, in R relative to another point of them"
EARLY = "R's iterations ended before the optimum, at a lower likelihood"
ENDLESS = "the estimate is infinite, and R gives none"
BEFORE = "time before the first day that counts is in R's detectable ratio"
FOLLOWS = "another verdict differs"


@dataclass(frozen=True)
class Parity:
    """The numbers that were compared.

    Attributes
    ----------
    table : DataFrame
        One row a number: ``table``, ``question`` (analysis and exposures-outcome set), ``item``,
        ``ours``, ``theirs``, ``agrees``, and ``note`` where they need not agree.
    """

    table: pd.DataFrame

    @property
    def disagreements(self) -> pd.DataFrame:
        """Numbers that differ without a reason."""
        return self.table[~self.table["agrees"] & (self.table["note"] == "")]

    def summary(self) -> pd.DataFrame:
        """Numbers compared, agreed, and explained, by table of R's."""
        t = self.table.assign(explained=~self.table["agrees"] & (self.table["note"] != ""))
        found = t.groupby("table").agg(
            compared=("agrees", "size"), agree=("agrees", "sum"), explained=("explained", "sum")
        )
        return found.assign(differ=found["compared"] - found["agree"] - found["explained"])


@dataclass
class Rows:
    """Comparisons collected over questions."""

    tables: dict[str, pd.DataFrame]
    found: list[tuple] = field(default_factory=list)
    analysis: int = 0
    outcome_set: int = 0

    def theirs(self, table: str) -> pd.DataFrame:
        """Return R's rows of the current question."""
        t = self.tables.get(table)
        if t is None:
            return pd.DataFrame()
        mine = (t["analysis_id"] == self.analysis) & (
            t["exposures_outcome_set_id"] == self.outcome_set
        )
        return t[mine].reset_index(drop=True)

    def add(
        self, table: str, item: str, ours: Any, theirs: Any, close: float = CLOSE,
        note: str | Callable[[], str] = "",
    ) -> None:  # fmt: skip
        """Compare two numbers; a note, or a function that finds it, explains why they differ."""
        agrees = agree(ours, theirs, close)
        why = "" if agrees else note if isinstance(note, str) else note()
        question = f"{self.analysis}/{self.outcome_set}"
        self.found.append((table, question, item, ours, theirs, agrees, why))


def agree(ours: Any, theirs: Any, close: float) -> bool:
    """Check that two values are equal, or close relative to R's where they are numbers."""
    if isinstance(theirs, str) or isinstance(ours, str):
        return str(ours) == str(theirs)
    a, b = float(ours), float(theirs)
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= close * max(1.0, abs(b))
