"""Elementwise arithmetic on arrays with many rows, in blocks of rows on several threads.

A formula of ten NumPy operations would read and write memory ten times. Blocks stay in the cache,
and each is computed by one thread, so that results do not depend on the number of threads. Arrays
on a device are computed there in one piece.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .backend_interface import Array
from .thread_pool import ThreadPool

__all__ = ["ENTRIES_AT_ONCE", "map_rows"]

# This many entries of an array are processed together. For 14,000 columns and 100 replicates,
# violations and their units take 19 ms of one core and 12 ms of two, and 26 ms in one piece; with a
# quarter or four times as many entries two cores take 22 and 14 ms.
ENTRIES_AT_ONCE = 1 << 15


def map_rows(
    pool: ThreadPool | None, function: Callable[..., tuple[Array, ...]], *arrays: Array
) -> tuple[Array, ...]:
    """Apply an elementwise function to blocks of rows.

    Parameters
    ----------
    pool : ThreadPool or None
        Without one, blocks are processed one after another.
    function : callable
        Takes rows of the arrays and returns a tuple of arrays with as many rows. It takes its
        functions from `array_namespace` if the arrays may be on a device.
    *arrays : (k, B), (M, k, B) or (1, B) arrays
        All on the host or all on one device. Rows are those of the last axis but one. Arrays with
        a single row are not cut.
    """
    if not isinstance(arrays[0], np.ndarray):
        return function(*arrays)
    k, B = max(x.shape[-2] for x in arrays), max(x.shape[-1] for x in arrays)
    step = max(1, ENTRIES_AT_ONCE // max(B, 1))
    if k <= step:
        return function(*arrays)
    out: list[np.ndarray] = []
    handling = np.geterr()  # Other threads have their own.

    def block(a: int, b: int) -> None:
        with np.errstate(**handling):
            results = function(*(x[..., a:b, :] if x.shape[-2] == k else x for x in arrays))
        if not out:  # The first block runs alone and determines the shapes.
            shapes = [(*y.shape[:-2], k, y.shape[-1]) for y in results]
            out.extend(np.empty(shape, y.dtype) for shape, y in zip(shapes, results, strict=True))
        for whole, part in zip(out, results, strict=True):
            whole[..., a:b, :] = part

    block(0, step)
    rest = [(a, min(a + step, k)) for a in range(step, k, step)]
    if pool is None:
        for a, b in rest:
            block(a, b)
    else:
        # The pool's record of the time of a chunk is common to all formulas, whose costs are alike.
        pool.map(block, rest, sum(x.size for x in arrays))
    return tuple(out)
