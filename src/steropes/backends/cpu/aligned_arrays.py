"""Arrays that begin with a cache line: a row of eight doubles then is one line, and not in two."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["aligned", "aligned_empty", "aligned_zeros"]

CACHE_LINE = 64  # bytes


def aligned_zeros(shape: tuple[int, ...], dtype: Any = np.float64, make: Any = np.zeros) -> Any:
    """Zeros that begin with a cache line: a block of replicates then is one, and not in two."""
    size, each = int(np.prod(shape)), np.dtype(dtype).itemsize
    whole = make(size + CACHE_LINE // each, dtype)
    first = -whole.ctypes.data % CACHE_LINE // each
    return whole[first : first + size].reshape(shape)


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """The same where all that is read is written first."""
    out: np.ndarray = aligned_zeros(shape, dtype, np.empty)
    return out


def aligned(x: np.ndarray) -> np.ndarray:
    """The array, contiguous and beginning with a cache line."""
    if x.flags.c_contiguous and x.ctypes.data % CACHE_LINE == 0:
        return x
    out = aligned_zeros(x.shape, x.dtype)
    out[...] = x
    return out
