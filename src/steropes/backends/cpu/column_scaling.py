"""Centre and size of dense columns, in as few passes over the memory as possible."""

from __future__ import annotations

from numba import njit

from .compilation.kernel_compiler_options import ORDERED

__all__ = ["add_ends_and_sums", "add_squares", "scale_and_shift"]


@njit(**ORDERED)
def add_ends_and_sums(x, used, share, least, most, total):
    """Extend the ends of each column by the rows used of x (n, p); add them times ``share``."""
    n, p = x.shape
    for i in range(n):
        if used[i]:
            for j in range(p):
                v = x[i, j]
                least[j] = min(least[j], v)
                most[j] = max(most[j], v)
                total[j] += share * v


@njit(**ORDERED)
def add_squares(x, used, scale, shift, square):
    """Add the squares of x / scale − shift of each column in the rows used, x (n, p)."""
    n, p = x.shape
    for i in range(n):
        if used[i]:
            for j in range(p):
                v = x[i, j] / scale[j] - shift[j]
                square[j] += v * v


@njit(**ORDERED)
def scale_and_shift(x, scale, shift, out):
    """Compute out = x / scale − shift of each column, (n, p), which may be x itself."""
    n, p = x.shape
    for i in range(n):
        for j in range(p):
            out[i, j] = x[i, j] / scale[j] - shift[j]
