"""Pooled logistic regression: a logistic model for each interval that a person begins at risk.

With η_ik = h_i0 + Σ_q f_q(k) h_iq + a_k and y_ik = 1 in the interval of the event,

    loss = Σ_i w_i Σ_{k at risk} [log(1 + exp η_ik) − y_ik η_ik].

η here is what a person and an interval contribute, stacked: the channels h_0, h_1, …, h_Q
(n each) and the baseline a (K). The n · K linear predictors and residuals live for one
multiplication each, inside a loop over the intervals of one person. The Hessian crosses the
channels of a person and every channel with the baseline:

    ∂²/∂h_ic ∂h_id = Σ_k f_c(k) f_d(k) v_ik,    ∂²/∂h_ic ∂a_k = f_c(k) v_ik,    f_0 = 1.

D'Agostino and others (1990), Statistics in Medicine 9:1501, is the model.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from ..backends.cpu import pooled_logistic_kernels as pooled
from ..backends.cpu import pooled_third_derivative as pooled_third
from ..backends.cpu.compensated_sums import with_errors
from ..backends.cpu.sparse_lines import CHUNKS
from ..backends.protocols import Backend
from ..backends.thread_pool import balanced_chunks
from .base import Likelihood, Part
from .curvature import ChannelCurvature

__all__ = [
    "PooledLogisticLikelihood",
    "baseline_alone",
    "events_by_interval",
    "interval_log_odds",
    "survival_curves",
]

PEOPLE = 4096  # whose intervals are looked at together


class PooledLogisticLikelihood(Likelihood):
    """Σ over people and the intervals they begin at risk.

    Parameters
    ----------
    first, last : (n,) int arrays
        Intervals from ``first`` to ``last`` − 1, counted from 0.
    event : (n,) array
        1 where the event is in the last of them.
    functions : (K, Q) array
        f_q(k), as the design has them.
    """

    additive = False
    has_third = True

    def __init__(
        self,
        first: np.ndarray,
        last: np.ndarray,
        event: np.ndarray,
        functions: np.ndarray,
        backend: Backend,
    ) -> None:
        super().__init__(backend)
        self.first = np.ascontiguousarray(first, np.int32)
        self.last = np.ascontiguousarray(last, np.int32)
        self.event = np.ascontiguousarray(event, np.int8)
        self.F = np.ascontiguousarray(functions, np.float64)
        self.n = len(self.first)
        self.K, self.Q = self.F.shape
        work = np.zeros(self.n + 1, np.int64)
        np.cumsum(self.last - self.first + 1, out=work[1:])
        self.chunks = balanced_chunks(work, CHUNKS)
        self.work = 8 * int(work[-1])  # an exponential is some eight additions

    def parts(self, cuts: np.ndarray) -> list[Part] | None:
        """See `Likelihood.parts`."""
        return [
            partial(
                PooledLogisticLikelihood, self.first[a:b], self.last[a:b], self.event[a:b], self.F
            )
            for a, b in pairwise(cuts)
        ]

    @property
    def n_eta(self) -> int:
        """C n rows of the channels and K of the baseline."""
        return (self.Q + 1) * self.n + self.K

    def lift(self, offset: np.ndarray) -> np.ndarray:
        """An offset of a person is one of the channel that does not change."""
        if len(offset) == self.n_eta:
            return offset
        out = np.zeros((self.n_eta, offset.shape[1]))
        out[: self.n] = offset
        return out

    def extent(self, change: np.ndarray, weights: np.ndarray | None = None) -> float:
        """See `Likelihood.extent`; an upper bound, over every person and interval."""
        h, base = self.split(change)
        h = h if weights is None else h[:, weights > 0]
        largest = abs(h).max(axis=(1, 2), initial=0.0)
        factor = np.append(1.0, abs(self.F).max(axis=0, initial=0.0))
        return float(factor @ largest + abs(base).max(initial=0.0))

    def split(self, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Channels (C, n, B) and baseline (K, B) of stacked rows."""
        rows = (self.Q + 1) * self.n
        return eta[:rows].reshape(self.Q + 1, self.n, -1), eta[rows:]

    def evaluate(self, eta: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Likelihood.evaluate`."""
        h, base = self.split(np.ascontiguousarray(eta))
        r = np.empty_like(eta, order="C")
        channels, rest = self.split(r)
        w = np.ascontiguousarray(weights)
        rows = self.first, self.last, self.event, w
        A = self._odds(h, base)

        def part(a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
            loss, total = np.zeros((2, w.shape[1])), np.zeros(base.shape)
            for i, j in _pieces(a, b):
                g = np.zeros(base.shape)
                if A is None:
                    pooled.evaluate(h, base, self.F, *rows, channels, loss, g, i, j)
                else:
                    pooled.evaluate_constant(h[0], base, A, *rows, channels[0], loss, g, i, j)
                total += g
            return with_errors(loss), total

        total = np.zeros(w.shape[1])
        rest[:] = 0.0
        for loss, g in self.backend.pool.map(part, self.chunks, self.work * w.shape[1]):
            total += loss
            rest += g
        return total, r

    def loss(self, eta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """See `Likelihood.loss`."""
        h, base = self.split(np.ascontiguousarray(eta))
        w = np.ascontiguousarray(weights)
        rows = self.first, self.last, self.event, w
        A = self._odds(h, base)

        def part(a: int, b: int) -> np.ndarray:
            loss = np.zeros((2, w.shape[1]))
            if A is None:
                pooled.value(h, base, self.F, *rows, loss, a, b)
            else:
                pooled.value_constant(h[0], base, A, *rows, loss, a, b)
            return with_errors(loss)

        parts = self.backend.pool.map(part, self.chunks, self.work * w.shape[1])
        return sum(parts, np.zeros(w.shape[1]))

    def _odds(self, h: np.ndarray, base: np.ndarray) -> np.ndarray | None:
        """exp(base) where the odds of a person in an interval are a product, otherwise None."""
        if self.Q or not abs(h[0]).max(initial=0.0) + abs(base).max() < pooled.REACH:
            return None
        return np.exp(base)

    def score_residuals(self, eta: np.ndarray, weights: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """Each person's part of the score, (n, L); see `Likelihood.score_residuals`.

        Σ_k w (y_ik − p_ik) (z_i0 + Σ_q f_q(k) z_iq + z_k) over the intervals at risk.
        """
        r = self.evaluate(eta, weights)[1]
        channels, _ = self.split(r)
        own, base = self.split(Z)
        U = -(channels * own).sum(axis=0)
        for at, at_risk, residual, _ in self._intervals(eta):
            U[at] += (weights[at, :1] * at_risk * residual) @ base
        return U

    def martingale_residuals(self, eta: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The event minus the sum of its probabilities over the intervals at risk, times w."""
        return -self.split(self.evaluate(eta, weights)[1])[0][0]

    def deviances(self, eta: np.ndarray) -> np.ndarray:
        """−2 log-likelihood of each person, (n,): that of a saturated model is zero."""
        out = np.zeros(self.n)
        for at, at_risk, _, loss in self._intervals(eta):
            out[at] = 2.0 * (at_risk * loss).sum(axis=1)
        return out

    def _intervals(
        self, eta: np.ndarray
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray]]:
        """People, who of them is at risk in each interval, y − p, and −log-likelihood: (m, K)."""
        k = np.arange(self.K)
        h, b = self.split(eta[:, :1])
        for a in range(0, self.n, PEOPLE):
            at = slice(a, min(a + PEOPLE, self.n))
            logit = interval_log_odds(np.concatenate([h[:, at, 0].ravel(), b[:, 0]]), self.F)
            e = np.exp(-np.abs(logit))
            p = np.where(logit >= 0, 1.0, e) / (1.0 + e)
            first, last = self.first[at, None], self.last[at, None]
            y = (self.event[at, None] != 0) & (k == last - 1)
            loss = np.log1p(e) + np.maximum(np.where(y, -logit, logit), 0.0)
            yield at, (first <= k) & (k < last), y - p, loss

    def curvature(
        self, eta: np.ndarray, weights: np.ndarray, exact: bool = False
    ) -> ChannelCurvature:
        """See `Likelihood.curvature`; always exact."""
        h, base = self.split(np.ascontiguousarray(eta[:, :1]))
        h, base = h[:, :, 0], base[:, 0].copy()
        w = np.ascontiguousarray(weights[:, 0])
        C = self.Q + 1
        pairs = np.empty((C * (C + 1) // 2, self.n))

        def part(a: int, b: int) -> np.ndarray:
            g = np.zeros(self.K)
            pooled.curvature(h, base, self.F, self.first, self.last, w, pairs, g, a, b)
            return g

        at_time = sum(self.backend.pool.map(part, self.chunks, self.work), np.zeros(self.K))
        return ChannelCurvature(h, base, w, self.F, self.first, self.last, pairs, at_time)

    def third(self, eta: np.ndarray, weights: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """See `Likelihood.third`."""
        h, base = self.split(np.ascontiguousarray(eta[:, :1]))
        h, base = h[:, :, 0].copy(), base[:, 0].copy()
        own, at_time = self.split(np.ascontiguousarray(Z))
        w, out = np.ascontiguousarray(weights[:, 0]), np.empty((self.n_eta, 1))
        channels, rest = self.split(out)
        r = np.empty(h.shape)

        def part(a: int, b: int) -> np.ndarray:
            g = np.zeros(self.K)
            rows = self.first, self.last, w
            pooled_third.third(h, base, self.F, *rows, own, at_time, r, g, a, b)
            return g

        rest[:, 0] = sum(self.backend.pool.map(part, self.chunks), np.zeros(self.K))
        channels[:, :, 0] = r
        return out


def _pieces(first: int, last: int) -> list[tuple[int, int]]:
    """People whose parts of an interval's sums are added up together.

    The sums of many pieces lose far fewer digits than one sum over all people does.
    """
    return [(i, min(i + PEOPLE, last)) for i in range(first, last, PEOPLE)]


def events_by_interval(
    model: PooledLogisticLikelihood, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """People with a positive weight at risk, and with the event, in each interval: (K,) ints."""
    used = (weights > 0) & (model.first < model.last)
    begin = np.bincount(model.first[used], minlength=model.K + 1)
    end = np.bincount(model.last[used], minlength=model.K + 1)
    hit = used & (model.event != 0)
    return np.cumsum(begin - end)[:-1], np.bincount(model.last[hit] - 1, minlength=model.K)


def baseline_alone(
    model: PooledLogisticLikelihood,
    weights: np.ndarray,
    basis: np.ndarray,
    offset: np.ndarray | None = None,
) -> np.ndarray:
    """A baseline's rough fit without covariates, (M,): where to start from.

    Without covariates an interval is one binomial cell; events of half a person are added to
    keep its log odds finite, and the basis is fitted to them by least squares with the cells'
    information as weights.
    """
    used = model.first < model.last
    begin = np.bincount(model.first[used], weights[used], model.K + 1)
    end = np.bincount(model.last[used], weights[used], model.K + 1)
    hit = model.event != 0
    events = np.bincount(model.last[hit] - 1, weights[hit], model.K)
    total = np.maximum(np.cumsum(begin - end)[:-1], events)
    rate = events.sum() / total.sum()
    rate = rate if rate < 1.0 else 0.5  # where everyone has the event
    with_it, without = events + rate, total - events + (1.0 - rate)
    root = np.sqrt(total * with_it * without) / (total + 1.0)
    log_odds = np.log(with_it) - np.log(without)
    if offset is not None:
        log_odds = log_odds - np.median(offset[weights > 0])
    return np.linalg.lstsq(basis * root[:, None], log_odds * root, rcond=None)[0]


def interval_log_odds(eta: np.ndarray, functions: np.ndarray) -> np.ndarray:
    """Log odds of every person in every interval, (n, K), from stacked predictors."""
    h, base = _unstacked(eta, functions)
    return h[0][:, None] + h[1:].T @ functions.T + base


def survival_curves(
    eta: np.ndarray, functions: np.ndarray, ended: np.ndarray, backend: Backend
) -> np.ndarray:
    """Π_{k ≤ ended} (1 − p_ik): (n, len(ended)), from stacked predictors."""
    h, base = _unstacked(eta, functions)
    distinct, back = np.unique(ended, return_inverse=True)
    out = np.empty((h.shape[1], len(distinct)))
    chunks = balanced_chunks(np.arange(h.shape[1] + 1), CHUNKS)
    backend.pool.map(lambda a, b: pooled.survival(h, base, functions, distinct, out, a, b), chunks)
    return out[:, back]


def _unstacked(eta: np.ndarray, functions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    K, Q = functions.shape
    return np.ascontiguousarray(eta[:-K].reshape(Q + 1, -1)), np.ascontiguousarray(eta[-K:])
