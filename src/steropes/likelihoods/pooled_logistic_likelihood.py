"""The pooled logistic likelihood: a logistic model for each interval begun at risk.

With η_ik = h_i0 + Σ_q f_q(k) h_iq + a_k and y_ik = 1 in the interval of the event,

    loss = Σ_i w_i Σ_{k at risk} [log(1 + exp η_ik) − y_ik η_ik].

Here η stacks the contributions of people and intervals: the channels h_0, h_1, …, h_Q (n each) and
the baseline a (K). The n · K linear predictors and residuals are never stored; each exists only
inside a loop over the intervals of one person. The Hessian couples the channels of a person with
each other and with the baseline:

    ∂²/∂h_ic ∂h_id = Σ_k f_c(k) f_d(k) v_ik,    ∂²/∂h_ic ∂a_k = f_c(k) v_ik,    f_0 = 1.

The model is that of D'Agostino et al. (1990), Statistics in Medicine 9:1501.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from ..backends.backend_interface import Array, Backend
from ..backends.cpu.likelihoods import interval_weight_kernels as weighted
from ..backends.cpu.likelihoods import pooled_logistic_kernels as pooled
from ..backends.cpu.sparse.sparse_lines import CHUNKS
from ..backends.cpu.sums.compensated_sums import with_errors
from ..backends.thread_pool import balanced_chunks
from ..data.interval_weights import IntervalWeights
from .hessian_structures import ChannelCurvature, pair_of
from .likelihood_constants import CHUNK_SIZES
from .likelihood_interface import Likelihood, Part

__all__ = [
    "PooledLogisticLikelihood",
    "baseline_alone",
    "events_by_interval",
    "interval_log_odds",
    "survival_probabilities",
]


# Only some people at a time have an array over all intervals, in operations of the backend's
# ``xp``, which serve devices. The host's kernels loop over the intervals of one person instead
# (`steropes.backends.cpu.likelihoods.pooled_logistic_kernels`).


class PersonIntervals:
    """Intervals at risk of n people.

    Parameters
    ----------
    first, last : (n,) int arrays
        Intervals from ``first`` to ``last`` − 1, counted from 0.
    functions : (K, Q) array
        Functions f_1(k), f_2(k), … that multiply the channels after the first.
    weights : IntervalWeights, optional
        Weights of intervals, default one each.

    Attributes
    ----------
    factors : (K, Q + 1) array
        Factors f_c(k) of all channels, with f_0 = 1.
    """

    def __init__(
        self,
        first: np.ndarray,
        last: np.ndarray,
        functions: np.ndarray,
        backend: Backend,
        weights: IntervalWeights | None = None,
    ) -> None:
        self.n, self.K = len(first), len(functions)
        self._weights = weights
        self.backend = backend
        self.first, self.last = backend.asarray(first), backend.asarray(last)
        self.factors = backend.asarray(np.column_stack([np.ones(self.K), functions]))

    def predictors(self, h: Array, base: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Yield a slice of m people, η (m, K, B) and whether they are at risk (m, K, 1).

        Parameters
        ----------
        h, base : (C, n, B) and (K, B) arrays
            Channels and baseline.
        """
        k = self.backend.xp.arange(self.K)
        step = CHUNK_SIZES.people
        if not self.backend.on_host:
            step = max(step, CHUNK_SIZES.device_entries // max(1, base.size))
        for a in range(0, self.n, step):
            at = slice(a, min(a + step, self.n))
            eta = h[0, at][:, None] + base
            for c in range(1, len(h)):
                eta = eta + self.factors[:, c : c + 1] * h[c, at][:, None]
            first, last = self.first[at][:, None], self.last[at][:, None]
            yield at, eta, ((first <= k) & (k < last))[:, :, None]

    def shares(self, at: slice) -> Array | float:
        """Return the interval weights of m people, (m, K, 1), or 1 without any."""
        if self._weights is None:
            return 1.0
        return self.backend.asarray(self._weights.table(at, self.K)[:, :, None])

    def variances(self, h: Array, base: Array, w: Array) -> Iterator[tuple[slice, Array]]:
        """Yield a slice of m people and v = w p (1 − p), (m, K), for one replicate.

        Parameters
        ----------
        h, base, w : (C, n), (K,) and (n,) arrays
        """
        xp = self.backend.xp
        for at, eta, at_risk in self.predictors(h[:, :, None], base[:, None]):
            e = xp.exp(-xp.abs(eta))
            v = self.shares(at) * w[at][:, None, None] * e / (1.0 + e) ** 2
            yield at, xp.where(at_risk, v, 0.0)[:, :, 0]


class PooledLogisticLikelihood(Likelihood):
    """Negative log-likelihood over people and the intervals that they begin at risk.

    Parameters
    ----------
    first, last : (n,) int arrays
        Intervals from ``first`` to ``last`` − 1, counted from 0.
    event : (n,) array
        1 if the event occurs in the last of these intervals.
    functions : (K, Q) array
        f_q(k), as in the design.
    interval_weights : IntervalWeights, optional
        Factors of the terms of the loss, by person and interval; default one each.
    """

    additive = False
    has_third_derivative = True

    def __init__(
        self,
        first: np.ndarray,
        last: np.ndarray,
        event: np.ndarray,
        functions: np.ndarray,
        backend: Backend,
        interval_weights: IntervalWeights | None = None,
    ) -> None:
        super().__init__(backend)
        self.interval_weights = interval_weights
        self.has_interval_weights = interval_weights is not None
        self._shares = None if interval_weights is None else interval_weights.arguments
        self.first = np.ascontiguousarray(first, np.int32)
        self.last = np.ascontiguousarray(last, np.int32)
        self.event = np.ascontiguousarray(event, np.int8)
        self.F = np.ascontiguousarray(functions, np.float64)
        self.n = len(self.first)
        self.K, self.Q = self.F.shape
        self.intervals = PersonIntervals(self.first, self.last, self.F, backend, interval_weights)
        self._final = backend.asarray((self.last - 1)[:, None])  # the interval of an event
        self._has_event = backend.asarray((self.event != 0)[:, None])
        work = np.zeros(self.n + 1, np.int64)
        np.cumsum(self.last - self.first + 1, out=work[1:])
        self.chunks = balanced_chunks(work, CHUNKS)
        self.work = 8 * int(work[-1])  # an exponential costs about eight additions

    def parts(self, cuts: np.ndarray) -> list[Part] | None:
        """See `Likelihood.parts`."""
        own = self.interval_weights
        return [
            partial(
                PooledLogisticLikelihood, self.first[a:b], self.last[a:b], self.event[a:b], self.F,
                interval_weights=None if own is None else own.rows(slice(a, b)),
            )
            for a, b in pairwise(cuts)
        ]  # fmt: skip

    def with_interval_weights(self, weights: IntervalWeights) -> PooledLogisticLikelihood:
        """Return the likelihood of the same people with other weights of intervals."""
        return PooledLogisticLikelihood(
            self.first, self.last, self.event, self.F, self.backend, weights
        )

    @property
    def n_eta(self) -> int:
        """Number of rows of η: C n of the channels and K of the baseline."""
        return (self.Q + 1) * self.n + self.K

    def lift(self, offset: np.ndarray) -> np.ndarray:
        """See `Likelihood.lift`; the offset of a person belongs to the constant channel h_0."""
        if len(offset) == self.n_eta:
            return offset
        out = np.zeros((self.n_eta, offset.shape[1]))
        out[: self.n] = offset
        return out

    def extent(self, change: Array, weights: np.ndarray | None = None) -> float:
        """See `Likelihood.extent`; an upper bound, over every person and interval."""
        xp = self.backend.xp
        h, base = self.split(change)
        h = h if weights is None else h[:, weights > 0]
        largest = [float(xp.abs(part).max(initial=0.0)) for part in h]
        factor = np.append(1.0, abs(self.F).max(axis=0, initial=0.0))
        return float(factor @ largest + float(xp.abs(base).max(initial=0.0)))

    def split(self, eta: Array) -> tuple[Array, Array]:
        """Split stacked rows into channels (C, n, B) and baseline (K, B), as views."""
        rows = (self.Q + 1) * self.n
        return eta[:rows].reshape(self.Q + 1, self.n, -1), eta[rows:]

    def evaluate(self, eta: Array, weights: Array) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        if self.backend.on_host:
            return self._evaluate_by_person(eta, weights)
        xp = self.backend.xp
        r, total = xp.zeros(eta.shape), xp.zeros(weights.shape[1])
        channels, base = self.split(r)
        for at, slope, loss in self._intervals(eta):
            w = weights[at][:, None]
            total += (w * loss).sum(axis=1).sum(axis=0)
            slope = w * slope
            base += slope.sum(axis=0)
            channels[0, at] = slope.sum(axis=1)
            for c in range(1, self.Q + 1):
                channels[c, at] = (self.intervals.factors[:, c : c + 1] * slope).sum(axis=1)
        return total, r

    def _evaluate_by_person(
        self, eta: np.ndarray, weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute the results of `evaluate` by the host's kernels."""
        h, base = self.split(np.ascontiguousarray(eta))
        r = np.empty_like(eta, order="C")
        channels, rest = self.split(r)
        w = np.ascontiguousarray(weights)
        rows = self.first, self.last, self.event, w
        A = self._odds(h, base)

        def part(a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
            """Compute losses and baseline gradients of some people, and store their slopes."""
            loss, total = np.zeros((2, w.shape[1])), np.zeros(base.shape)
            for i, j in _pieces(a, b):
                g = np.zeros(base.shape)
                if self._shares is not None:
                    weighted.evaluate_weighted(
                        h, base, self.F, *rows, self._shares, channels, loss, g, i, j
                    )
                elif A is None:
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

    def loss(self, eta: Array, weights: Array) -> Array:
        """See `Likelihood.loss`."""
        if not self.backend.on_host:
            return sum(
                (weights[at][:, None] * loss).sum(axis=1).sum(axis=0)
                for at, _, loss in self._intervals(eta)
            )
        h, base = self.split(np.ascontiguousarray(eta))
        w = np.ascontiguousarray(weights)
        rows = self.first, self.last, self.event, w
        A = self._odds(h, base)

        def part(a: int, b: int) -> np.ndarray:
            """Compute the losses of some people."""
            loss = np.zeros((2, w.shape[1]))
            if self._shares is not None:
                weighted.value_weighted(h, base, self.F, *rows, self._shares, loss, a, b)
            elif A is None:
                pooled.value(h, base, self.F, *rows, loss, a, b)
            else:
                pooled.value_constant(h[0], base, A, *rows, loss, a, b)
            return with_errors(loss)

        parts = self.backend.pool.map(part, self.chunks, self.work * w.shape[1])
        return sum(parts, np.zeros(w.shape[1]))

    def _odds(self, h: np.ndarray, base: np.ndarray) -> np.ndarray | None:
        """Compute exp(base) if the odds factor into person and interval, otherwise return None."""
        if self.Q or not abs(h[0]).max(initial=0.0) + abs(base).max() < pooled.REACH:
            return None
        return np.exp(base)

    def score_residuals(self, eta: Array, weights: Array, Z: Array) -> Array:
        """Compute each person's contribution to the score, (n, L); see `Likelihood`.

        It is Σ_k w (y_ik − p_ik) (z_i0 + Σ_q f_q(k) z_iq + z_k) over the intervals at risk.
        """
        channels, _ = self.split(self.evaluate(eta, weights)[1])
        own, base = self.split(Z)
        U = -(channels[0] * own[0])
        for c in range(1, self.Q + 1):
            U -= channels[c] * own[c]
        if not base.any():  # Directions of covariates alone.
            return U
        for at, slope, _ in self._intervals(eta[:, :1]):
            U[at] -= (weights[at, :1] * slope[:, :, 0]) @ base
        return U

    def martingale_residuals(self, eta: Array, weights: Array) -> Array:
        """Compute w times (event − the sum of event probabilities over the intervals at risk)."""
        return -self.split(self.evaluate(eta, weights)[1])[0][0]

    def deviances(self, eta: Array) -> np.ndarray:
        """Compute −2 log-likelihood of each person, (n,); the saturated model has zero."""
        to_host = self.backend.to_host
        parts = [to_host(loss.sum(axis=1))[:, 0] for _, _, loss in self._intervals(eta[:, :1])]
        return 2.0 * np.concatenate([np.zeros(0), *parts])

    def _intervals(self, eta: Array) -> Iterator[tuple[slice, Array, Array]]:
        """Yield a slice of m people, p − y and −log-likelihood, (m, K, B), zero outside risk."""
        xp = self.backend.xp
        k = xp.arange(self.K)
        for at, x, at_risk in self.intervals.predictors(*self.split(eta)):
            e = xp.exp(-xp.abs(x))
            p = xp.where(x >= 0, 1.0, e) / (1.0 + e)
            y = (self._has_event[at] & (k == self._final[at]))[:, :, None]
            loss = xp.log1p(e) + xp.maximum(xp.where(y, -x, x), 0.0)
            q = xp.where(x >= 0, e, 1.0) / (1.0 + e)  # p − 1 would lose digits
            share = self.intervals.shares(at)
            slope, loss = share * xp.where(y, -q, p), share * loss
            yield at, xp.where(at_risk, slope, 0.0), xp.where(at_risk, loss, 0.0)

    def curvature(self, eta: Array, weights: Array, exact: bool = False) -> ChannelCurvature:
        """See `Likelihood.curvature`; always exact."""
        xp, C = self.backend.xp, self.Q + 1
        h, base = self.split(xp.ascontiguousarray(eta[:, :1]))
        h, base = h[:, :, 0], base[:, 0].copy()
        w = xp.ascontiguousarray(weights[:, 0])
        pairs = xp.zeros((C * (C + 1) // 2, self.n))
        if self.backend.on_host:

            def part(a: int, b: int) -> np.ndarray:
                g = np.zeros(self.K)
                pooled.curvature(
                    h, base, self.F, self.first, self.last, w, self._shares, pairs, g, a, b
                )
                return g

            at_time = sum(self.backend.pool.map(part, self.chunks, self.work), np.zeros(self.K))
        else:
            at_time, f = xp.zeros(self.K), self.intervals.factors
            products = xp.stack([f[:, c] * f[:, d] for c in range(C) for d in range(c, C)])
            for at, v in self.intervals.variances(h, base, w):
                at_time += v.sum(axis=0)
                pairs[:, at] = products @ v.T
        v = xp.concatenate([*(pairs[pair_of(c, c, C)] for c in range(C)), at_time])
        variances = partial(self.intervals.variances, h, base, w)
        return ChannelCurvature(
            h, base, w, self.F, self.first, self.last, pairs, at_time, v,
            None if self.backend.on_host else variances, self._shares,
        )  # fmt: skip

    def third_derivative(self, eta: Array, weights: Array, Z: Array) -> Array:
        """See `Likelihood.third_derivative`; computed on the host."""
        host = self.backend.to_host
        h, base = self.split(np.ascontiguousarray(host(eta[:, :1])))
        h, base = h[:, :, 0].copy(), base[:, 0].copy()
        own, at_time = self.split(np.ascontiguousarray(host(Z)))
        w, out = np.ascontiguousarray(host(weights)[:, 0]), np.empty((self.n_eta, 1))
        channels, rest = self.split(out)
        r = np.empty(h.shape)

        def part(a: int, b: int) -> np.ndarray:
            g = np.zeros(self.K)
            rows = self.first, self.last, w, self._shares
            pooled.third_derivative(h, base, self.F, *rows, own, at_time, r, g, a, b)
            return g

        rest[:, 0] = sum(self.backend.pool.map(part, self.chunks), np.zeros(self.K))
        channels[:, :, 0] = r
        return self.backend.asarray(out)


def _pieces(first: int, last: int) -> list[tuple[int, int]]:
    """Split people into pieces that are summed separately.

    Sums over pieces lose far fewer digits than one sum over all people.
    """
    return [(i, min(i + CHUNK_SIZES.people, last)) for i in range(first, last, CHUNK_SIZES.people)]


def events_by_interval(
    model: PooledLogisticLikelihood, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Count people with positive weight at risk, and with the event, in each interval, (K,)."""
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
    """Fit the baseline approximately without covariates, (M,), as a starting point.

    Without covariates an interval is one binomial cell. One pseudo-person with the overall event
    rate is added to each so that the log odds are finite, and the basis is fitted to them by least
    squares weighted by the information of the cells.
    """
    used = model.first < model.last
    begin = np.bincount(model.first[used], weights[used], model.K + 1)
    end = np.bincount(model.last[used], weights[used], model.K + 1)
    hit = model.event != 0
    events = np.bincount(model.last[hit] - 1, weights[hit], model.K)
    total = np.maximum(np.cumsum(begin - end)[:-1], events)
    rate = events.sum() / total.sum()
    rate = rate if rate < 1.0 else 0.5  # if everyone has the event
    with_it, without = events + rate, total - events + (1.0 - rate)
    root = np.sqrt(total * with_it * without) / (total + 1.0)
    log_odds = np.log(with_it) - np.log(without)
    if offset is not None:
        log_odds = log_odds - np.median(offset[weights > 0])
    return np.linalg.lstsq(basis * root[:, None], log_odds * root, rcond=None)[0]


def interval_log_odds(eta: np.ndarray, functions: np.ndarray) -> np.ndarray:
    """Compute the log odds of every person in every interval, (n, K), from stacked η."""
    h, base = _unstacked(eta, functions)
    return h[0][:, None] + h[1:].T @ functions.T + base


def survival_probabilities(
    eta: np.ndarray, functions: np.ndarray, ended: np.ndarray, backend: Backend
) -> np.ndarray:
    """Compute survival Π_{k ≤ ended} (1 − p_ik), (n, len(ended)), from stacked η."""
    h, base = _unstacked(eta, functions)
    distinct, back = np.unique(ended, return_inverse=True)
    out = np.empty((h.shape[1], len(distinct)))
    chunks = balanced_chunks(np.arange(h.shape[1] + 1), CHUNKS)
    backend.pool.map(lambda a, b: pooled.survival(h, base, functions, distinct, out, a, b), chunks)
    return out[:, back]


def _unstacked(eta: np.ndarray, functions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split stacked η (n_eta,) into channels (C, n) and baseline (K,)."""
    K, Q = functions.shape
    return np.ascontiguousarray(eta[:-K].reshape(Q + 1, -1)), np.ascontiguousarray(eta[-K:])
