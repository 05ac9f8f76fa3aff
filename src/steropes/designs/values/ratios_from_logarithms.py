"""Ratios from their logarithms, infinite where the exponential would overflow."""

from __future__ import annotations

import math

__all__ = ["ratio_of"]


def ratio_of(log_ratio: float) -> float:
    """Compute the exponential of a log ratio; infinite if it overflows, NaN for NaN."""
    # The exponential of larger numbers is no finite float.
    return math.inf if log_ratio > 709.0 else math.exp(log_ratio)
