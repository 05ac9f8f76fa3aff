"""Sparse columns of covariates, collected from the sorted entries of each analysis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Columns"]


@dataclass(frozen=True)
class _Part:
    """The columns of one analysis by ascending id; ``values`` is None if all are 1."""

    ids: NDArray
    sizes: NDArray
    rows: NDArray
    values: NDArray | None


class Columns:
    """Collector of sorted (covariate, row, value) entries, one analysis after another.

    Memory is close to that of the rows and values: the ids of entries are counted batch by batch,
    and the columns of each analysis are freed as they are concatenated.
    """

    def __init__(self) -> None:
        self._parts: list[_Part] = []

    def add(self, batches: Iterable[Any]) -> None:
        """Append the entries of one analysis: Arrow batches sorted by covariate and then row.

        A covariate must not occur in two analyses.
        """
        ids: list[NDArray] = []
        sizes: list[NDArray] = []
        rows: list[NDArray] = []
        values: list[NDArray] = []
        for batch in batches:
            if not batch.num_rows:
                continue
            found, counts = _runs(batch.column(0).to_numpy())
            if ids and ids[-1][-1] == found[0]:  # This covariate continues the previous batch.
                sizes[-1][-1] += counts[0]
                found, counts = found[1:], counts[1:]
            if len(found):
                ids.append(found)
                sizes.append(counts)
            rows.append(batch.column(1).to_numpy())
            values.append(batch.column(2).to_numpy())
        if not rows:
            return
        only_ones = all((v == 1).all() for v in values)
        self._parts.append(
            _Part(
                np.concatenate(ids),
                np.concatenate(sizes),
                np.concatenate(rows).astype(np.int32, copy=False),
                None if only_ones else np.concatenate(values).astype(np.float32, copy=False),
            )
        )

    def concatenate(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Return ids, indptr, rows and values of all columns by ascending id, and empty this."""
        parts, self._parts = self._parts, []
        ids = np.concatenate([p.ids for p in parts] or [np.empty(0, np.int64)])
        sizes = np.concatenate([p.sizes for p in parts] or [np.empty(0, np.int64)])
        order = np.argsort(ids, kind="stable")
        indptr = np.concatenate(([0], np.cumsum(sizes[order]))).astype(np.int64)
        begins = np.empty(len(ids), dtype=np.int64)  # The destination of each column.
        begins[order] = indptr[:-1]
        rows = np.empty(indptr[-1], dtype=np.int32)
        values = np.ones(indptr[-1], dtype=np.float32)
        first = 0
        parts.reverse()
        while parts:
            part = parts.pop()
            starts = begins[first : first + len(part.ids)]
            first += len(part.ids)
            for start, size, at in zip(
                starts, part.sizes, np.cumsum(part.sizes) - part.sizes, strict=True
            ):
                rows[start : start + size] = part.rows[at : at + size]
                if part.values is not None:
                    values[start : start + size] = part.values[at : at + size]
        return ids[order], indptr, rows, values


def _runs(ids: NDArray) -> tuple[NDArray, NDArray]:
    """Return the distinct values of a sorted array and their counts."""
    first = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    return ids[first], np.diff(np.append(first, len(ids)))
