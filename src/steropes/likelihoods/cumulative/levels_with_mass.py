"""Selection of the levels with positive mass under interval censoring.

A level that some row covers alone always has mass. Others (the innermost intervals between a
right- and a left-censored outcome) may end without mass: their two thresholds meet and α reaches
its boundary. Such levels are dropped during the fit. At the end, the derivative of the likelihood
in the mass of each dropped level decides whether it is restored.
"""

from __future__ import annotations

import numpy as np

from ..likelihood_constants import LEVELS
from .cumulative_loss import Thresholds
from .turnbull_intervals import Levels

__all__ = [
    "always_with_mass",
    "cover_all_rows",
    "expand_thresholds",
    "levels_to_restore",
    "restrict_levels",
    "transfer_thresholds",
]


def always_with_mass(levels: Levels) -> np.ndarray:
    """Find the levels that some row covers alone, (M,) bool."""
    out = np.zeros(levels.M, bool)
    out[levels.up[levels.up == levels.low + 1]] = True
    return out


def cover_all_rows(levels: Levels, keep: np.ndarray) -> np.ndarray:
    """Extend ``keep`` by the levels of rows that would otherwise have none."""
    count = np.concatenate([[0], np.cumsum(keep)])
    for i in np.flatnonzero(count[levels.up + 1] == count[levels.low + 1]):
        keep = keep.copy()
        keep[levels.low[i] + 1 : levels.up[i] + 1] = True
    return keep


def restrict_levels(levels: Levels, keep: np.ndarray) -> Levels:
    """Map the rows to the levels in ``keep``."""
    new = np.concatenate([np.cumsum(keep) - 1, [-1]])  # index −1 stays −1
    low, up = new[levels.low], new[levels.up]
    M = int(keep.sum())
    level = np.where(up < M - 1, up, low + 1)
    order = np.argsort(level, kind="stable")
    pointers = np.concatenate([[0], np.cumsum(np.bincount(level, minlength=M))])
    low, up = low[order].astype(np.int32), up[order].astype(np.int32)
    wide = (low >= 0) & (up < M - 1) & (up - low > 1)
    return Levels(levels.values[keep], levels.order[order], low, up, pointers, not wide.any())


def expand_thresholds(alpha: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Expand α to the thresholds of all levels, (M − 1,)."""
    padded = np.concatenate([alpha, [np.inf]])
    return padded[np.maximum(np.cumsum(keep)[:-1] - 1, 0)]


def levels_to_restore(keep: np.ndarray, g: np.ndarray, weight_sum: float, tol: float) -> np.ndarray:
    """Find dropped levels whose mass would raise the likelihood, one per run, (M,) bool.

    Of each run of dropped levels, the one with the largest derivative is chosen.

    Parameters
    ----------
    g : (M − 1,) array
        Gradient of the loss over the thresholds of all levels.
    """
    out = np.zeros(len(keep), bool)
    run = np.cumsum(keep)[:-1]
    limit = max(tol, LEVELS.zero_derivative) * np.sqrt(weight_sum)
    for block in np.unique(run[~keep[:-1]]):
        at = np.flatnonzero(run == block)
        # Lowering the first thresholds of the run opens the level after them.
        part = np.cumsum(g[at])[:-1]
        worst = int(part.argmax()) if len(part) else 0
        if len(part) and part[worst] > limit:
            out[at[worst] + 1] = True
    return out


def transfer_thresholds(alpha: np.ndarray, keep: np.ndarray, change: np.ndarray) -> Thresholds:
    """Convert thresholds over the levels ``keep`` to thresholds over ``change``."""
    alpha = expand_thresholds(alpha, keep)[np.flatnonzero(change)[:-1]]
    delta = np.diff(alpha, prepend=0.0)
    delta[0] = 1.0
    # A restored level opens by a hundredth of the narrower neighbouring gap.
    for k in np.flatnonzero(delta <= 0):
        beside = [d for d in (delta[k - 1] if k > 1 else 1.0, *delta[k + 1 : k + 2]) if d > 0]
        delta[k] = 0.01 * min([*beside, 1.0])
    return Thresholds.build(float(alpha[len(alpha) // 2]), len(alpha) // 2, delta)
