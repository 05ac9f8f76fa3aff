"""Conversion of chosen sparse columns to rows."""

from __future__ import annotations

import numpy as np

from ...thread_pool import ThreadPool
from . import sparse_product_kernels as sparse
from .cpu_chunk_sizes import CpuPolicy
from .sparse_lines import NO_DATA, Lines, index_type, pieces

__all__ = ["columns_to_rows"]


def columns_to_rows(
    pool: ThreadPool,
    policy: CpuPolicy,
    columns: list[tuple[Lines, np.ndarray]],
    position: np.ndarray,
    n: int,
    width: int,
) -> Lines:
    """Convert chosen columns to rows.

    Parameters
    ----------
    columns : list of (Lines, local numbers)
        The columns of each block and their increasing numbers in the result.
    position : (rows of X,) int array
        The model's row for each row of X; -1 leaves the row out.
    n, width : int
        Number of rows of the model and of columns.
    """
    # The type depends on the entries of all columns, so that a fit uses a single type.
    index = index_type(width, sum(len(x.indices) for x, _ in columns))
    counts, nowhere = np.zeros(n, np.int64), np.empty(0, index)
    # Threads process bands of rows, so that random writes stay in the cache.
    size = int(np.clip(len(position) // 4, policy.min_band_rows, policy.max_band_rows))
    bands = pieces(len(position), size)

    def count(r0: int, r1: int) -> None:
        for x, numbers in columns:
            sparse.csc_to_csr(
                x.starts, x.ends, x.indices, x.data, position, numbers, counts,
                nowhere, NO_DATA, r0, r1,
            )  # fmt: skip

    pool.map(count, bands)
    pointers = np.zeros(n + 1, np.int64)
    np.cumsum(counts, out=pointers[1:])
    starts, ends, cursor = pointers[:-1], pointers[1:], counts
    cursor[:] = starts
    valued = any(lines.data.size for lines, _ in columns)
    out_indices = np.empty(int(ends[-1]) if n else 0, index)
    out_data = np.empty(len(out_indices)) if valued else NO_DATA
    # Rows must be sorted, so blocks are merged in the order of the local numbers.
    runs = sorted(
        (
            (int(numbers[a]), lines, numbers, a, b)
            for lines, numbers in columns
            for a, b in _increasing_runs(numbers, [m for _, m in columns])
        ),
        key=lambda run: run[0],
    )

    def fill(r0: int, r1: int) -> None:
        for _, x, numbers, a, b in runs:
            sparse.csc_to_csr(
                x.starts[a:b], x.ends[a:b], x.indices, x.data, position,
                numbers[a:b], cursor, out_indices, out_data, r0, r1,
            )  # fmt: skip

    pool.map(fill, bands)
    return Lines(starts, ends, out_indices, out_data, width)


def _increasing_runs(numbers: np.ndarray, others: list[np.ndarray]) -> list[tuple[int, int]]:
    """Cut a block's local numbers where columns of another block intervene."""
    if len(numbers) == 0:
        return []
    if len(others) == 1:
        return [(0, len(numbers))]
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    edges = [0, *cuts.tolist(), len(numbers)]
    return list(zip(edges[:-1], edges[1:], strict=True))
