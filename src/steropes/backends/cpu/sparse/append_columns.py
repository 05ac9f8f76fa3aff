"""Appending of columns to a matrix stored by rows."""

from __future__ import annotations

import numpy as np
from numba import njit

from ...thread_pool import ThreadPool, balanced_chunks
from ..compilation.kernel_compiler_options import OPTIONS
from ..compilation.unchecked_indexing import entry, put
from .sparse_lines import CHUNKS, NO_DATA, Lines

__all__ = ["append_lines"]


def append_lines(x: Lines, y: Lines, shift: int, width: int, pool: ThreadPool) -> Lines:
    """Append each line of y to the same line of x, with ``shift`` added to y's indices.

    This streams through both matrices, whereas a conversion from columns writes at random.
    """
    n = len(x.starts)
    pointers = np.zeros(n + 1, np.int64)
    np.cumsum((x.ends - x.starts) + (y.ends - y.starts), out=pointers[1:])
    # One type for all, the narrower, or the kernel is compiled for each of the combinations.
    kinds = (x.indices.dtype, y.indices.dtype, np.dtype(np.int32))
    index = min(kinds, key=lambda kind: kind.itemsize)
    if width > np.iinfo(np.uint16).max:
        index = np.dtype(np.int32)
    indices = np.empty(int(pointers[-1]), index)
    x, y = (z._replace(indices=z.indices.astype(index, copy=False)) for z in (x, y))
    data = np.empty(len(indices)) if x.data.size or y.data.size else NO_DATA
    pool.map(
        lambda a, b: _append(
            x.starts, x.ends, x.indices, x.data, y.starts, y.ends, y.indices, y.data, shift,
            pointers, indices, data, a, b,
        ),
        balanced_chunks(pointers, CHUNKS),
    )  # fmt: skip
    return Lines(pointers[:-1], pointers[1:], indices, data, width)


@njit(**OPTIONS)
def _append(
    starts, ends, indices, data, starts2, ends2, indices2, data2, shift, pointers, out_indices,
    out_data, a0, a1,
):  # fmt: skip
    """Write lines a0 … a1 − 1: the first matrix's entries, then the second's, shifted."""
    for a in range(a0, a1):
        at = pointers[a]
        for k in range(starts[a], ends[a]):
            put(out_indices, at, entry(indices, k))
            if out_data.size != 0:
                put(out_data, at, 1.0 if data.size == 0 else entry(data, k))
            at += 1
        for k in range(starts2[a], ends2[a]):
            put(out_indices, at, entry(indices2, k) + shift)
            if out_data.size != 0:
                put(out_data, at, 1.0 if data2.size == 0 else entry(data2, k))
            at += 1
