"""Columns of sparse covariates, put together from the entries of one analysis after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Columns"]


@dataclass(frozen=True)
class _Part:
    """Columns of one analysis, ascending; without ``values`` where all are 1."""

    ids: NDArray
    sizes: NDArray
    rows: NDArray
    values: NDArray | None


class Columns:
    """Collects (covariate, row, value) that arrive sorted, analysis by analysis.

    What it holds is little more than the rows and values themselves: the ids of entries are counted
    batch by batch, and parts are let go of as they are put together.
    """

    def __init__(self) -> None:
        self._parts: list[_Part] = []

    def add(self, batches: Iterable[Any]) -> None:
        """Take the entries of one analysis as Arrow batches, by covariate and then row.

        A covariate must not come in two analyses.
        """
        ids: list[NDArray] = []
        sizes: list[NDArray] = []
        rows: list[NDArray] = []
        values: list[NDArray] = []
        for batch in batches:
            if not batch.num_rows:
                continue
            found, counts = _runs(batch.column(0).to_numpy())
            if ids and ids[-1][-1] == found[0]:  # the covariate that the last batch ended with
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

    def together(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """All columns by ascending id: ids, indptr, rows, values. The parts are gone then."""
        parts, self._parts = self._parts, []
        ids = np.concatenate([p.ids for p in parts] or [np.empty(0, np.int64)])
        sizes = np.concatenate([p.sizes for p in parts] or [np.empty(0, np.int64)])
        order = np.argsort(ids, kind="stable")
        indptr = np.concatenate(([0], np.cumsum(sizes[order]))).astype(np.int64)
        begins = np.empty(len(ids), dtype=np.int64)  # where each column of a part goes
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
    """The distinct values of a sorted array, and how often each stands there."""
    first = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    return ids[first], np.diff(np.append(first, len(ids)))
