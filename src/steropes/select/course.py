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

    Gradients are in units of one over its root, as λ is, of which single precision holds any.
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
        in_lambda = (gradients * variance**0.5).astype(np.float32)
        self._stops[variance] = _Stop(sparse.csc_array(beta), in_lambda)
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

        These are in units of one over the root of that variance. Coefficients go by their rates at
        the nearest variance or else by the line through the two nearest, by their own size at
        most; one stays where it was if it was zero there, or would be beyond zero.
        """
        first, *others = self._nearest(variance)
        stop = self._stops[first]
        beta, here, then = stop.beta.toarray(), first**-0.5, variance**-0.5
        stay = beta, np.float32(here / then) * stop.gradients
        if not others:
            return stay
        before, there = self._stops[others[0]], others[0] ** -0.5
        if here == there or abs(then - here) > FARTHEST * abs(here - there):
            return stay
        share = (then - here) / (here - there)
        if stop.rates is not None:
            step = -2 * (then - here) / here * stop.rates.toarray()
        else:
            last = before.beta.toarray()
            step = np.where(last != 0, share * (beta - last), 0.0)
        moved = beta + np.clip(step, -np.abs(beta), np.abs(beta))
        ours, theirs = np.float32((1 + share) * here / then), np.float32(share * there / then)
        return (
            np.where(moved * beta > 0, moved, beta),
            ours * stop.gradients - theirs * before.gradients,
        )

    def _nearest(self, variance: float) -> list[float]:
        return sorted(self._stops, key=lambda v: abs(np.log(v / variance)))
