"""The loss of one replicate of a cumulative model as a function of α and η."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

from ...backends.backend_interface import Backend
from ...backends.cpu.likelihoods import tridiagonal_threshold_kernels
from ..hessian_structures import ProfiledCurvature
from ..likelihood_constants import CHUNK_SIZES
from ..nuisance_hessian import Block, Chain, SparseBlock
from .cumulative_kernels import rows_all, rows_loss
from .interval_log_probabilities import CODES
from .turnbull_intervals import Levels

__all__ = ["CumulativeRows", "Evaluation", "Thresholds", "quantile_function"]


def quantile_function(link: str, p: np.ndarray) -> np.ndarray:
    """Compute F⁻¹(p)."""
    p = np.asarray(p, np.float64)
    with np.errstate(divide="ignore"):
        if link == "logit":
            return special.logit(p)
        if link == "probit":
            return special.ndtri(p)
        if link == "loglog":
            return -np.log(-np.log(p))
        if link == "cloglog":
            return np.log(-np.log1p(-p))
        return np.where(p < 0.5, -1.0 / np.tan(np.pi * p), 1.0 / np.tan(np.pi * (1.0 - p)))


@dataclass
class Thresholds:
    """Thresholds α with their differences, which are more accurate than differences of α.

    Attributes
    ----------
    alpha : (K,) array
        Increasing thresholds, K = M − 1.
    delta : (K,) array
        delta[k] = α_k − α_{k−1} > 0; delta[0] is 1 and unused.
    """

    alpha: np.ndarray
    delta: np.ndarray

    @classmethod
    def build(cls, start: float, at: int, delta: np.ndarray) -> Thresholds:
        """Build thresholds from their differences and the value of one of them."""
        alpha = np.empty(len(delta))
        tridiagonal_threshold_kernels.integrate(start, at, delta, alpha)
        return cls(alpha, delta)

    def moved(self, step: np.ndarray, t: float, floor: float = 0.2) -> Thresholds:
        """Move a fraction t along a step, keeping all differences positive (`retract`)."""
        d = np.diff(step, prepend=0.0)
        d[0] = 0.0
        delta = np.empty_like(d)
        tridiagonal_threshold_kernels.retract(self.delta, d, t, floor, delta)
        at = len(d) // 2
        return Thresholds.build(float(self.alpha[at] + t * step[at]), at, delta)


@dataclass
class Evaluation:
    """Loss at a point and weighted derivatives of ℓ by row, as in `link_functions`."""

    loss: float
    la: np.ndarray
    lb: np.ndarray
    s: np.ndarray
    ua: np.ndarray
    ub: np.ndarray
    w: np.ndarray

    def curvatures_only(self) -> Evaluation:
        """Drop all arrays except `ua` and `ub`, to save memory."""
        gone = np.empty(0)
        return Evaluation(self.loss, gone, gone, gone, self.ua, self.ub, gone)

    def clipped(self) -> Evaluation:
        """Replace negative curvatures of rows by zero (for the Cauchy link)."""
        ua, ub = np.maximum(self.ua, 0.0), np.maximum(self.ub, 0.0)
        return Evaluation(self.loss, self.la, self.lb, self.s, ua, ub, self.w)

    def rectified(self) -> Evaluation:
        """Replace the curvatures of rows by their absolute values."""
        ua, ub = np.abs(self.ua), np.abs(self.ub)
        return Evaluation(self.loss, self.la, self.lb, self.s, ua, ub, self.w)


class CumulativeRows:
    """−Σ w log(F(α_up − η) − F(α_low − η)) as a function of α and η, rows in order of level.

    Parameters
    ----------
    link : str
        Name of the link.
    weights : (n,) array
        Positive weights of the rows of ``levels.order``.
    """

    def __init__(self, levels: Levels, link: str, weights: np.ndarray, backend: Backend) -> None:
        self.levels, self.link, self.backend = levels, link, backend
        self.code = CODES[link]
        self.weights = weights
        self.n, self.K = len(levels.order), levels.M - 1
        self.weight_sum = float(weights.sum())

    def start(self, eta: np.ndarray | None = None) -> Thresholds:
        """Compute α of the marginal distribution, the optimum at β = 0 for uncensored rows."""
        levels, w = self.levels, self.weights
        level = np.repeat(np.arange(levels.M), np.diff(levels.pointers))
        wide = (levels.up - levels.low) != 1
        mass = np.bincount(level[~wide], w[~wide], levels.M)
        if wide.any():  # half of each censored row is spread over all levels so that none is empty
            mass += 0.5 * w[wide].sum() / levels.M + 0.5 * w.min()
            mass += np.bincount(level[wide], 0.5 * w[wide], levels.M)
        below, above = np.cumsum(mass)[:-1], np.cumsum(mass[::-1])[::-1][1:]
        total = below + above
        if self.link == "loglog":
            alpha = -np.log(-_log_share(below, above))
        elif self.link == "cloglog":
            alpha = np.log(-_log_share(above, below))
        elif self.link == "logit":
            alpha = np.log(below / above)
        else:
            half = below <= above
            alpha = np.where(
                half,
                quantile_function(self.link, np.minimum(below / total, 0.5)),
                -quantile_function(self.link, np.minimum(above / total, 0.5)),
            )
        delta = np.diff(alpha, prepend=0.0)
        delta[0] = 1.0
        delta = np.maximum(delta, 1e-14)
        at = self.K // 2
        shift = 0.0 if eta is None else float(w @ eta / self.weight_sum)
        return Thresholds.build(float(alpha[at]) + shift, at, delta)

    def loss(self, at: Thresholds, eta: np.ndarray) -> float:
        """Compute the loss alone."""
        L, w = self.levels, self.weights

        def part(i0: int, i1: int) -> float:
            return rows_loss(self.code, at.alpha, at.delta, eta, w, L.low, L.up, i0, i1)

        return float(np.sum(self.backend.pool.map(part, self._chunks())))

    def evaluate(self, at: Thresholds, eta: np.ndarray) -> Evaluation:
        """Compute the loss and the rows' derivatives."""
        L, w = self.levels, self.weights
        out = [np.empty(self.n) for _ in range(6)]

        def part(i0: int, i1: int) -> float:
            return rows_all(self.code, at.alpha, at.delta, eta, w, L.low, L.up, i0, i1, *out)

        loss = float(np.sum(self.backend.pool.map(part, self._chunks())))
        return Evaluation(loss, *out)

    def to_thresholds(self, x_up: np.ndarray, x_low: np.ndarray) -> np.ndarray:
        """Sum x_up over the rows by upper threshold plus x_low by lower threshold, (K,)."""
        out = np.zeros(self.K)
        tridiagonal_threshold_kernels.accumulate(self.levels.low, self.levels.up, x_up, x_low, out)
        return out

    def to_rows(self, t: np.ndarray, x_up: np.ndarray, x_low: np.ndarray) -> np.ndarray:
        """Compute x_up t[up] + x_low t[low] for every row, (n,); missing thresholds count zero."""
        padded = np.concatenate([t, [0.0]])  # index −1 and K are both the zero at the end
        return x_up * padded[self.levels.up] + x_low * padded[self.levels.low]

    def block(self, ev: Evaluation) -> Block:
        """Compute the Hessian over the thresholds at a point."""
        levels, u = self.levels, self.to_thresholds(ev.ua, ev.ub)
        if levels.chain:
            W = np.zeros(self.K)
            tridiagonal_threshold_kernels.chain(levels.low, levels.up, ev.w, W)
            return Chain(u, W)
        inner = (levels.low >= 0) & (levels.up < self.K)
        return SparseBlock(u, levels.low[inner], levels.up[inner], ev.w[inner])

    def curvature(self, ev: Evaluation, block: Block) -> ProfiledCurvature:
        """Compute the curvature in η of these rows with the thresholds eliminated."""
        levels = self.levels
        return ProfiledCurvature(
            v=ev.ua + ev.ub, rows=None, low=levels.low, up=levels.up, a=ev.ua, b=ev.ub,
            pointers=levels.pointers, block=block,
        )  # fmt: skip

    def _chunks(self) -> list[tuple[int, int]]:
        """Split the rows into chunks of fixed size."""
        return [(i, min(i + CHUNK_SIZES.rows, self.n)) for i in range(0, self.n, CHUNK_SIZES.rows)]


def _log_share(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute log(a / (a + b)) without rounding to zero."""
    return -np.log1p(b / a)
