"""Sums that keep the digits that each addition rounds away.

A running sum of n numbers is off by up to n roundings, and where the numbers are alike (the rates
of two groups of a million people, say) the roundings all go the same way. From about a million
rows on, that is more than the differences of a loss, or of a score, that the last steps of a fit
have to see. The error of an addition is itself a floating-point number (Knuth, The Art of Computer
Programming, vol. 2, 4.2.2, theorem B), so it is added up apart: the sum is then off by two
roundings or so, whatever n is (Neumaier 1974; Ogita, Rump and Oishi 2005, proposition 4.5).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .kernel_options import ORDERED

__all__ = ["EXACT", "sum_of", "two_sum"]

# No reassociation: the compiler would conclude that the error of an addition is zero.
EXACT = ORDERED


@njit(**ORDERED)
def two_sum(a, b):
    """Return a + b as it is rounded, and the error of that, which has no rounding."""
    s = a + b
    part = s - a
    return s, (a - (s - part)) + (b - part)


@njit(**ORDERED)
def sum_of(total, lost):
    """Return the sum of a running total and of its errors; an infinite total has none."""
    s = total + lost
    return s if s == s else total


def with_errors(sums: np.ndarray) -> np.ndarray:
    """Return running totals sums[0] with their errors sums[1], for arrays of them."""
    total, lost = sums
    return np.where(np.isnan(lost), total, total + lost)
