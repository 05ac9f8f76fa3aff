"""Ratios from their logarithms, and their names."""

from __future__ import annotations

import math

__all__ = ["RATIO_NAMES", "ratio_of"]

# The ratio that each kind of outcome model estimates.
RATIO_NAMES = {
    "cox": "hazard ratio",
    "fine-gray": "subdistribution hazard ratio",
    "logistic": "odds ratio",
    "poisson": "rate ratio",
    "pooled logistic": "odds ratio by period",
}


def ratio_of(log_ratio: float) -> float:
    """Compute the exponential of a log ratio; infinite if it overflows, NaN for NaN."""
    # The exponential of larger numbers is no finite float.
    return math.inf if log_ratio > 709.0 else math.exp(log_ratio)
