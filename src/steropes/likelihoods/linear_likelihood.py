"""The likelihood of linear regression: least squares with the residual variance profiled out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np

from ..backends.backend_interface import Array, Backend
from .hessian_structures import GroupedCurvature
from .independent_rows_likelihood import IndependentRowsLikelihood
from .likelihood_constants import RESIDUALS
from .likelihood_interface import Part

__all__ = ["LinearLikelihood", "normal_score"]


class LinearLikelihood(IndependentRowsLikelihood):
    """½ Σ w (y − η)², the negative normal log-likelihood at σ² = 1, to which priors refer.

    Parameters
    ----------
    y : (n,) array
    """

    quadratic = True
    dispersion_parameters = 1
    ccd = "linear"
    trust_radius = np.inf

    def __init__(self, y: np.ndarray, backend: Backend) -> None:
        super().__init__(y, backend)
        self.effective_rows = 0  # because one Hessian serves for all steps
        self.spread: Any = 0.0
        self.measure(np.ones(self.n), None)

    def measure(self, weights: np.ndarray, offset: np.ndarray | None) -> None:
        """Set the spread of y minus the offset over the rows with weight.

        The size of the outcome is used if it is constant. ``weights`` and ``offset`` are (n,).
        """
        y = self.backend.to_host(self.y)[:, 0]
        used = weights > 0
        if not used.any():
            return
        w, own = weights[used] / weights[used].max(), y[used]
        part = own if offset is None else own - offset[used]
        mean = np.average(part, weights=w)
        spread = float(np.sqrt(np.average((part - mean) ** 2, weights=w)))
        size = float(np.abs(own).max())
        if offset is not None:
            size = max(size, float(np.abs(offset[used]).max()))
        self.spread = spread if spread > RESIDUALS.equal_share * size else size

    def evaluate(self, eta: Array, weights: Array) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""

        def part(eta: Array, w: Array, y: Array) -> tuple[Array, ...]:
            r = w * (eta - y)
            with np.errstate(over="ignore"):  # an infinite loss makes the line search step back
                return 0.5 * r * (eta - y), r

        loss, (r,) = self.backend.sum_rows(part, eta, weights, self.repeated(self.y, eta.shape[1]))
        return loss, r

    def loss(self, eta: Array, weights: Array) -> Array:
        """See `Likelihood.loss`."""

        def part(eta: Array, w: Array, y: Array) -> tuple[Array, ...]:
            with np.errstate(over="ignore"):
                return (0.5 * w * (eta - y) ** 2,)

        return self.backend.sum_rows(part, eta, weights, self.repeated(self.y, eta.shape[1]))[0]

    def dispersion(self, loss: Array, total: Array) -> Array:
        """Return the residual variance, bounded below where rounding makes it unreliable."""
        return np.maximum(
            self.score_variance(loss, total), (RESIDUALS.min_residual_share * self.spread) ** 2
        )

    def score_variance(self, loss: Array, total: Array) -> Array:
        """Return the residual variance, bounded below by rounding only."""
        least = np.maximum((RESIDUALS.equal_share * self.spread) ** 2, 1e-300)
        return np.maximum(2.0 * loss / np.maximum(total, 1e-300), least)

    def combine_outcomes(self, likelihoods: Sequence[Any], lanes: int) -> Self:
        """See `Likelihood.combine_outcomes`."""
        out = super().combine_outcomes(likelihoods, lanes)
        out.spread = np.zeros(lanes)
        out.spread[: len(likelihoods)] = [x.spread for x in likelihoods]
        return out

    def parts(self, cuts: np.ndarray) -> list[Part] | None:
        """See `Likelihood.parts`."""
        y = self.backend.to_host(self.y)[:, 0]
        return [partial(LinearLikelihood, y[a:b]) for a, b in pairwise(cuts)]

    def curvature(self, eta: Array, weights: Array, exact: bool = False) -> GroupedCurvature:
        """Return the diagonal v = w."""
        return GroupedCurvature((weights + 0.0 * eta)[:, 0])

    def score(self, eta: Array, held_out: Array, train: Array) -> Array:
        """Compute the normal log-density of held-out rows at the variance of the training rows."""
        parts = self.backend.to_host(self.score_parts(eta, held_out, train))
        return self.backend.asarray(self.score_of(parts))

    def score_parts(self, eta: Array, held_out: Array, train: Array) -> Array:
        """See `Likelihood.score_parts`: weights, moments of y and losses."""
        xp, y = self.backend.xp, self.y
        wy = train * y
        sums = [held_out, train, wy, wy * y]
        losses = [self.loss(eta, train), self.loss(eta, held_out)]
        return xp.stack([x.sum(axis=0) for x in sums] + losses)

    def score_of(self, parts: np.ndarray) -> np.ndarray:
        """See `Likelihood.score_of`."""
        return normal_score(parts)


def normal_score(parts: np.ndarray) -> np.ndarray:
    """Compute the score of held-out rows, (B,), from `LinearLikelihood.score_parts`.

    It is their normal log-density at the residual variance of the training rows.
    """
    n, total, sum_y, sum_yy, train, held_out = parts
    total = np.maximum(total, 1e-300)
    spread = np.maximum(sum_yy / total - (sum_y / total) ** 2, 0.0)
    # If the training rows were fitted exactly, any held-out residual would be infinitely unlikely
    # and the score would depend on rounding.
    variance = np.maximum(2.0 * train / total, RESIDUALS.perfect_share * spread + 1e-300)
    score = -held_out / variance - 0.5 * n * np.log(2 * np.pi * variance)
    # Constant training outcomes have no variance and exclude any other value.
    size = np.maximum(sum_yy / total, 2.0 * held_out / np.maximum(n, 1e-300))
    same = (spread <= RESIDUALS.same_share * size) & (
        2.0 * train / total <= RESIDUALS.same_share**2 * size
    )
    return np.where(same, -np.inf, score)
