"""Conditional distributions, means and quantiles of cumulative models, with variances."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends.thread_pool import ThreadPool
from ..likelihoods.cumulative import CODES, quantile_function
from ..likelihoods.cumulative.cumulative_kernels import cdf, mean_terms
from .inference_constants import BLOCKS

__all__ = [
    "category_probabilities",
    "densities",
    "means",
    "probabilities",
    "quantile_levels",
    "threshold_at",
]


def threshold_at(values: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Find the k with α(y) = α_k: −1 below all levels, M − 1 at or above the last one."""
    return np.searchsorted(values, y, side="right") - 1


def probabilities(link: str, u: np.ndarray, above: bool = False) -> np.ndarray:
    """Evaluate F(u), or 1 − F(u) without cancellation; u may be infinite."""
    mirror = {"loglog": "cloglog", "cloglog": "loglog"}
    if above:
        link, u = mirror.get(link, link), -u
    flat = np.ascontiguousarray(u, np.float64).ravel()
    F, f = np.empty_like(flat), np.empty_like(flat)
    finite = np.clip(flat, -1e300, 1e300)
    cdf(CODES[link], finite, F, f)
    F[flat == np.inf] = 1.0
    F[flat == -np.inf] = 0.0
    return F.reshape(u.shape)


def category_probabilities(link: str, alpha: np.ndarray, eta: np.ndarray) -> np.ndarray:
    """Compute P(Y = y_k | x) = F(α_k − η) − F(α_{k−1} − η) of all levels, (rows, M).

    Differences in the upper half of F are those of 1 − F, which has more digits there.
    """
    u = np.concatenate([[-np.inf], alpha, [np.inf]])[None, :] - eta[:, None]
    below, above = (probabilities(link, u, upper) for upper in (False, True))
    return np.where(below[:, :-1] > 0.5, -np.diff(above, axis=1), np.diff(below, axis=1))


def densities(link: str, u: np.ndarray) -> np.ndarray:
    """Evaluate the density F'(u), which is zero if u is infinite."""
    flat = np.ascontiguousarray(u, np.float64).ravel()
    F, f = np.empty_like(flat), np.empty_like(flat)
    cdf(CODES[link], np.clip(flat, -1e300, 1e300), F, f)
    return np.where(np.isfinite(flat), f, 0.0).reshape(u.shape)


def quantile_levels(
    alpha: np.ndarray, link: str, eta: np.ndarray, q: np.ndarray, shift: float | np.ndarray = 0.0
) -> np.ndarray:
    """Find the smallest levels with F(α − η) ≥ q, (rows, quantiles).

    ``shift`` is added to F⁻¹(q).
    """
    goal = eta[:, None] + quantile_function(link, q)[None, :] + shift
    # Rounding must not move a probability that equals q to the next level.
    goal = goal - 1e-12 * (1.0 + np.abs(np.where(np.isfinite(goal), goal, 0.0)))
    return np.searchsorted(alpha, goal, side="left")


def means(
    alpha: np.ndarray,
    values: np.ndarray,
    link: str,
    eta: np.ndarray,
    pool: ThreadPool,
    information: Any = None,
    X: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Compute E(Y | x) = y_M − Σ_k (y_{k+1} − y_k) F(α_k − η), and its variance on request.

    The variance needs an ``information`` and the scaled columns ``X`` of the rows.
    """
    jump = np.diff(values)
    n, K = len(eta), len(alpha)
    mean = np.full(n, values[-1])
    variance = None if information is None else np.empty(n)
    step = max(1, min(4096, BLOCKS.threshold_rows // K))

    def part(i0: int, i1: int) -> None:
        slope = np.empty((K, i1 - i0) if information is not None else (0, 0))
        mean_terms(CODES[link], alpha, jump, eta[i0:i1], mean[i0:i1], slope)
        if variance is not None and information is not None and X is not None:
            variance[i0:i1] = information.functional_variance(slope, X[i0:i1])

    pool.map(part, [(i, min(i + step, n)) for i in range(0, n, step)])
    return mean, variance
