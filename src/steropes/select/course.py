"""Where replicates are heading as their variance grows, from where they have been."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

__all__ = ["Course"]

MOST = 4  # variances that are remembered, the nearest to the last
FARTHEST = 3.0  # times the way between two of them: beyond, nothing is said


class _Stop(NamedTuple):
    """Of all replicates under one variance, (p, B) each.

    ``rates`` are derivatives of the coefficients in log variance, where they are known.
    """

    beta: sparse.csc_array
    gradients: np.ndarray
    rates: sparse.csc_array | None = None


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

    def note_rates(self, variance: float, moved: np.ndarray, by: float) -> None:
        """Take note of where optima noted before go as log variance grows ``by`` a little."""
        if variance in self._stops:
            stop = self._stops[variance]
            rates = sparse.csc_array((moved - stop.beta.toarray()) / by)
            self._stops[variance] = stop._replace(rates=rates)

    def ahead(self, variance: float) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients to start from under another variance, and gradients expected there.

        They go by their rates at the nearest variance or else by the line through the two nearest;
        a coefficient stays where it was if it was zero there, or would be beyond zero.
        """
        first, *others = self._nearest(variance)
        stop = self._stops[first]
        beta = stop.beta.toarray()
        if not others:
            return beta, stop.gradients
        before = self._stops[others[0]]
        here, there, then = (v**-0.5 for v in (first, others[0], variance))
        share = (then - here) / (here - there)
        if abs(share) > FARTHEST:
            return beta, stop.gradients
        if stop.rates is not None:
            step = -2 * (then - here) / here * stop.rates.toarray()
        else:
            last = before.beta.toarray()
            step = np.where(last != 0, share * (beta - last), 0.0)
        moved = beta + step
        gradients = stop.gradients + np.float32(share) * (stop.gradients - before.gradients)
        return np.where(moved * beta > 0, moved, beta), gradients

    def _nearest(self, variance: float) -> list[float]:
        return sorted(self._stops, key=lambda v: abs(np.log(v / variance)))
