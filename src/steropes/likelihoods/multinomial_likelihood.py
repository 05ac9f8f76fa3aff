"""The likelihood of multinomial logistic regression: P(y = c) = exp(h_c) / Σ_d exp(h_d).

A row has a linear predictor h_c for each class, and η stacks them in blocks of n rows. With the
probabilities p_c, the derivative of the loss in h_c is w (p_c − 1[y = c]), and the Hessian couples
the classes of a row: ∂²/∂h_c ∂h_d = w p_c (1[c = d] − p_d).
"""

from __future__ import annotations

import numpy as np

from ..backends.protocols import Backend
from .base import Likelihood
from .curvature import ChannelCurvature
from .likelihood_tuning import CHUNK_SIZES

__all__ = ["MultinomialLikelihood"]


class MultinomialLikelihood(Likelihood):
    """Σ w [log Σ_c exp h_c − h_y].

    Parameters
    ----------
    codes : (n,) int array
        Class of each row, from 0 on.
    classes : int
        Number of classes C.

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
        step = CHUNK_SIZES.rows
        self._chunks = [(a, min(a + step, self.n)) for a in range(0, self.n, step)]

    @property
    def n_eta(self) -> int:
        """Number of rows of η, n for each class."""
        return self.C * self.n

    def lift(self, offset: np.ndarray) -> np.ndarray:
        """See `Likelihood.lift`; an offset per row applies to all of its classes."""
        return offset if len(offset) == self.n_eta else np.tile(offset, (self.C, 1))

    def extent(self, change: np.ndarray, weights: np.ndarray | None = None) -> float:
        """See `Likelihood.extent`; only differences between classes matter."""
        h = change.reshape(self.C, self.n)
        h = h if weights is None else h[:, weights > 0]
        return float(np.ptp(h, axis=0).max(initial=0.0))

    def evaluate(self, eta: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Likelihood.evaluate`."""
        B = eta.shape[1]
        h, r = eta.reshape(self.C, self.n, B), np.empty((self.C, self.n, B))

        def part(a: int, b: int) -> np.ndarray:
            w = weights[a:b]
            loss, p = self._softmax(h[:, a:b], a, b)
            np.multiply(p, w, out=r[:, a:b])
            np.subtract.at(r, (self.codes[a:b], np.arange(a, b)), w)
            return np.asarray(self.backend.column_sum(np.where(w > 0, w * loss, 0.0)))

        parts = self.backend.pool.map(part, self._chunks, 20 * eta.size)
        return sum(parts, np.zeros(B)), r.reshape(self.n_eta, B)

    def loss(self, eta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """See `Likelihood.loss`."""
        B = eta.shape[1]
        h = eta.reshape(self.C, self.n, B)

        def part(a: int, b: int) -> np.ndarray:
            w = weights[a:b]
            loss, _ = self._softmax(h[:, a:b], a, b)
            return np.asarray(self.backend.column_sum(np.where(w > 0, w * loss, 0.0)))

        return sum(self.backend.pool.map(part, self._chunks, 20 * eta.size), np.zeros(B))

    def _softmax(self, h: np.ndarray, a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
        """Compute −log P(y), (b − a, B), and all probabilities, (C, b − a, B), of some rows."""
        with np.errstate(invalid="ignore", over="ignore"):  # infinite losses are checked outside
            top = h.max(axis=0)
            away = h - top
            e = np.exp(away)
            total = e.sum(axis=0)
            own = away[self.codes[a:b], np.arange(b - a)]
            return np.log(total) - own, e / total

    def curvature(
        self, eta: np.ndarray, weights: np.ndarray, exact: bool = False
    ) -> ChannelCurvature:
        """See `Likelihood.curvature`; always exact, with classes as channels and no baseline."""
        C, n = self.C, self.n
        h = eta[:, :1].reshape(C, n, 1)
        pairs = np.empty((C * (C + 1) // 2, n))

        def part(a: int, b: int) -> None:
            w = weights[a:b, 0]
            _, p = self._softmax(h[:, a:b], a, b)
            p = p[:, :, 0]
            k = 0
            for c in range(C):
                others = p[:c].sum(axis=0) + p[c + 1 :].sum(axis=0)  # 1 − p_c without cancellation
                pairs[k, a:b] = np.where(w > 0, w * p[c] * others, 0.0)
                pairs[k + 1 : k + C - c, a:b] = np.where(w > 0, -w * p[c] * p[c + 1 :], 0.0)
                k += C - c

        self.backend.pool.map(part, self._chunks, 20 * h.size)
        none, nobody = np.zeros(0), np.zeros(n, np.int32)
        return ChannelCurvature(
            h[:, :, 0], none, weights[:, 0], np.zeros((0, C - 1)), nobody, nobody, pairs, none
        )

    def score_residuals(self, eta: np.ndarray, weights: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """See `Likelihood.score_residuals`: −Σ_c r_c z_c, (n, L)."""
        r = self.evaluate(eta, weights)[1].reshape(self.C, self.n, -1)
        return -(r * Z.reshape(self.C, self.n, -1)).sum(axis=0)
