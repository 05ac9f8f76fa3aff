"""Nuisance parameters in the common batch, with a toy likelihood that has a closed form."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import sparse

from steropes.backends import get_backend
from steropes.design_matrix import as_design
from steropes.fit import Problem, Replicates
from steropes.likelihoods import LinearLikelihood
from steropes.likelihoods.hessian_structures import ProfiledCurvature
from steropes.likelihoods.nuisance_hessian import Chain
from steropes.likelihoods.nuisance_interface import Nuisance, NuisancePoint
from steropes.likelihoods.nuisance_likelihood import NuisanceLikelihood
from steropes.priors import Laplace, Normal
from steropes.solve.certified_fit import certified_fit
from steropes.solve.optimality.optimality_certificate import certificate


class ShiftedLinear(NuisanceLikelihood):
    """½ Σ w (y − η + α)²: a linear model whose intercept, −α, is a nuisance parameter."""

    shift_invariant = True

    def __init__(self, y, backend):
        super().__init__(backend)
        self.y, self.n = y, len(y)

    def begin(self, eta, w, like=None):
        return Shift(self.y, w, like.alpha if isinstance(like, Shift) else 0.0)


@dataclass(frozen=True)
class Shift(Nuisance):
    y: np.ndarray
    w: np.ndarray
    alpha: float
    K: int = 1

    def at(self, eta):
        return Point(self, self.y - eta + self.alpha)

    def moved(self, direction, t):
        return replace(self, alpha=self.alpha + t * direction)

    def score_residuals(self, eta, Z):
        r = self.w * (self.y - eta + self.alpha)
        return r[:, None] * (Z - self.w @ Z / self.w.sum())

    def score(self, eta, weights):
        return -0.5 * float(weights @ (self.y - eta + self.alpha) ** 2)


class Point(NuisancePoint):
    def __init__(self, nuisance, r):
        self.nuisance, self.r, self.w = nuisance, r, nuisance.w
        self.loss = 0.5 * float(self.w @ r**2)
        self.T, self.g = self.w.sum(), self.w @ r

    def gradient(self):
        return -self.w * (self.r - self.g / self.T)

    @property
    def fall(self):
        return self.g**2 / self.T

    def direction(self, d_eta):
        return (self.w @ d_eta - self.g) / self.T

    def curvature(self, coarse=False, positive=False, magnitude=False):
        at = np.zeros(len(self.w), np.int32)
        return ProfiledCurvature(
            v=self.w, rows=None, low=at - 1, up=at, a=self.w, b=0 * self.w,
            pointers=np.array([0, len(self.w), len(self.w)]),
            block=Chain(np.array([self.T]), np.zeros(1)),
        )  # fmt: skip


@pytest.fixture
def data(rng):
    n, p = 200, 8
    X = rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.5)
    y = 3.0 + X[:, :3] @ [1.0, -2.0, 0.5] + rng.normal(size=n)
    return X, y, rng.choice([0.0, 0.5, 1.0, 2.0], n), rng.normal(size=n)


def shifted(X, y, w, offset=None, prior=None, jobs=2):
    backend = get_backend("cpu", jobs)
    design = as_design(X)
    return Problem(design, ShiftedLinear(y, backend), w, offset, prior, design.names)


def usual(X, y, w, offset, prior):
    design, backend = as_design(X), get_backend("cpu", 2)
    whole = design.with_intercept()
    return Problem(whole, LinearLikelihood(y, backend), w, offset, prior, design.names, n_free=1)


def fitted(problem, prior, tol=1e-10):
    return certified_fit(problem, problem.batch(), *problem.penalties(prior), tol, 100)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array])
@pytest.mark.parametrize("offset", [False, True])
@pytest.mark.parametrize("prior", [None, Normal(0.3), Laplace(0.01)])
def test_an_intercept_as_nuisance_parameter_is_the_usual_fit(prior, offset, storage, data):
    X, y, w, shift = data
    shift = shift if offset else None
    a = fitted(usual(storage(X), y, w, shift, prior), prior)
    b = fitted(shifted(storage(X), y, w, shift, prior), prior)
    assert b.converged
    np.testing.assert_allclose(b.beta, a.beta[1:], atol=1e-8)
    assert -b.nuisance.alpha == pytest.approx(a.beta[0], abs=1e-8)
    assert b.loss == pytest.approx(a.loss, rel=1e-10)


def test_a_fit_without_columns_moves_the_nuisance_parameters_alone(data):
    X, y, w, _ = data
    problem = shifted(X, y, w)
    fit = problem.batch().solve(np.full(X.shape[1], 1e300), np.zeros(X.shape[1]))[0]
    assert fit.converged
    assert not fit.beta.any()
    assert -fit.nuisance.alpha == pytest.approx(np.average(y, weights=w))


@pytest.mark.parametrize("l1", [0.0, 1.0, 1e300])
def test_a_fit_without_finite_numbers_ends_unconverged(l1, data, monkeypatch):
    """So far out that the nuisance parameters have no curvature, as with a probit link."""
    X, y, w, _ = data
    monkeypatch.setattr(Point, "gradient", lambda self: np.full(len(w), np.nan))
    monkeypatch.setattr(Point, "fall", property(lambda self: np.nan))
    fit = shifted(X, y, w).batch().solve(np.full(X.shape[1], l1), np.zeros(X.shape[1]))[0]
    assert not fit.converged


@pytest.mark.parametrize("prior", [None, Laplace(0.01)])
def test_lanes_end_where_single_fits_do(prior, data, rng):
    X, y, w, _ = data
    problem = shifted(X, y, w, prior=prior)
    weights = rng.choice([0.0, 1.0, 2.0], (len(y), 5))
    l1, l2 = problem.penalties(prior)
    fits = problem.batch(weights, 5).solve(l1, l2, tol=1e-10)
    for b, fit in enumerate(fits):
        alone = fitted(replace(problem, weights=weights[:, b]), prior)
        np.testing.assert_allclose(fit.beta, alone.beta, atol=1e-8)
        assert fit.nuisance.alpha == pytest.approx(alone.nuisance.alpha, abs=1e-8)


def test_the_certificate_is_of_both_together(data):
    X, y, w, _ = data
    problem = shifted(X, y, w)
    fit = fitted(problem, None)
    zero = np.zeros(X.shape[1])
    assert certificate(problem, fit.beta, zero, zero, nuisance=fit.nuisance) < 1e-10
    off = replace(fit.nuisance, alpha=fit.nuisance.alpha + 0.1)
    assert certificate(problem, fit.beta, zero, zero, nuisance=off) == pytest.approx(
        0.1 * np.sqrt(w.sum()), rel=1e-6
    )
    assert certificate(problem, fit.beta + 0.1, zero, zero, nuisance=fit.nuisance) > 0.1


def test_the_profile_likelihood_has_the_gradient_and_curvature_of_its_loss(data, rng):
    _, y, w, eta = data
    likelihood, d = ShiftedLinear(y, get_backend("cpu", 1)), rng.normal(size=len(y))
    eta, w, h = eta[:, None], w[:, None], 1e-4

    def at(t):
        return likelihood.loss(eta + t * d[:, None], w)[0]

    slope = float(likelihood.evaluate(eta, w)[1][:, 0] @ d)
    assert slope == pytest.approx((at(h) - at(-h)) / (2 * h), rel=1e-6)
    curvature = likelihood.curvature(eta, w)
    quadratic = curvature.v @ d**2 - (curvature.a @ d) ** 2 / curvature.block.u[0]
    assert quadratic == pytest.approx((at(h) - 2 * at(0.0) + at(-h)) / h**2, rel=1e-4)
    parts = likelihood.score_residuals(eta, w, d[:, None])
    assert -parts.sum() == pytest.approx(slope, rel=1e-9)


def test_replicates_can_start_near_a_fit(data):
    X, y, w, _ = data
    problem = shifted(X, y, w)
    fit = fitted(problem, None)

    def weights(numbers):
        return np.repeat(w[:, None], len(numbers), axis=1)

    points = Replicates(problem, problem.common(), 3, weights, 1e9, like=fit.nuisance)
    start = (fit.beta * problem.design.scale)[:, None]
    zero = np.zeros(X.shape[1])
    (group,) = points.solve(zero, zero, 1e-8, lambda k: start, "after")
    assert [f.n_iter for f in group.fits] == [0, 0, 0]


def test_an_interrupted_fit_goes_on_from_where_it_was(data):
    X, y, w, _ = data
    prior = Laplace(0.01)
    problem = shifted(X, y, w, prior=prior)
    batch, penalties = problem.batch(), problem.penalties(prior)

    def stop(step, violation):
        if step == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batch.solve(*penalties, tol=1e-10, callback=stop)
    fit = batch.solve(*penalties, tol=1e-10)[0]
    np.testing.assert_allclose(fit.beta, fitted(problem, prior).beta, atol=1e-9)
