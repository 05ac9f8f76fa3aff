"""Scores that are the same but for rounding."""

from __future__ import annotations

import numpy as np

__all__ = ["merge_rounding_ties"]

ROUNDING = 1e-12  # of the largest score


def merge_rounding_ties(score: np.ndarray) -> np.ndarray:
    """Scores, (n,), of which those are equal that differ by rounding alone.

    A product with X adds up a row's columns in an order that depends on where the row is, so that
    people with the same values may differ in the last digit, and no longer count one half.
    """
    finite = np.abs(score[np.isfinite(score)])
    near = ROUNDING * float(finite.max(initial=0.0))
    by = np.argsort(score, kind="stable")
    ascending = score[by]
    with np.errstate(invalid="ignore"):  # of two that are infinite
        first = np.flatnonzero(np.append(True, np.diff(ascending) > near)[: len(score)])
    out = np.empty(len(score))
    out[by] = np.repeat(ascending[first], np.diff(np.append(first, len(score))))
    return out
