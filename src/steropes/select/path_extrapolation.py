"""Extrapolation of the replicates' optima to another variance."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from .variance_path_constants import DEFAULT, PathPolicy

__all__ = ["Course"]


class _Stop(NamedTuple):
    """Coefficients and gradients of all replicates under one variance, (p, B) each.

    Gradients are in units of one over the root of the variance, as λ is, and in single precision.
    ``rates`` are derivatives of the coefficients in log variance, where they are known.
    """

    beta: sparse.csc_array
    gradients: np.ndarray
    rates: sparse.csc_array | None = None


class Course:
    """Replicates' optima under some variances, from which those under another are extrapolated.

    Under a lasso coefficients and gradients are nearly linear in λ, as long as supports stay
    (Efron, Hastie, Johnstone and Tibshirani 2004, Annals of Statistics 32:407), and λ changes by
    one over the root of the variance.
    """

    def __init__(self, policy: PathPolicy = DEFAULT) -> None:
        self.policy = policy
        self._stops: dict[float, _Stop] = {}

    def note(self, variance: float, beta: np.ndarray, gradients: np.ndarray) -> None:
        """Record optima (p, B) and the gradients there."""
        in_lambda = (gradients * variance**0.5).astype(np.float32)
        self._stops[variance] = _Stop(sparse.csc_array(beta), in_lambda)
        for far in self._nearest(variance)[self.policy.remembered :]:
            del self._stops[far]

    def note_rates(self, variance: float, moved: np.ndarray, by: float) -> None:
        """Record the rates of optima that ``moved`` as log variance grew ``by`` a little."""
        if variance in self._stops:
            stop = self._stops[variance]
            rates = sparse.csc_array((moved - stop.beta.toarray()) / by)
            self._stops[variance] = stop._replace(rates=rates)

    def ahead(self, variance: float) -> tuple[np.ndarray, np.ndarray]:
        """Extrapolate the coefficients and gradients, (p, B) each, to another variance.

        Gradients are in units of one over the root of that variance. Coefficients follow their
        rates at the nearest variance or else the line through the two nearest, by their own size
        at most. A coefficient keeps its value if it was zero there or would change its sign.
        """
        first, *others = self._nearest(variance)
        stop = self._stops[first]
        beta, here, then = stop.beta.toarray(), first**-0.5, variance**-0.5
        unmoved = beta, np.float32(here / then) * stop.gradients
        if not others:
            return unmoved
        before, there = self._stops[others[0]], others[0] ** -0.5
        if here == there or abs(then - here) > self.policy.line_reach * abs(here - there):
            return unmoved
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
        """Return the recorded variances, the nearest on the log scale first."""
        return sorted(self._stops, key=lambda v: abs(np.log(v / variance)))
