"""Ratios from their logarithms."""

from __future__ import annotations

import math

__all__ = ["ratio_of"]

LARGEST = 709.0  # The exponential of larger numbers is no finite float.


def ratio_of(log_ratio: float) -> float:
    """Compute the exponential of a log ratio; infinite if it overflows, NaN for NaN."""
    return math.inf if log_ratio > LARGEST else math.exp(log_ratio)
