"""The likelihood of multinomial logistic regression: P(y = c) = exp(h_c) / Σ_d exp(h_d).

A row has a linear predictor h_c for each class, and η stacks them in blocks of n rows. With the
probabilities p_c, the derivative of the loss in h_c is w (p_c − 1[y = c]), and the Hessian couples
the classes of a row: ∂²/∂h_c ∂h_d = w p_c (1[c = d] − p_d).
"""

from __future__ import annotations

import numpy as np

from ..backends.backend_interface import Array, Backend
from .hessian_structures import ChannelCurvature, pair_of
from .likelihood_constants import CHUNK_SIZES
from .likelihood_interface import Likelihood

__all__ = ["MultinomialLikelihood"]


class MultinomialLikelihood(Likelihood):
    """Σ w [log Σ_c exp h_c − h_y].

    Parameters
    ----------
    codes : (n,) int array
        Class of each row, from 0 on.

    References
    ----------
    Agresti (2013), Categorical Data Analysis, §8.1. Böhning (1992), Annals of the Institute of
    Statistical Mathematics 44:197–200.
    """

    additive = False

    def __init__(self, codes: np.ndarray, classes: int, backend: Backend) -> None:
        super().__init__(backend)
        self.codes = np.array(codes, np.int64)
        self.n, self.C = len(self.codes), classes
        step = CHUNK_SIZES.rows if backend.on_host else max(1, self.n)
        # Chunks of rows with their classes and positions within the chunk.
        self._chunks = [
            (slice(a, a + len(own)), own, np.arange(len(own)))
            for a, own in ((a, self.codes[a : a + step]) for a in range(0, self.n, step))
        ]

    @property
    def n_eta(self) -> int:
        """Number of rows of η, n for each class."""
        return self.C * self.n

    def lift(self, offset: np.ndarray) -> np.ndarray:
        """See `Likelihood.lift`; an offset per row applies to all of its classes."""
        return offset if len(offset) == self.n_eta else np.tile(offset, (self.C, 1))

    def extent(self, change: Array, weights: np.ndarray | None = None) -> float:
        """See `Likelihood.extent`; only differences between classes matter."""
        h = change.reshape(self.C, self.n)
        h = h if weights is None else h[:, weights > 0]
        return float((h.max(axis=0) - h.min(axis=0)).max(initial=0.0))

    def evaluate(self, eta: Array, weights: Array) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        xp, B = self.backend.xp, eta.shape[1]
        h, r = eta.reshape(self.C, self.n, B), xp.zeros((self.C, self.n, B))

        def part(at: slice, codes: np.ndarray, rows: np.ndarray) -> Array:
            """Store the gradients of a chunk of rows, and return their loss."""
            w = weights[at]
            loss, p = self._softmax(h[:, at], codes, rows)
            p *= w
            p[codes, rows] = 0.0
            p[codes, rows] = -p.sum(axis=0)  # w (p − 1) without cancellation where p is near one
            r[:, at] = p
            return self.backend.column_sum(xp.where(w > 0, w * loss, 0.0))

        parts = self.backend.pool.map(part, self._chunks, 20 * eta.size)
        return sum(parts, xp.zeros(B)), r.reshape(self.n_eta, B)

    def loss(self, eta: Array, weights: Array) -> Array:
        """See `Likelihood.loss`."""
        xp, B = self.backend.xp, eta.shape[1]
        h = eta.reshape(self.C, self.n, B)

        def part(at: slice, codes: np.ndarray, rows: np.ndarray) -> Array:
            w = weights[at]
            loss, _ = self._softmax(h[:, at], codes, rows)
            return self.backend.column_sum(xp.where(w > 0, w * loss, 0.0))

        return sum(self.backend.pool.map(part, self._chunks, 20 * eta.size), xp.zeros(B))

    def _softmax(self, h: Array, codes: np.ndarray, rows: np.ndarray) -> tuple[Array, Array]:
        """Compute −log P(y), (m, B), and all probabilities, (C, m, B), of m rows."""
        xp = self.backend.xp
        with np.errstate(invalid="ignore", over="ignore"):  # infinite losses are checked outside
            away = h - h.max(axis=0)
            e = xp.exp(away)
            total = e.sum(axis=0)
            return xp.log(total) - away[codes, rows], e / total

    def curvature(self, eta: Array, weights: Array, exact: bool = False) -> ChannelCurvature:
        """See `Likelihood.curvature`; always exact, with classes as channels and no baseline."""
        C, n, xp = self.C, self.n, self.backend.xp
        h = eta[:, :1].reshape(C, n, 1)
        pairs = xp.zeros((C * (C + 1) // 2, n))

        def part(at: slice, codes: np.ndarray, rows: np.ndarray) -> None:
            """Store the Hessians of a chunk of rows, for each pair of classes."""
            w = weights[at, 0]
            p = self._softmax(h[:, at], codes, rows)[1][:, :, 0]
            k = 0
            for c in range(C):
                others = p[:c].sum(axis=0) + p[c + 1 :].sum(axis=0)  # 1 − p_c without cancellation
                pairs[k, at] = xp.where(w > 0, w * p[c] * others, 0.0)
                pairs[k + 1 : k + C - c, at] = xp.where(w > 0, -w * p[c] * p[c + 1 :], 0.0)
                k += C - c

        self.backend.pool.map(part, self._chunks, 20 * h.size)
        none, nobody = xp.zeros(0), np.zeros(n, np.int32)
        v = xp.concatenate([pairs[pair_of(c, c, C)] for c in range(C)])
        return ChannelCurvature(
            h[:, :, 0], none, weights[:, 0], np.zeros((0, C - 1)), nobody, nobody, pairs, none, v
        )

    def score_residuals(self, eta: Array, weights: Array, Z: Array) -> Array:
        """See `Likelihood.score_residuals`: −Σ_c r_c z_c, (n, L)."""
        r = self.evaluate(eta, weights)[1].reshape(self.C, self.n, -1)
        return -(r * Z.reshape(self.C, self.n, -1)).sum(axis=0)
