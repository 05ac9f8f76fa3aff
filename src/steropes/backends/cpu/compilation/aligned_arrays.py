"""Arrays aligned to cache lines, so that a row of eight doubles occupies exactly one line."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

__all__ = ["aligned", "aligned_empty", "aligned_zeros"]

# The size of a cache line in bytes.
CACHE_LINE = 64


def aligned_zeros(
    shape: tuple[int, ...],
    dtype: DTypeLike = np.float64,
    make: Callable[[int, DTypeLike], np.ndarray] = np.zeros,
) -> np.ndarray:
    """Create an array that starts at a cache line, filled with zeros or by ``make``."""
    size, each = math.prod(shape), np.dtype(dtype).itemsize
    whole = make(size + CACHE_LINE // each, dtype)
    first = -whole.ctypes.data % CACHE_LINE // each
    return whole[first : first + size].reshape(shape)


def aligned_empty(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Create an aligned array without initial values."""
    return aligned_zeros(shape, dtype, np.empty)


def aligned(x: np.ndarray) -> np.ndarray:
    """Return the array, copied if it is not contiguous and aligned."""
    if x.flags.c_contiguous and x.ctypes.data % CACHE_LINE == 0:
        return x
    out = aligned_zeros(x.shape, x.dtype)
    out[...] = x
    return out
