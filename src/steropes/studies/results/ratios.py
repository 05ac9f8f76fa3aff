"""Ratios of their logarithms, as tables have them."""

from __future__ import annotations

import math

__all__ = ["ratio_of"]

LARGEST = 709.0  # whose exponential a float holds


def ratio_of(log_ratio: float) -> float:
    """e to the power of a log ratio; infinite where no float holds it, NaN of NaN."""
    return math.inf if log_ratio > LARGEST else math.exp(log_ratio)
