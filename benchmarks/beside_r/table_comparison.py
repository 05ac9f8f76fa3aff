"""Compare the cells of the result tables of both programs, and classify the differences."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

__all__ = [
    "CLASSES",
    "Reason",
    "StudyComparison",
    "Table",
    "compare_frames",
    "compare_tables",
    "summary_lines",
]

Analysis = dict[str, Any]

# The classes of a difference. A study has the worst class of its cells, in this order.
CONVENTION, TOLERANCE, R_ERROR, DIFFERENT = "convention", "tolerance", "R's error", "DIFFERENT"
CLASSES = ("agrees", CONVENTION, TOLERANCE, R_ERROR, DIFFERENT, "R failed", "failed here")
TEXTS = (
    "description", "covariate_name", "era_name", "interval", "definition", "database_id",
    "setting_id",
)  # fmt: skip


@dataclass(frozen=True)
class Table:
    """The key columns of a table of R's, and how close its numbers must be to R's.

    Attributes
    ----------
    key : sequence of str
    close : float
        Allowed difference, relative to one or to R's number, whichever is larger.
    rounded : str
        A key column of numbers that are equal to nine decimals only; "" if there is none.
    """

    key: Sequence[str]
    close: float = 0.0
    rounded: str = ""


@dataclass(frozen=True)
class Reason:
    """Why cells may differ.

    Attributes
    ----------
    pattern : str
        Regular expression of the table and column, joined by a dot; ``rows`` is the column of rows
        that one table lacks.
    kind : str
        One of `CLASSES`.
    words : str
        The reason, as the page on R's differences states it.
    concerns : callable
        Whether an analysis and a row are concerned. Default: all are.
    """

    pattern: str
    kind: str
    words: str
    concerns: Callable[[Analysis, Mapping[str, Any]], bool] = lambda analysis, row: True


@dataclass
class StudyComparison:
    """Counts of compared cells and of those that differ, with examples of the unexplained.

    Attributes
    ----------
    seed : int
    compared, differ : dict of str to int
        Cells by table and column, and those that differ without a reason.
    explained : dict of str to int
        Cells by class and reason, joined by ": ".
    examples : list of str
    seconds : dict of str to float
        Elapsed time of each program.
    failed : str
        Why a program failed, which begins with its class; "" if none did.
    apart : dict of str to tuple
        The cells of ``differ`` one by one with our value and R's, which a file of results does not
        have.
    """

    seed: int
    compared: Counter[str] = field(default_factory=Counter)
    differ: Counter[str] = field(default_factory=Counter)
    explained: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    failed: str = ""
    apart: dict[str, tuple[Any, Any]] = field(default_factory=dict, compare=False)

    @property
    def verdict(self) -> str:
        """The worst class of the study."""
        if self.failed:
            return self.failed.split(":")[0]
        if self.differ.total():
            return DIFFERENT
        found = [r.split(":")[0] for r, n in self.explained.items() if n]
        return max(found, key=CLASSES.index, default="agrees")

    def as_json(self) -> str:
        """Return a line for a file of results."""
        return json.dumps({name: value for name, value in vars(self).items() if name != "apart"})

    @classmethod
    def from_json(cls, line: str) -> StudyComparison:
        """Read a line of `as_json`."""
        given = json.loads(line)
        for name in ("compared", "differ", "explained"):
            given[name] = Counter(given[name])
        return cls(**given)


def compare_tables(
    out: StudyComparison,
    tables: Mapping[str, Table],
    reasons: Sequence[Reason],
    analyses: Mapping[int, Analysis],
    ours: Path,
    theirs: Path,
) -> None:
    """Compare the CSV files of two folders, table by table."""
    for name, table in tables.items():
        here, there = _read(ours, name), _read(theirs, name)
        if here is None and there is None:
            continue
        if here is None or there is None:
            kept = here if there is None else there
            assert kept is not None
            here = kept.iloc[:0] if here is None else here
            there = kept.iloc[:0] if there is None else there
        compare_frames(out, name, table, reasons, analyses, here, there)


def _read(folder: Path, name: str) -> pd.DataFrame | None:
    found = sorted(folder.rglob(f"{name}.csv"))
    return pd.read_csv(found[0]) if found else None


def compare_frames(
    out: StudyComparison,
    name: str,
    table: Table,
    reasons: Sequence[Reason],
    analyses: Mapping[int, Analysis],
    ours: pd.DataFrame,
    theirs: pd.DataFrame,
) -> None:
    """Compare the cells of the columns that both tables have, and the rows that one lacks."""
    key = list(table.key)
    if table.rounded:
        ours, theirs = (
            t.assign(**{table.rounded: pd.to_numeric(t[table.rounded]).round(9) + 0.0})
            for t in (ours, theirs)
        )
    both = ours.merge(theirs, on=key, how="outer", suffixes=("", "_r"), indicator=True)
    alone = (both["_merge"] != "both").to_numpy()

    def count(column: str, rows: pd.DataFrame, apart: np.ndarray) -> None:
        cell = f"{name}.{column}"
        out.compared[cell] += len(rows)
        _classify(out, cell, reasons, analyses, rows[apart].to_dict("records"), key)

    count("rows", both, alone)
    matched = both[~alone]
    for column in theirs.columns:
        if column in key or column in TEXTS or f"{column}_r" not in matched:
            continue
        apart = ~equal_cells(matched[column], matched[f"{column}_r"], table.close)
        count(column, matched, apart)


def _classify(
    out: StudyComparison,
    cell: str,
    reasons: Sequence[Reason],
    analyses: Mapping[int, Analysis],
    rows: Iterable[Mapping[Any, Any]],
    key: Sequence[str],
) -> None:
    """Count the rows of a cell that differ, by the first reason that concerns them."""
    column = cell.split(".")[1]
    possible = [reason for reason in reasons if re.match(reason.pattern, cell)]
    shown = 0
    for row in rows:
        analysis = analyses.get(int(row.get("analysis_id", 0) or 0), {})
        reason = next((r for r in possible if r.concerns(analysis, row)), None)
        if reason is not None:
            out.explained[f"{reason.kind}: {reason.words}"] += 1
            continue
        out.differ[cell] += 1
        where = ", ".join(f"{k}={row[k]}" for k in key)
        out.apart[f"{cell} ({where})"] = row.get(column), row.get(f"{column}_r")
        shown += 1
        if shown <= 3:
            found = row["_merge"] if column == "rows" else f"{row[column]} / {row[f'{column}_r']}"
            out.examples.append(f"{cell} ({where}): {found}")


def equal_cells(ours: pd.Series[Any], theirs: pd.Series[Any], close: float) -> np.ndarray:
    """Mark equal cells: equal texts, or numbers within the tolerance, missing ones included."""
    a, b = (pd.to_numeric(c, errors="coerce").to_numpy(float) for c in (ours, theirs))
    with np.errstate(invalid="ignore"):
        numbers = (a == b) | (np.abs(a - b) <= close * np.maximum(1.0, np.abs(b)))
    absent = theirs.isna() | (theirs.astype(str).str.strip() == "NA")
    missing = ours.isna().to_numpy() & absent.to_numpy()
    return numbers | missing | (ours.astype(str) == theirs.astype(str)).to_numpy()


def summary_lines(studies: Sequence[StudyComparison]) -> list[str]:
    """Return Markdown tables of studies by class, of cells by table, and of cells by reason."""
    verdicts = Counter(study.verdict for study in studies)
    lines = ["| studies | " + " | ".join(CLASSES) + " |", "|---:|" + "---:|" * len(CLASSES)]
    lines.append(f"| {len(studies):,} | " + " | ".join(f"{verdicts[c]:,}" for c in CLASSES) + " |")
    compared, differ, explained = (
        sum((getattr(study, name) for study in studies), Counter())
        for name in ("compared", "differ", "explained")
    )
    lines += ["", "| table | cells | differ without a reason |", "|---|---:|---:|"]
    for table in sorted({cell.split(".")[0] for cell in compared}):
        numbers = [
            sum(n for cell, n in counter.items() if cell.startswith(f"{table}."))
            for counter in (compared, differ)
        ]
        lines.append(f"| {table} | " + " | ".join(f"{n:,}" for n in numbers) + " |")
    lines.append(f"| all | {compared.total():,} | {differ.total():,} |")
    lines += ["", "| cells | class | reason |", "|---:|---|---|"]
    for reason, n in explained.most_common():
        kind, words = reason.split(": ", 1)
        lines.append(f"| {n:,} | {kind} | {words} |")
    return lines
