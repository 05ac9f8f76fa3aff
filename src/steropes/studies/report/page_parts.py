"""Parts of a page as data: cells of tables, findings and key numbers, which templates render."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pandas as pd

from steropes.data.number_formatting import (
    Relation,
    crossing,
    deciding,
    limit_text,
)
from steropes.studies.database.data_quality_notes import table_sentences

if TYPE_CHECKING:
    from steropes.studies.execution.common_run_of_designs import DesignResults

__all__ = [
    "MOST_OPEN",
    "Cell",
    "Entry",
    "Finding",
    "KeyNumber",
    "Rows",
    "note_findings",
    "result_numbers",
    "verdict_cell",
    "verdict_word",
]

MOST_OPEN = 6  # Sections of a grid's page are folded if there are more of their kind.


@dataclass(frozen=True)
class Cell:
    """A cell with a verdict or a remark.

    Attributes
    ----------
    kind : {"", "PASS", "FAIL", "faint"}
        The class that styles it.
    remark : str
        Small text below.
    """

    text: str
    kind: str = ""
    remark: str = ""


Rows = Sequence[Sequence[str | Cell]]  # The body of a table.
KeyNumber = tuple[str, str]  # A number and its description.
Entry: TypeAlias = "tuple[str, str, list[Entry]]"  # A section's id, title and own sections.
Finding = tuple[str, str]  # A verdict ("PASS", "WARN", "FAIL" or "NOT EVALUATED") and a sentence.


def result_numbers(results: DesignResults[Any]) -> list[KeyNumber]:
    """Return how many results of a grid have an estimate and how many pass all diagnostics."""
    every, with_estimate, passing = results.counts
    return [
        (f"{with_estimate:,} of {every:,}", "results have an estimate"),
        (f"{passing:,}", "pass all diagnostics"),
    ]


def note_findings(table: pd.DataFrame) -> list[Finding]:
    """Return the notes of a released table ``data_note`` with their marks."""
    return [("WARN" if warns else "NOT EVALUATED", note) for note, warns in table_sentences(table)]


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
    verdict : {"PASS", "FAIL", "NOT EVALUATED"}
    digits : int, default 2
        Fewest decimals.
    relation, limit
        The condition for passing; None for no limit.
    """
    shown = "" if math.isnan(value) else deciding(value, limit, digits=digits)
    if verdict == "NOT EVALUATED":
        return Cell(shown or "–", "faint")
    if limit is not None and (side := crossing(value, relation, limit, verdict)):
        shown = f"{side}{limit_text(limit)}"
    return Cell(shown, verdict, verdict.lower())
