"""Ratios from their logarithms, and their names."""

from __future__ import annotations

import math

from steropes.models.families.family import Family
from steropes.models.families.response_families import LOGISTIC, POISSON
from steropes.models.families.survival_families import COX, FINE_GRAY, POOLED

__all__ = ["RATIO_NAMES", "ratio_name", "ratio_of"]

# The families of the kinds of outcome models, and the ratios that these estimate.
FAMILIES: dict[str, Family] = {
    "cox": COX, "fine-gray": FINE_GRAY, "logistic": LOGISTIC, "poisson": POISSON,
    "pooled logistic": POOLED,
}  # fmt: skip
RATIO_NAMES = {kind: str(family.ratio) for kind, family in FAMILIES.items()}
RATIO_NAMES["pooled logistic"] += " by period"

# Suffix of the name of a ratio with errors that take weights for counts of people.
NOT_ROBUST = " with model-based errors, not robust ones, despite weights"


def ratio_name(kind: str, *, weighted: bool, interval: str) -> str:
    """Name the ratio of an outcome model, and its errors if they ignore that it is weighted.

    Parameters
    ----------
    kind, interval : str
        The kind of model and of interval, as in `OutcomeModel`.
    """
    name = RATIO_NAMES.get(kind, "ratio")
    return name + NOT_ROBUST if weighted and interval in ("profile", "wald") else name


def ratio_of(log_ratio: float) -> float:
    """Compute the exponential of a log ratio; infinite if it overflows, NaN for NaN."""
    # The exponential of larger numbers is no finite float.
    return math.inf if log_ratio > 709.0 else math.exp(log_ratio)
