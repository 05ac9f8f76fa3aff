"""The table of a benchmark's records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .plan import STAGES, Stage

__all__ = ["table"]

COUNTS = ("steps", "Hessians", "models of replicates", "models without a step", "rounds",
          "products", "iterations", "host reads")  # fmt: skip


def table(records: Mapping[str, dict[str, Any]], stages: Mapping[str, Stage] = STAGES) -> str:
    """Return a table of the fits against their targets, and lines for everything else."""
    columns = ("task", "target", "seconds", "first", *COUNTS, "GB", "optimality", "")
    rows, lines = [columns, ("---",) * len(columns)], []
    for name, stage in stages.items():
        record = records.get(name)
        if record is None:
            lines.append(f"{name}: missing")
        elif "optimality" in record:
            rows.append(_row(name, stage, record))
        else:
            lines.append(f"{name}: {_state(record)}")
            lines += [f"    {line}" for line in record.get("differences", [])]
            lines += [f"    {k}: {_value(v)}" for k, v in record.items() if _measured(v)]
        if record is not None and "split" in record:
            parts = ", ".join(f"{phase} {x:.2f} s" for phase, x in record["split"].items())
            lines.append(f"{name}: {parts}")
    out = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*(out if len(rows) > 2 else []), "", *lines])


def _row(name: str, stage: Stage, record: dict[str, Any]) -> tuple[str, ...]:
    """Return the row of a fit."""
    counts, memory = record.get("counts", {}), record.get("peak memory")
    first = record.get("first seconds")
    return (
        name, f"{stage.target:g}" if stage.target else "",
        _seconds(record.get("seconds")), _seconds(first),
        *(f"{counts[key]:,}" if key in counts else "" for key in COUNTS),
        "" if memory is None else f"{memory / 1e9:.1f}", f"{record['optimality']:.0e}",
        "" if record["ok"] else _state(record),
    )  # fmt: skip


def _seconds(x: float | None) -> str:
    return "" if x is None else f"{x:.3g}"


def _state(record: dict[str, Any]) -> str:
    """Say how a stage ended."""
    cases = f", {record['cases']} cases" if "cases" in record else ""
    error = f": {record['error']}" if "error" in record else ""
    return f"{'passed' if record['ok'] else 'FAILED'}{cases}{error}"


def _measured(value: Any) -> bool:
    """Return whether a value is a figure of a stage: a rate, or a time with its share."""
    return (isinstance(value, float) and value > 1e6) or (
        isinstance(value, dict) and "share" in value
    )


def _value(value: Any) -> str:
    if isinstance(value, dict):
        share = f"{100 * value['share']:.0f} % of {value['of']}"
        return f"{1e3 * value['seconds']:.3g} ms, {share}"
    return f"{value:.3g} per second"
