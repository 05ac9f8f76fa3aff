"""Where replicates are heading as their variance grows, from where they have been."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

__all__ = ["Course"]

MOST = 4  # variances that are remembered, the nearest to the last
FARTHEST = 3.0  # times the way between two of them: beyond, nothing is said


class _Stop(NamedTuple):
    """Coefficients and gradients of all replicates under one variance, (p, B) each."""

    beta: sparse.csc_array
    gradients: np.ndarray


class Course:
    """Replicates' optima under some variances, and what they tell of those under another.

    Under a lasso coefficients and gradients are nearly linear in λ, as long as supports stay
    (Efron, Hastie, Johnstone and Tibshirani 2004, Annals of Statistics 32:407), and λ goes by one
    over the root of the variance.
    """

    def __init__(self) -> None:
        self._stops: dict[float, _Stop] = {}

    def note(self, variance: float, beta: np.ndarray, gradients: np.ndarray) -> None:
        """Take note of optima (p, B) and of the gradients there."""
        self._stops[variance] = _Stop(sparse.csc_array(beta), gradients.astype(np.float32))
        for far in self._nearest(variance)[MOST:]:
            del self._stops[far]

    def ahead(self, variance: float) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients to start from under another variance, and gradients expected there.

        A coefficient stays where it was if it was zero under one of the two nearest variances, or
        would be beyond zero.
        """
        first, *others = self._nearest(variance)
        stop = self._stops[first]
        beta, gradients = stop.beta.toarray(), stop.gradients
        if not others:
            return beta, gradients
        before = self._stops[others[0]]
        here, there, then = (v**-0.5 for v in (first, others[0], variance))
        share = (then - here) / (here - there)
        if abs(share) > FARTHEST:
            return beta, gradients
        last = before.beta.toarray()
        moved = beta + share * (beta - last)
        goes = (beta != 0) & (last != 0) & (moved * beta > 0)
        return np.where(goes, moved, beta), gradients + np.float32(share) * (
            gradients - before.gradients
        )

    def _nearest(self, variance: float) -> list[float]:
        return sorted(self._stops, key=lambda v: abs(np.log(v / variance)))
