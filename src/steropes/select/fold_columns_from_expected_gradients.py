"""Screening of the columns that folds are likely to need before they are fitted.

Such a column would otherwise join the working set when a fold violates its optimality condition, at
the price of another look at all columns and of further rows in the working copy.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..backends.reductions_of_tall_arrays import row_max, row_min
from .variance_path_constants import DEFAULT, PathPolicy

__all__ = ["FoldScreening", "Start"]


class Start(NamedTuple):
    """Coefficients and gradients that are expected under a variance before a fit.

    Attributes
    ----------
    beta : (p, 1) or (p, B) array
        Coefficients from which the replicates start.
    slope : (p,) array
        Largest absolute gradient that is expected of any replicate, in X's units.
    nonzero : int
        Approximate number of coefficients that will not be zero.
    share : float
        Share of λ at which an expected gradient lets a column in.
    """

    beta: np.ndarray
    slope: np.ndarray
    nonzero: int
    share: float


class FoldScreening:
    """Gradients that folds are expected to have, from their differences at the last variance.

    The gradient of a fold differs from that of the full data by the part of its held-out rows,
    which is much the same at every variance.

    Parameters
    ----------
    scale : (p,) array
        Divisor of each column; gradients are those of the scaled columns.
    """

    def __init__(self, scale: np.ndarray, policy: PathPolicy = DEFAULT) -> None:
        self.scale, self.policy = scale, policy
        # Largest differences of the folds' gradients from the full data's, upwards and downwards.
        self._above, self._below = np.zeros(len(scale)), np.zeros(len(scale))

    def note(self, g: np.ndarray, whole: np.ndarray) -> None:
        """Record the gradients (p, B) of folds and that of the full data (p,)."""
        whole = whole * self.scale
        np.maximum(self._above, row_max(g) * self.scale - whole, out=self._above)
        np.minimum(self._below, row_min(g) * self.scale - whole, out=self._below)

    def after(self, beta: np.ndarray, g: np.ndarray, nonzero: int) -> Start:
        """Predict the folds' gradients from that of the full data (p,), and forget the records."""
        g = g * self.scale
        slope = np.maximum(np.abs(g + self._above), np.abs(g + self._below))
        self._above[:] = self._below[:] = 0.0
        return Start(beta, slope, nonzero, self.policy.screening_share)

    def heading(self, beta: np.ndarray, g: np.ndarray, nonzero: int) -> Start:
        """Return the start for extrapolated coefficients and gradients (p, B)."""
        return Start(beta, row_max(np.abs(g)) * self.scale, nonzero, 1.0)

    def new(self, k: int, inside: np.ndarray, l1: np.ndarray, start: Start) -> np.ndarray:
        """Select the columns to add to a working set of k columns; ``inside`` (p,) marks them."""
        policy = self.policy
        share = start.share if k < policy.screening_many_columns else 1.0
        new = np.flatnonzero((start.slope > share * l1) & ~inside)
        widest = max(
            policy.screening_max_columns, int(policy.screening_per_nonzero * start.nonzero)
        )
        most = max(policy.screening_min_new, widest - k)
        if len(new) > most:  # the most urgent ones, those without λ first
            urgency = np.full(len(new), np.inf)
            np.divide(start.slope[new], l1[new], out=urgency, where=l1[new] > 0)
            new = new[np.argsort(-urgency, kind="stable")[:most]]
        return new
