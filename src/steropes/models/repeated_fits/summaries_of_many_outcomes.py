"""Summaries of the fits of many outcomes: as one tidy table, and as stored results."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from ...fit.fit_checkpoints import Packing

__all__ = ["PACKING", "OutcomeSummary", "tidy_table"]

OutcomeSummary = tuple[pd.DataFrame | None, bool, str]  # summary, whether converged, note


def _pack(
    parts: dict[str, OutcomeSummary],
) -> tuple[dict[str, np.ndarray], list[dict[str, object]]]:
    """Convert summaries to arrays of numbers, and their names to JSON."""
    arrays: dict[str, np.ndarray] = {}
    facts = []
    for number, (name, (table, converged, note)) in enumerate(parts.items()):
        fact: dict[str, object] = {"name": name, "converged": converged, "note": note}
        if table is not None:
            arrays[str(number)] = table.to_numpy(np.float64)
            fact |= {"columns": list(table.columns), "rows": list(table.index)}
        facts.append(fact)
    return arrays, facts


def _unpack(
    arrays: Mapping[str, np.ndarray], facts: list[dict[str, object]]
) -> dict[str, OutcomeSummary]:
    """Convert the results of `_pack` back to summaries."""
    parts: dict[str, OutcomeSummary] = {}
    for number, fact in enumerate(facts):
        table = None
        if "columns" in fact:
            table = pd.DataFrame(arrays[str(number)], fact["rows"], fact["columns"])
        parts[str(fact["name"])] = table, bool(fact["converged"]), str(fact["note"])
    return parts


PACKING = Packing(_pack, _unpack)


def tidy_table(parts: Mapping[str, OutcomeSummary], names: list[str]) -> pd.DataFrame:
    """Concatenate the summaries of all outcomes."""
    like = next((table for table, *_ in parts.values() if table is not None), None)
    if like is None:
        like = pd.DataFrame({"coef": np.nan}, names)
    none = like.map(lambda _: np.nan)
    tables = [none if table is None else table for table, *_ in parts.values()]
    rows = [len(table) for table in tables]

    def repeated(values: list) -> np.ndarray:
        return np.repeat(np.array(values, object), rows)

    out = {
        "outcome": repeated(list(parts)),
        "coefficient": np.concatenate([table.index.to_numpy() for table in tables]),
    }
    out |= {column: np.concatenate([t[column].to_numpy() for t in tables]) for column in like}
    converged = np.repeat([converged for _, converged, _ in parts.values()], rows)
    note = repeated([note for *_, note in parts.values()])
    return pd.DataFrame({**out, "converged": converged, "note": note})
