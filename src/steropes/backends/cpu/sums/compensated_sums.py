"""Compensated sums, which recover the rounding error of each addition.

A running sum of n numbers is wrong by up to n roundings, and for similar numbers (such as the rates
of two groups of a million people) all roundings have the same sign. From about a million rows on,
this exceeds the differences of a loss or score that the last steps of a fit must resolve. The error
of an addition is itself a floating-point number (Knuth, The Art of Computer Programming, vol. 2,
4.2.2, theorem B), so the errors are summed separately. The result is then wrong by about two
roundings for any n (Neumaier 1974; Ogita, Rump and Oishi 2005, proposition 4.5).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from ..compilation.kernel_compiler_options import ORDERED

__all__ = ["EXACT", "sum_of", "two_sum"]

# Reassociation is disabled, because the compiler would conclude that all errors are zero.
EXACT = ORDERED


@njit(**ORDERED)
def two_sum(a, b):
    """Return the rounded sum a + b and its exact rounding error."""
    s = a + b
    part = s - a
    return s, (a - (s - part)) + (b - part)


@njit(**ORDERED)
def sum_of(total, lost):
    """Add a running total and its errors; an infinite total has no errors."""
    s = total + lost
    return s if s == s else total


def with_errors(sums: np.ndarray) -> np.ndarray:
    """Add arrays of running totals sums[0] and their errors sums[1]."""
    total, lost = sums
    return np.where(np.isnan(lost), total, total + lost)
