"""Recovery of ties between risk scores that differ only by rounding."""

from __future__ import annotations

import numpy as np

__all__ = ["merge_rounding_ties"]

# Scores whose difference is below this share of the largest score are equal.
ROUNDING = 1e-12


def merge_rounding_ties(score: np.ndarray) -> np.ndarray:
    """Make scores equal if they differ only by rounding, (n,).

    A product with X sums a row's columns in an order that depends on the position of the row, so
    that people with the same values may differ in the last digit. They would then no longer count
    as ties.
    """
    finite = np.abs(score[np.isfinite(score)])
    near = ROUNDING * float(finite.max(initial=0.0))
    by = np.argsort(score, kind="stable")
    ascending = score[by]
    with np.errstate(invalid="ignore"):  # the difference of two infinite scores
        first = np.flatnonzero(np.append(True, np.diff(ascending) > near)[: len(score)])
    out = np.empty(len(score))
    out[by] = np.repeat(ascending[first], np.diff(np.append(first, len(score))))
    return out
