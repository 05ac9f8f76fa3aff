"""The likelihood of negative binomial regression: E(y) = μ = exp(η), Var(y) = μ + α μ².

With θ = 1 / α, z = η + log α and p = 1 / (1 + exp(−z)), the loss of a row is

    (y + θ) log(1 + exp z) − y η − a(y, α),    a(y, α) = log Γ(y + θ) − log Γ(θ) + y log α,

apart from log y!. Its first and second derivatives in η are (y + θ) p − y and (y + θ) p (1 − p).
The dispersion α is given, or it is the one with the largest likelihood at η. In the second case
the loss is the profile likelihood: its derivative in η is that at the best α, and its Hessian is
diag(v) − C C' / T with the cross derivatives C in η and α and the second derivative T in α.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Self

import numpy as np
from scipy.special import digamma, gammaln, polygamma

from ..backends.backend_interface import Array, Backend
from .hessian_structures import GroupedCurvature
from .independent_rows_likelihood import IndependentRowsLikelihood
from .likelihood_constants import DISPERSION
from .likelihood_interface import Part, stack_outcomes
from .poisson_likelihood import PoissonLikelihood

__all__ = ["CountWeights", "NegativeBinomialLikelihood"]


@dataclass
class CountWeights:
    """Row weights, bound by `NegativeBinomialLikelihood.weigh`.

    Attributes
    ----------
    w : (n, B) array
        Row weights.
    counts : (D, B) array
        Sums of the weights over the rows with each distinct value of y.
    start : (B,) array or None
        Dispersions of the last evaluation, at which the search for the next begins.
    """

    w: Array
    counts: np.ndarray
    start: np.ndarray | None = None


class NegativeBinomialLikelihood(IndependentRowsLikelihood):
    """Σ w [(y + θ) log(1 + α exp η) − y η − a(y, α)] with the dispersion α = 1 / θ.

    Parameters
    ----------
    y : (n,) array
        Counts, at least zero.
    dispersion : float, optional
        The dispersion α > 0; None maximises the likelihood over it.

    References
    ----------
    Lawless (1987), Canadian Journal of Statistics 15:209–225. Hilbe (2011), Negative Binomial
    Regression, ch. 8 (NB2).
    """

    def __init__(self, y: np.ndarray, backend: Backend, dispersion: float | None = None) -> None:
        super().__init__(y, backend)
        y = np.asarray(y, np.float64)
        self.given = dispersion
        self.dispersion_parameters = int(dispersion is None)
        self.additive = self.convex = dispersion is not None
        self.values, codes = np.unique(y, return_inverse=True)
        self.codes = codes.reshape(-1, 1)
        self.log_factorial = backend.asarray(gammaln(y + 1.0)[:, None])

    def weigh(self, w: Array) -> CountWeights:
        """See `Likelihood.weigh`; also sums the weights of equal counts."""
        host, D, last = self.backend.to_host(w), len(self.values), self.codes.shape[1] - 1
        counts = [
            np.bincount(self.codes[:, min(b, last)], host[:, b], D) for b in range(host.shape[1])
        ]
        return CountWeights(w, np.stack(counts, axis=1))

    def evaluate(self, eta: Array, weights: CountWeights) -> tuple[Array, Array]:
        """See `Likelihood.evaluate`."""
        return self._evaluate_at(eta, weights, self.best_dispersion(eta, weights))

    def predictor_scores(self, eta: np.ndarray, fitted: np.ndarray) -> np.ndarray:
        """See `IndependentRowsLikelihood.predictor_scores`; at the dispersion of the fit."""
        asarray, predictor = self.backend.asarray, self.backend.asarray(eta[:, None])
        alpha = self.best_dispersion(predictor, self.weigh(asarray(fitted[:, None])))
        weights = self.weigh(asarray(np.ones((self.n, 1))))
        slope = self._evaluate_at(predictor, weights, alpha)[1]
        return -np.asarray(self.backend.to_host(slope))[:, 0]

    def best_dispersion(self, eta: Array, weights: CountWeights) -> np.ndarray:
        """Return the given dispersion, or that with the largest likelihood, (B,)."""
        if self.given is not None:
            return np.full(weights.counts.shape[1], self.given)
        weights.start = self._fit_dispersion(eta, weights)
        return weights.start

    def combine_outcomes(self, likelihoods: Sequence[Any], lanes: int) -> Self:
        """See `Likelihood.combine_outcomes`."""
        out = super().combine_outcomes(likelihoods, lanes)
        host = self.backend.to_host(out.y)
        out.values = np.unique(host)
        out.codes = np.searchsorted(out.values, host)
        out.log_factorial = stack_outcomes(
            [x.log_factorial for x in likelihoods], lanes, self.backend
        )
        return out

    def of_lane(self, lane: int) -> Self:
        """See `Likelihood.of_lane`."""
        out = super().of_lane(lane)
        if self.many_outcomes:
            at = slice(lane, lane + 1)
            out.codes, out.log_factorial = self.codes[:, at], self.log_factorial[:, at]
        return out

    def with_known_dispersion(self, eta: Array, weights: CountWeights) -> IndependentRowsLikelihood:
        """See `Likelihood.with_known_dispersion`; at the lower bound it is Poisson's."""
        if self.given is not None:
            return self
        y, alpha = self.backend.to_host(self.y)[:, 0], self.best_dispersion(eta, weights)[0]
        if not alpha > DISPERSION.min_value:
            return PoissonLikelihood(y, self.backend)
        return NegativeBinomialLikelihood(y, self.backend, float(alpha))

    def parts(self, cuts: np.ndarray) -> list[Part] | None:
        """See `Likelihood.parts`; None if all rows determine the dispersion."""
        if self.given is None:
            return None
        y = self.backend.to_host(self.y)[:, 0]
        make = partial(NegativeBinomialLikelihood, dispersion=self.given)
        return [partial(make, y[a:b]) for a, b in pairwise(cuts)]

    def curvature(self, eta: Array, weights: CountWeights, exact: bool = False) -> GroupedCurvature:
        """Return v = w (y + θ) p (1 − p), and if ``exact`` the rank-one term C C' / T.

        C is uncorrelated with the scores of η in expectation (Lawless 1987), so that steps do
        without it. There is none if the dispersion is given or at a bound.
        """
        xp, alpha = self.backend.xp, self.best_dispersion(eta, weights)
        theta, log_alpha = float(1.0 / alpha[0]), float(np.log(alpha[0]))
        y = self.y
        with np.errstate(over="ignore"):
            e = xp.exp(-abs(eta + log_alpha))
        v = xp.where(weights.w > 0, weights.w * (y + theta) * e / (1.0 + e) ** 2, 0.0)[:, 0]
        if self.given is not None or not exact or not self._interior(alpha)[0]:
            return GroupedCurvature(v)
        T = float(self._derivatives(eta, weights, alpha)[1][0])
        if not T > 0:
            return GroupedCurvature(v)
        C = self._cross_derivatives(eta, weights, alpha)[:, 0]
        c = xp.zeros(self.n)
        c[self.n - 1 :] = 1.0 / T
        return GroupedCurvature(v, C, np.array([0, self.n]), c)

    def score_residuals(self, eta: Array, weights: CountWeights, Z: Array) -> Array:
        """See `Likelihood.score_residuals`; for the profile likelihood.

        With the derivatives g_i in α of the rows' losses it is −r_i z_i + g_i C'Z / T.
        """
        alpha = self.best_dispersion(eta, weights)
        own = -self._evaluate_at(eta, weights, alpha)[1] * Z
        if self.given is not None or not self._interior(alpha)[0]:
            return own
        T = float(self._derivatives(eta, weights, alpha)[1][0])
        if not T > 0:
            return own
        C = self._cross_derivatives(eta, weights, alpha)
        (g,) = self.backend.map_rows(
            lambda e, w, y: (self._row_slopes(e, w, y, alpha)[0],), eta, weights.w, self.y
        )
        constant, _ = _constant_derivatives(self.values, alpha)
        slope = self.backend.asarray(constant[self.codes[:, 0]])
        return own + (g - weights.w * slope) * ((C * Z).sum(axis=0) / T)

    def level(self, eta: Array, weights: CountWeights) -> float:
        """See `Likelihood.level`: the log ratio of observed to expected counts."""
        w, xp = weights.w, self.backend.xp
        total = float((w * self.y).sum())
        with np.errstate(over="ignore"):
            expected = float((w * xp.where(w > 0, xp.exp(eta), 0.0)).sum())
        return float(np.log(total / expected)) if total > 0 and 0 < expected < np.inf else 0.0

    def score(self, eta: Array, held_out: Array, train: Array) -> Array:
        """Compute the log-likelihood of held-out rows at the dispersion of the training rows."""
        alpha = self.best_dispersion(eta, self.weigh(train))
        loss = self._evaluate_at(eta, self.weigh(held_out), alpha)[0]
        return self.score_constant(held_out) - loss

    def score_constant(self, w: Array) -> Array:
        """See `Likelihood.score_constant`: −Σ w log y!."""
        return self.log_likelihood_constant(w)

    def log_likelihood_constant(self, weights: Array) -> Array:
        """Compute −Σ w log y!."""
        return -(weights * self.log_factorial).sum(axis=0)

    # -- sums over rows --------------------------------------------------------------------------

    def _evaluate_at(
        self, eta: Array, weights: CountWeights, alpha: np.ndarray
    ) -> tuple[Array, Array]:
        """Return the loss, (B,), and its derivative in η, (n, B), at dispersions (B,)."""
        backend, xp = self.backend, self.backend.xp
        theta, log_alpha = (backend.asarray(x[None, :]) for x in (1.0 / alpha, np.log(alpha)))

        def part(eta: Array, w: Array, y: Array) -> tuple[Array, ...]:
            """Compute losses and slopes of a chunk of rows."""
            z = eta + log_alpha
            e = xp.exp(-abs(z))
            log1p = xp.log1p(e) + xp.maximum(z, 0.0)
            p = xp.where(z >= 0, 1.0, e) / (1.0 + e)
            q = xp.where(z >= 0, e, 1.0) / (1.0 + e)
            with np.errstate(invalid="ignore"):
                loss = w * ((y + theta) * log1p - y * eta)
                return xp.where(w > 0, loss, 0.0), xp.where(w > 0, w * (theta * p - y * q), 0.0)

        columns = eta, weights.w, self.repeated(self.y, eta.shape[1])
        loss, (r,) = backend.sum_rows(part, *columns)
        constant = (weights.counts * _log_constants(self.values, alpha)).sum(axis=0)
        return loss - backend.asarray(constant), r

    def _cross_derivatives(self, eta: Array, weights: CountWeights, alpha: np.ndarray) -> Array:
        """Compute C = ∂²L/∂η∂α = −θ p r of one replicate, (n, 1)."""
        xp, theta, log_alpha = self.backend.xp, float(1.0 / alpha[0]), float(np.log(alpha[0]))
        z = eta + log_alpha
        e = xp.exp(-abs(z))
        p = xp.where(z >= 0, 1.0, e) / (1.0 + e)
        q = xp.where(z >= 0, e, 1.0) / (1.0 + e)
        w = weights.w
        return xp.where(w > 0, -theta * p * w * (theta * p - self.y * q), 0.0)

    def _row_slopes(self, eta: Array, w: Array, y: Array, alpha: np.ndarray) -> tuple[Array, Array]:
        """Compute the first and second derivative in α of each row's loss, without a(y, α).

        They are μ² g(x) + y θ p and μ³ g'(x) − y θ² p², with x = α μ and
        g(x) = [x / (1 + x) − log(1 + x)] / x².
        """
        backend, xp = self.backend, self.backend.xp
        theta, log_alpha = (backend.asarray(x[None, :]) for x in (1.0 / alpha, np.log(alpha)))
        z = eta + log_alpha
        e = xp.exp(-abs(z))
        p = xp.where(z >= 0, 1.0, e) / (1.0 + e)
        log1p = xp.log1p(e) + xp.maximum(z, 0.0)
        small = z < DISPERSION.log_series
        x = xp.where(small, e, 0.0)  # exp z, or a value that is not used
        g, slope = 0.0 * x, 0.0 * x
        for k in range(DISPERSION.series_terms, 0, -1):  # Horner's scheme
            term = (-1.0) ** k * k / (k + 1.0)
            slope = slope * x + g
            g = g * x + term
        mu = theta * x
        first = xp.where(small, mu * mu * g, theta * theta * (p - log1p))
        second = xp.where(
            small, mu * mu * mu * slope, theta * theta * theta * (-2.0 * (p - log1p) - p * p)
        )
        tp = theta * p
        with np.errstate(invalid="ignore"):
            first, second = w * (first + y * tp), w * (second - y * tp * tp)
        return xp.where(w > 0, first, 0.0), xp.where(w > 0, second, 0.0)

    def _derivatives(
        self, eta: Array, weights: CountWeights, alpha: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute the first and second derivative of the loss in α, (B,) each."""
        backend = self.backend
        columns = eta, weights.w, self.repeated(self.y, eta.shape[1])
        rows = backend.map_rows(lambda e, w, y: self._row_slopes(e, w, y, alpha), *columns)
        first, second = (np.array(backend.to_host(backend.column_sum(x))) for x in rows)
        own = _constant_derivatives(self.values, alpha)
        return (
            first - (weights.counts * own[0]).sum(axis=0),
            second - (weights.counts * own[1]).sum(axis=0),
        )

    # -- the dispersion --------------------------------------------------------------------------

    def _fit_dispersion(self, eta: Array, weights: CountWeights) -> np.ndarray:
        """Maximise the likelihood over α for each replicate by safeguarded Newton steps, (B,)."""
        low, high = DISPERSION.min_value, DISPERSION.max_value
        alpha = weights.start
        if alpha is None:
            alpha = np.full(weights.counts.shape[1], DISPERSION.start)
        alpha = alpha.copy()
        # The root of the derivative is known to lie above ``below`` and below ``above``.
        below, above = np.zeros(len(alpha)), np.full(len(alpha), np.inf)
        for _ in range(DISPERSION.max_steps):
            g, T = self._derivatives(eta, weights, alpha)
            below, above = np.where(g < 0, alpha, below), np.where(g > 0, alpha, above)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                new = np.where(T > 0, alpha - g / T, np.where(g > 0, 0.0, np.inf))
                settled = (T > 0) & (g * g <= DISPERSION.settled**2 * T)
                # Far from the optimum the step is limited, and it stays between the bounds.
                new = np.clip(new, alpha / DISPERSION.max_factor, alpha * DISPERSION.max_factor)
                middle = np.where(above < np.inf, 0.5 * (below + above), 2.0 * alpha)
                new = np.where((new > below) & (new < above), new, middle)
            at_bound = ((alpha <= low) & (g >= 0)) | ((alpha >= high) & (g <= 0))
            done = at_bound | ~np.isfinite(g) | (g == 0.0)
            alpha = np.where(done, alpha, np.clip(new, low, high))
            if (done | settled).all():
                break
        return alpha

    @staticmethod
    def _interior(alpha: np.ndarray) -> np.ndarray:
        """Return whether dispersions are not at a bound, (B,)."""
        return (alpha > DISPERSION.min_value) & (alpha < DISPERSION.max_value)

    def fitted_dispersion(self, eta: Array, weights: CountWeights) -> float:
        """Return the dispersion of one replicate, zero at the lower bound."""
        alpha = self.best_dispersion(eta, weights)[:1]
        lowest = self.given is None and alpha[0] <= DISPERSION.min_value
        return 0.0 if lowest else float(alpha[0])


def _log_constants(values: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Compute a(y, α) = log Γ(y + θ) − log Γ(θ) + y log α for distinct values y, (D, B).

    For small α Stirling's series of the difference is used, in which nothing cancels.
    """
    y, a = values[:, None], alpha[None, :]
    theta, t = 1.0 / a, 1.0 / (1.0 + a * y)
    log1p = np.log1p(a * y)
    series = (
        (theta + y - 0.5) * log1p
        - y
        + a / 12.0 * (t - 1.0)
        - a**3 / 360.0 * (t**3 - 1.0)
        + a**5 / 1260.0 * (t**5 - 1.0)
        - a**7 / 1680.0 * (t**7 - 1.0)
    )
    direct = gammaln(y + theta) - gammaln(theta) + y * np.log(a)
    return np.where(a < DISPERSION.stirling_below, series, direct)


def _constant_derivatives(values: np.ndarray, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the first and second derivative of `_log_constants` in α, (D, B) each."""
    y, a = values[:, None], alpha[None, :]
    theta, z = 1.0 / a, a * y
    t = 1.0 / (1.0 + z)
    # h(z) = [z − log(1 + z)] / z² and its derivative
    few = z < DISPERSION.max_series
    with np.errstate(divide="ignore", invalid="ignore"):
        h = (z - np.log1p(z)) / z**2
        dh = t / z - 2.0 * h / z
    h_series, dh_series = np.zeros_like(z), np.zeros_like(z)
    x = np.where(few, z, 0.0)
    for k in range(DISPERSION.series_terms, 0, -1):
        dh_series = dh_series * x + h_series
        h_series = h_series * x + (-1.0) ** (k + 1) / (k + 1.0)
    h, dh = np.where(few, h_series, h), np.where(few, dh_series, dh)
    first = (
        y**2 * h
        - 0.5 * y * t
        + (t**2 - 1.0) / 12.0
        - a**2 / 120.0 * (t**4 - 1.0)
        + a**4 / 252.0 * (t**6 - 1.0)
        - a**6 / 240.0 * (t**8 - 1.0)
    )
    second = (
        y**3 * dh
        + 0.5 * (y * t) ** 2
        - y * t**3 / 6.0
        - a / 60.0 * (t**4 - 1.0)
        + a**2 / 30.0 * y * t**5
        + a**3 / 63.0 * (t**6 - 1.0)
        - a**4 / 42.0 * y * t**7
        - a**5 / 40.0 * (t**8 - 1.0)
        + a**6 / 30.0 * y * t**9
    )
    gap = digamma(y + theta) - digamma(theta)
    direct = y * theta - theta**2 * gap
    curved = polygamma(1, y + theta) - polygamma(1, theta)
    direct2 = -y * theta**2 + 2.0 * theta**3 * gap + theta**4 * curved
    small = a < DISPERSION.stirling_below
    return np.where(small, first, direct), np.where(small, second, direct2)
