"""Rows of tables for release: changes of single rows, and suppressed counts as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd

from steropes.studies.disclosure.small_cell_suppression import Bound

__all__ = ["cell", "column", "each_row", "signed"]


def each_row(
    table: pd.DataFrame, change: Callable[[dict[object, object]], dict[object, object] | None]
) -> pd.DataFrame:
    """Apply a change to each row, and omit the rows for which it returns None."""
    changed = map(change, table.to_dict("records"))
    rows = [row for row in changed if row is not None]
    return pd.DataFrame(rows, columns=list(table.columns)) if rows else table.iloc[:0]


def signed(n: int | Bound | None) -> float:
    """Write a released count as R's results model does: minus a limit that it is below."""
    if n is None:
        return float("nan")
    return -float(n.limit) if isinstance(n, Bound) else float(n)


def column(values: Iterable[int | Bound | None]) -> Any:
    """Make a column of released counts; integers unless one is missing."""
    found = np.array([signed(v) for v in values], dtype=float)
    return found if np.isnan(found).any() else found.astype(np.int64)


def cell(n: Any) -> int | Bound | None:
    """Read a count that `signed` wrote."""
    if n is None or pd.isna(n):
        return None
    return Bound(-int(n)) if n < 0 else int(n)
