"""Means and standard errors of the folds' scores, and the comparison of scores."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..design_matrix.column_storage import power_of_two
from .variance_path_constants import DEFAULT, PathPolicy

__all__ = ["best_of", "comparable_means", "negligible_difference", "readable", "standard_error"]


def standard_error(s: np.ndarray) -> float:
    """Compute the standard error of the folds' mean score, NaN for one fold or scores of −∞."""
    if len(s) < 2 or not np.isfinite(s).all():
        return float("nan")
    size = float(power_of_two(np.abs(s).max()))  # exact, and squares cannot overflow
    return size * float((s / size).std(ddof=1) / np.sqrt(len(s)))


def negligible_difference(table: pd.DataFrame, at: int, policy: PathPolicy) -> float:
    """Return the difference of scores that a search ignores at a place of its table."""
    se, mean = float(table["se"].iloc[at]), table["mean"].to_numpy()
    if np.isfinite(se):
        return policy.flat * se
    return policy.flat_share * float(np.ptp(mean[np.isfinite(mean)]))


def comparable_means(mean: np.ndarray) -> np.ndarray:
    """Replace scores of −∞ (impossible held-out rows) by one that is worse than all others."""
    known = np.isfinite(mean)
    if known.all() or not known.any():
        return mean if known.all() else np.zeros(len(mean))
    worst = float(mean[known].min()) - 10 * max(1.0, float(np.ptp(mean[known])))
    return np.where(known, mean, worst)


def best_of(mean: np.ndarray) -> int:
    """Return the place of the best score, for equal scores that of the smallest variance.

    The smallest variance gives the simplest of equal models. Scores that are equal up to rounding
    count as equal, because rounding depends on the storage of X.
    """
    known = mean[np.isfinite(mean)]  # Others are −∞.
    if len(known) == 0:
        return 0
    return int(
        np.argmax(mean >= known.max() - DEFAULT.tied_difference * float(np.abs(known).max()))
    )


def readable(variance: float) -> float:
    """Round a variance to three digits, which rounding errors of scores do not change."""
    return float(f"{variance:.3g}")
