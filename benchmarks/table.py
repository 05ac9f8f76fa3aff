"""The table of a benchmark, for the terminal and the history of runs."""

from __future__ import annotations

import datetime
import platform
from pathlib import Path

import numpy as np
import scipy

from .tasks import Task

__all__ = ["append", "show"]

HISTORY = Path(__file__).resolve().parent / "history" / "runs.md"
COLUMNS = "program, seconds, ratio, passes, peak memory, beyond X, objective gap, KKT / λ, notes"
HEAD = "| " + " | ".join(COLUMNS.split(", ")) + " |"


def show(task: Task, result: dict, command: str) -> str:
    """Markdown: what was measured, where, and one row a program."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    rows = result["rows"]
    ours = rows[0]["seconds"]
    lines = [
        f"### {task.name}, {now}",
        "",
        f"`{command}`",
        "",
        f"n = {result['n']:,}, p = {result['p']:,}, {result['nnz']:,} ones "
        f"({result['nnz'] / result['n'] / result['p']:.2%}), {result['events']:.2%} events; "
        f"{result['source']}. λ = {task.lam:.4g}"
        + (f"; {task.repeats} × {task.folds} folds." if task.folds else ".")
        + f" One pass = {result['pass'] * 1e3:.1f} ms. Target: {task.target}.",
        "",
        f"{platform.processor() or platform.machine()}, {result['n_jobs']} threads, Python "
        f"{platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}.",
        "",
        HEAD,
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_row(row, ours, result["pass"]) for row in rows]
    return "\n".join(lines) + "\n"


def _row(row: dict, ours: float, a_pass: float) -> str:
    name = f"{row['peer']} {row.get('version', '')}".strip()
    if "failed" in row:
        return f"| {name} | – | | | | | | | {row['failed']} |"
    notes = []
    if "peer_tol" in row:
        notes.append(f"tol {row['peer_tol']:.0e}")
    if row.get("early"):
        notes.append("stopped early")
    if row["peer"] == "survival":
        notes.append("no lasso: its time without penalty")
    if "variances" in row:
        notes.append(f"{len(row['variances'])} variances, best {row['chosen']:.3g}")
    if "nonzero" in row:
        notes.append(f"{row['nonzero']} nonzero, {row['steps']} steps")
    beyond = ""
    if "before" in row:
        extra = row["peak"] - row["before"]
        beyond = f"{extra / 1e6:,.0f} MB = {extra / row['x_bytes']:.2f} X"
    cells = [
        name,
        f"{row['seconds']:.3g}",
        f"{row['seconds'] / ours:.3g}",
        f"{row['seconds'] / a_pass:,.0f}",
        f"{row['peak'] / 1e6:,.0f} MB" if "peak" in row else "",
        beyond,
        f"{row['gap']:.1e}" if "gap" in row else "",
        f"{row['kkt']:.1e}" if "kkt" in row else "",
        "; ".join(notes),
    ]
    return "| " + " | ".join(cells) + " |"


def append(text: str) -> None:
    """Add a table to the history of runs."""
    with HISTORY.open("a", encoding="utf-8") as file:
        file.write("\n" + text)
