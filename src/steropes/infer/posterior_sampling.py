"""Draws from the posterior of a penalised model, with the variance of its prior unknown.

Chains are replicates: one product with X serves all of them. A draw consists of

1. a trajectory of Hamiltonian Monte Carlo in all coefficients, given the prior's standard deviation
   (Neal 2011, §5.3), with the inverse information of the fit as metric;
2. a slice update (Neal 2003) of the standard deviation given the coefficients, and one given the
   coefficients divided by it. The two have different slow directions (Yu and Meng 2011), so that
   both strong and weak data are covered;
3. in linear models, a slice update of the residual standard deviation.

Both standard deviations have half-Cauchy priors (Gelman 2006; Polson and Scott 2012), that of the
residuals with the outcome's standard deviation as scale; unpenalised coefficients have flat priors.
A residual variance with the density 1 / σ² would have no proper posterior with more columns than
rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..backends.backend_interface import Array
from ..fit import Problem
from ..solve.data_term import LocalTerm
from ..solve.hessian import diagonal, hessian
from .hamiltonian_metric import FullMetric, Metric, ShearedMetric, information_rows
from .inference_constants import POSTERIOR

__all__ = ["ChainResult", "sample_posterior"]


def slice_update(
    log_density: Callable[[np.ndarray], np.ndarray], x: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw from univariate densities by slice sampling (Neal 2003, figures 3 and 5), (B,).

    Intervals of width one are stepped out and shrunk in all chains together.
    """
    level = log_density(x) + np.log(rng.random(len(x)))
    low = x - rng.random(len(x))
    high = low + 1.0
    for sign in (-1.0, 1.0):
        for _ in range(POSTERIOR.max_stepping_out):
            end = low if sign < 0 else high
            inside = log_density(end) > level
            if not inside.any():
                break
            if sign < 0:
                low = np.where(inside, low - 1.0, low)
            else:
                high = np.where(inside, high + 1.0, high)
    out, todo = x.copy(), np.ones(len(x), bool)
    for _ in range(POSTERIOR.max_shrinkings):
        tried = low + rng.random(len(x)) * (high - low)
        inside = (log_density(np.where(todo, tried, out)) > level) & todo
        out = np.where(inside, tried, out)
        todo &= ~inside
        if not todo.any():
            break
        low = np.where(todo & (tried < x), tried, low)
        high = np.where(todo & (tried >= x), tried, high)
    return out


@dataclass(frozen=True)
class ChainResult:
    """Draws of all chains.

    Attributes
    ----------
    coef : (chains, draws, k) array
        Recorded coefficients.
    deviation : (chains, draws) array
        The prior's standard deviation, relative to that of the fit.
    dispersion : (chains, draws) array
        The residual variance of a linear model, and 1 for others.
    acceptance : float
        Mean acceptance probability of the trajectories.
    """

    coef: np.ndarray
    deviation: np.ndarray
    dispersion: np.ndarray
    acceptance: float


@dataclass(frozen=True)
class ShrinkagePrior:
    """Laplace or normal prior on some coefficients, with an unknown standard deviation t.

    Attributes
    ----------
    l1, l2 : (p,) arrays
        Penalties of the scaled coefficients at t = 1; one of the two is zero.
    scale : float
        Scale of the half-Cauchy prior on t.
    """

    l1: np.ndarray
    l2: np.ndarray
    scale: float

    @property
    def penalised(self) -> np.ndarray:
        """Which coefficients have the prior, (p,) bool."""
        return (self.l1 > 0) | (self.l2 > 0)

    def energy(self, b: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Compute the negative log density in b (p, B), without its constant in t (B,)."""
        return self.l1 @ np.abs(b) / t + 0.5 * (self.l2 @ b**2) / t**2

    def slope(self, b: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Compute the derivative of `energy` in b, (p, B)."""
        return self.l1[:, None] * np.sign(b) / t + self.l2[:, None] * b / t**2

    def precision(self) -> np.ndarray:
        """Compute the inverse variances of the coefficients at t = 1, (p,)."""
        return 0.5 * self.l1**2 + self.l2

    def log_hyperprior(self, x: np.ndarray) -> np.ndarray:
        """Compute the log density of x = log t, with the derivative of t."""
        return x - np.log1p(np.exp(2.0 * (x - np.log(self.scale))))


class _Target:
    """The loss of a problem at the coefficients of several chains."""

    def __init__(self, problem: Problem, chains: int) -> None:
        self.problem, self.B = problem, chains
        offset = None if problem.offset is None else problem.offset[:, None]
        likelihood, weights = problem.likelihood, problem.weights[:, None]
        self.term = LocalTerm(problem.design, likelihood, weights, offset, chains)
        self.term.join(np.arange(problem.design.p))
        self.likelihood = problem.likelihood
        self.quadratic = problem.likelihood.quadratic
        self.total = float(problem.weights.sum())
        self.spread = getattr(problem.likelihood, "spread", 1.0)  # of a linear model's outcome

    def at(self, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute losses (B,) and their gradients (p, B) at scaled coefficients (p, B)."""
        self._place(b)
        g = self.term.gradients(0.0)[:, : self.B]
        return np.array(self.term.loss[: self.B]), g

    def _place(self, b: np.ndarray) -> None:
        """Move to scaled coefficients (p, B)."""
        wide = np.zeros((len(b), self.term.lanes))
        wide[:, : self.B] = b
        with np.errstate(over="ignore", invalid="ignore"):
            self.term.place(wide)

    def predictor(self, b: np.ndarray) -> Array:
        """Compute linear predictors, (rows of η, lanes)."""
        self._place(b)
        return self.term.eta + 0.0

    def loss(self, eta: Array) -> np.ndarray:
        """Compute the losses at linear predictors, (B,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = self.likelihood.loss(eta, self.term.bound)
        return np.asarray(self.likelihood.backend.to_host(found))[: self.B]


def sample_posterior(
    problem: Problem,
    beta: np.ndarray,
    l1: np.ndarray,
    l2: np.ndarray,
    scale: float,
    record: Callable[[np.ndarray], np.ndarray],
    sizes: tuple[int, int, int],
    rng: np.random.Generator,
    report: Callable[[str, float], None],
) -> ChainResult:
    """Draw from the posterior of all coefficients and of the prior's standard deviation.

    Parameters
    ----------
    beta : (p,) array
        The fitted coefficients in X's units, from which the chains start.
    l1, l2 : (p,) arrays
        Penalties at the fitted variance, in X's units.
    scale : float
        Scale of the half-Cauchy prior, relative to the fitted standard deviation.
    record : callable
        Maps coefficients (p, B) in X's units to those to be kept, (k, B).
    sizes : tuple of int
        Numbers of chains, of draws for adaptation and of draws of each chain.
    report : callable
        Receives the progress.
    """
    chains, warmup, draws = sizes
    design = problem.design
    unit = design.scale
    prior = ShrinkagePrior(l1 / unit, l2 / unit / unit, scale)
    sampler = _Sampler(_Target(problem, chains), prior, beta * unit, rng)
    for i in range(warmup):
        sampler.step(adapt=True)
        if i in (warmup // 4, warmup // 2):
            sampler.renew_metric()
        report("adaptation", (i + 1) / warmup)
    sampler.finish_adaptation()
    coef, deviation, dispersion = [], [], []
    accepted = 0.0
    for i in range(draws):
        accepted += sampler.step(adapt=False)
        coef.append(record(sampler.b / unit[:, None]))
        deviation.append(np.exp(sampler.x))
        dispersion.append(sampler.phi.copy())
        report("draws", (i + 1) / draws)
    return ChainResult(
        np.moveaxis(np.array(coef), 2, 0),
        np.array(deviation).T,
        np.array(dispersion).T,
        accepted / draws,
    )


class _Sampler:
    """The state of all chains.

    Attributes
    ----------
    b : (p, B) array
        Scaled coefficients.
    x : (B,) array
        Logarithm of the prior's relative standard deviation.
    phi : (B,) array
        Dispersion.
    """

    def __init__(
        self, target: _Target, prior: ShrinkagePrior, b: np.ndarray, rng: np.random.Generator
    ) -> None:
        self.target, self.prior, self.rng = target, prior, rng
        self.B = target.B
        self.x, self.phi = np.zeros(self.B), np.ones(self.B)
        self.b = np.repeat(b[:, None], self.B, axis=1)
        self.loss, self.g = target.at(self.b)
        if target.quadratic:
            self.phi = np.maximum(2.0 * self.loss / target.total, 1e-300)
        self.renew_metric()
        # Chains start from different points: draws from the normal approximation.
        mass = self.metric.masses(np.exp(self.x))
        spread = rng.standard_normal(mass.shape) / np.sqrt(mass)
        self.b = self.b + self.metric.to_coefficients(spread)
        self.x = self.x + POSTERIOR.start_spread * rng.standard_normal(self.B)
        self.loss, self.g = target.at(self.b)

    # -- the coefficients ------------------------------------------------------------------------

    def renew_metric(self) -> None:
        """Compute the metric at the mean of the chains, and restart the search for a step size."""
        problem = self.target.problem
        likelihood, design = problem.likelihood, problem.design
        middle = np.repeat(self.b.mean(axis=1)[:, None], self.B, axis=1)
        eta = likelihood.backend.xp.ascontiguousarray(self.target.predictor(middle)[:, :1])
        w = problem.weights[:, None]
        order = likelihood.order
        bound = likelihood.weigh(likelihood.backend.asarray(w if order is None else w[order]))
        curvature = likelihood.curvature(eta, bound, exact=True)
        rows = design.by_rows(np.arange(design.p), order, likelihood.backend)
        phi = float(np.exp(np.log(self.phi).mean()))
        host, D = likelihood.backend.to_host, self.prior.precision()
        if design.p <= POSTERIOR.max_dense_columns:
            self.metric: Metric = FullMetric(host(hessian(rows, curvature)) / phi, D)
        else:
            free = np.flatnonzero(~self.prior.penalised)[: POSTERIOR.max_free_columns]
            cross = information_rows(problem, curvature, free) / phi
            h = np.asarray(host(diagonal(rows, curvature))) / phi
            self.metric = ShearedMetric(h, free, cross, D)
        self.size = _StepSize(POSTERIOR.first_step)

    def finish_adaptation(self) -> None:
        """Fix the step size."""
        self.size.fix()

    def step(self, adapt: bool) -> float:
        """Draw new values of all parameters, and return the mean acceptance probability."""
        accepted = self._trajectory()
        if adapt:
            self.size.adapt(accepted)
        self._update_deviation()
        self._update_scaled_deviation()
        if self.target.quadratic:
            self._update_dispersion()
        return accepted

    def _trajectory(self) -> float:
        """Move the coefficients along trajectories of Hamiltonian dynamics."""
        t, metric, target = np.exp(self.x), self.metric, self.target
        eps = self.size.value * self.rng.uniform(0.8, 1.0)
        longest = np.clip(np.ceil(POSTERIOR.length / eps), 1, POSTERIOR.max_leapfrogs)
        count = int(self.rng.integers(1, int(longest) + 1)) if longest > 1 else 1
        b, loss, g = self.b, self.loss, self.g
        mass = metric.masses(t)
        m = self.rng.standard_normal(mass.shape) * np.sqrt(mass)
        before = loss / self.phi + self.prior.energy(b, t) + 0.5 * (m**2 / mass).sum(axis=0)
        slope = metric.to_momenta(g / self.phi + self.prior.slope(b, t))
        with np.errstate(over="ignore", invalid="ignore"):
            for _ in range(count):
                m = m - 0.5 * eps * slope
                b = b + eps * metric.to_coefficients(m / mass)
                loss, g = target.at(b)
                slope = metric.to_momenta(g / self.phi + self.prior.slope(b, t))
                m = m - 0.5 * eps * slope
            after = loss / self.phi + self.prior.energy(b, t) + 0.5 * (m**2 / mass).sum(axis=0)
            probability = np.exp(np.minimum(0.0, before - after))
        probability = np.where(np.isfinite(after), probability, 0.0)
        taken = self.rng.random(self.B) < probability
        self.b = np.where(taken, b, self.b)
        self.loss = np.where(taken, loss, self.loss)
        self.g = np.where(taken, g, self.g)
        return float(probability.mean())

    def _update_dispersion(self) -> None:
        """Update the residual variance of a linear model."""
        n, spread = self.target.total, float(self.target.spread)

        def log_density(x: np.ndarray) -> np.ndarray:
            hyper = 0.5 * x - np.log1p(np.exp(x) / spread**2)
            return hyper - 0.5 * n * x - self.loss * np.exp(-x)

        self.phi = np.exp(slice_update(log_density, np.log(self.phi), self.rng))

    # -- the standard deviation of the prior -------------------------------------------------------

    def _update_deviation(self) -> None:
        """Update the standard deviation given the coefficients."""
        k = int(self.prior.penalised.sum())
        one, two = self.prior.l1 @ np.abs(self.b), 0.5 * (self.prior.l2 @ self.b**2)

        def log_density(x: np.ndarray) -> np.ndarray:
            return self.prior.log_hyperprior(x) - k * x - one * np.exp(-x) - two * np.exp(-2.0 * x)

        self.x = slice_update(log_density, self.x, self.rng)

    def _update_scaled_deviation(self) -> None:
        """Update the standard deviation with the coefficients in proportion to it."""
        target, shrunken = self.target, self.prior.penalised
        free = np.where(shrunken[:, None], 0.0, self.b)
        eta = target.predictor(self.b)
        fixed = target.predictor(free)
        part, start = eta - fixed, self.x

        def log_density(x: np.ndarray) -> np.ndarray:
            factor = np.ones(part.shape[1])
            factor[: self.B] = np.exp(x - start)
            moved = fixed + part * target.likelihood.backend.asarray(factor)
            out = self.prior.log_hyperprior(x) - target.loss(moved) / self.phi
            return np.where(np.isfinite(out), out, -np.inf)

        self.x = slice_update(log_density, start, self.rng)
        self.b = np.where(shrunken[:, None], self.b * np.exp(self.x - start), self.b)
        self.loss, self.g = target.at(self.b)


class _StepSize:
    """Step size by dual averaging (Hoffman and Gelman 2014, §3.2)."""

    def __init__(self, first: float) -> None:
        self._mu, self.value = np.log(10.0 * first), first
        self._h, self._mean, self._i = 0.0, 0.0, 0

    def adapt(self, acceptance: float) -> None:
        """Adapt to the acceptance probability of a trajectory."""
        self._i += 1
        i = self._i
        share = 1.0 / (i + 10.0)
        self._h = (1.0 - share) * self._h + share * (POSTERIOR.acceptance - acceptance)
        log_value = self._mu - np.sqrt(i) / 0.05 * self._h
        self._mean = i**-0.75 * log_value + (1.0 - i**-0.75) * self._mean
        self.value = float(np.exp(np.clip(log_value, -15.0, 1.0)))

    def fix(self) -> None:
        """Use the mean of the step sizes so far."""
        if self._i:
            self.value = float(np.exp(np.clip(self._mean, -15.0, 1.0)))
