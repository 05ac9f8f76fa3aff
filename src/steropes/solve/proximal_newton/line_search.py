"""Backtracking line search of several replicates (Nocedal and Wright 2006, algorithm 3.1)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..data_term import DataTerm

__all__ = ["backtrack", "rounding_slack"]

# This share c₁ of the predicted decrease suffices (Armijo's rule).
SUFFICIENT_DECREASE = 1e-4
# A sum over rows has this relative rounding error.
LOSS_ROUNDING = 2e-14
# A step is halved at most this many times.
MAX_HALVINGS = 40


def rounding_slack(term: DataTerm, objective: np.ndarray) -> np.ndarray:
    """Return the increase (lanes,) of the objectives that may be rounding error."""
    return LOSS_ROUNDING * (np.abs(objective) + term.total * term.dispersion)


def backtrack(
    value_at: Callable[[np.ndarray], np.ndarray], objective: np.ndarray, slope: np.ndarray,
    slack: np.ndarray, todo: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Halve the steps of the replicates ``todo`` until each lowers its objective sufficiently.

    Parameters
    ----------
    value_at : callable
        Takes step lengths (lanes,) and returns the objectives there. The last call is at the
        lengths returned.
    objective, slope : (lanes,) arrays
        Objectives at the start, and their derivatives along the steps or upper bounds of these.
    slack : (lanes,) array
        See `rounding_slack`.
    todo : (lanes,) bool array

    Returns
    -------
    (lanes,) array
        Step lengths, zero where no step lowers the objective, and one for the other replicates.
    """
    t, waiting = np.ones(len(objective)), todo.copy()
    for _ in range(MAX_HALVINGS):
        value = value_at(t)
        good = value <= objective + SUFFICIENT_DECREASE * t * np.minimum(slope, 0.0) + slack
        waiting &= ~(good & np.isfinite(value))
        if not waiting.any():
            return t
        t[waiting] *= 0.5
    t[waiting] = 0.0
    value_at(t)
    return t
