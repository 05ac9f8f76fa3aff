"""Indicator columns from a stream of the row numbers at which each is one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ..errors import DataError
from .column_storage import SparseBlock

__all__ = ["block_of_entries"]


def block_of_entries(
    batches: Iterable[tuple[np.ndarray, np.ndarray]], n_rows: int, names: Sequence[str]
) -> SparseBlock:
    """Build a block of indicator columns; see `Design.from_entries`."""
    p = len(names)
    index = np.int32 if n_rows <= np.iinfo(np.int32).max else np.int64
    counts = np.zeros(p, np.int64)
    parts: list[np.ndarray] = []
    last = (-1, -1)
    for rows, columns in batches:
        rows, columns = np.asarray(rows, np.int64), np.asarray(columns, np.int64)
        if len(rows) == 0:
            continue
        if rows.min() < 0 or rows.max() >= n_rows:
            raise DataError(f"Entry row {rows.max()} is outside 0 … {n_rows - 1}.")
        if columns.min() < 0 or columns.max() >= p:
            raise DataError(f"Entry column {columns.max()} is outside 0 … {p - 1}.")
        step = np.diff(columns, prepend=last[0])
        rise = np.diff(rows, prepend=last[1])
        bad = (step < 0) | ((step == 0) & (rise <= 0))
        if bad.any():
            at = int(np.argmax(bad))
            raise DataError(
                f"Entries must be sorted by column, then row, without duplicates; row "
                f"{rows[at]} of column {names[columns[at]]!r} is not."
            )
        last = (int(columns[-1]), int(rows[-1]))
        counts += np.bincount(columns, minlength=p)
        parts.append(rows.astype(index))
    indices = np.concatenate(parts) if parts else np.empty(0, index)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    return SparseBlock.indicator(n_rows, indptr, indices)
