"""The solver uses a data term through its protocol only: another term has the same optima."""

import numpy as np
import pytest
from dense_term import DenseTerm
from scipy import sparse

from simulators import indicators
from steropes.backends import get_backend
from steropes.design_matrix import as_design
from steropes.likelihoods import LogisticLikelihood
from steropes.solve import Batch
from steropes.solve.data_term import LocalTerm
from steropes.solve.elastic_net_penalty import continuation_factors
from steropes.solve.optimality.optimality_certificate import violations
from tuning import tune_solver

PENALTIES = {"lasso": (2.0, 0.0), "ridge": (0.0, 3.0), "both": (1.5, 0.5)}


def data(rng, n=300, p=40, B=5):
    X = indicators(rng, n, p).toarray()
    X[:, 0] = 1.0  # without a penalty, like an intercept
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 1:4] @ [0.9, -0.7, 0.6]))).astype(float)
    w = rng.integers(0, 3, size=(n, B)).astype(float)
    return X, y, w


def penalty(name, p):
    l1, l2 = (np.full(p, x) for x in PENALTIES[name])
    l1[0] = l2[0] = 0.0
    return l1, l2


@pytest.mark.parametrize("name", PENALTIES)
def test_a_dense_term_in_numpy_ends_where_the_local_one_does(name, rng):
    X, y, w = data(rng)
    l1, l2 = penalty(name, X.shape[1])
    dense = Batch(DenseTerm(X, y, w)).solve(l1, l2, tol=1e-9)
    likelihood = LogisticLikelihood(y, get_backend("cpu", 1))
    local = Batch(LocalTerm(as_design(sparse.csc_array(X)), likelihood, w, None, w.shape[1]))
    for a, b in zip(dense, local.solve(l1, l2, tol=1e-9), strict=True):
        assert a.converged
        assert b.converged
        np.testing.assert_allclose(a.beta, b.beta, atol=1e-8)
        assert a.objective == pytest.approx(b.objective, rel=1e-12)


@pytest.mark.parametrize("name", PENALTIES)
def test_the_certificate_of_a_dense_term_is_true(name, rng):
    X, y, w = data(rng)
    l1, l2 = penalty(name, X.shape[1])
    for b, fit in enumerate(Batch(DenseTerm(X, y, w)).solve(l1, l2, tol=1e-9)):
        g = X.T @ (w[:, b] * (1 / (1 + np.exp(-X @ fit.beta)) - y))
        unit = np.where(l1 > 0, l1, np.sqrt((w[:, [b]] * X**2 / 4).sum(axis=0)))
        assert (violations(g, fit.beta, l1, l2) / unit).max() <= 3e-9


def test_a_path_of_penalties_on_a_dense_term_is_its_cold_starts(rng):
    X, y, w = data(rng, B=2)
    warm = Batch(DenseTerm(X, y, w))
    for lam in (8.0, 3.0, 1.0, 4.0):
        l1, l2 = penalty("lasso", X.shape[1])
        path = warm.solve(lam * l1, l2, tol=1e-10)
        cold = Batch(DenseTerm(X, y, w)).solve(lam * l1, l2, tol=1e-10)
        for a, b in zip(path, cold, strict=True):
            np.testing.assert_allclose(a.beta, b.beta, atol=1e-8)


def test_a_continuation_does_not_change_the_solution(monkeypatch, rng):
    """A fit that goes by way of stronger penalties ends where the direct one does."""
    X, y, w = data(rng, 400, 200, 1)
    l1, l2 = penalty("lasso", X.shape[1])
    direct = Batch(DenseTerm(X, y, w)).solve(0.5 * l1, l2, tol=1e-9)[0]
    tune_solver(monkeypatch, "working_set", min_violators=1)
    batch = Batch(DenseTerm(X, y, w))
    detour = batch.solve(0.5 * l1, l2, tol=1e-9)[0]
    assert detour.converged
    np.testing.assert_allclose(detour.beta, direct.beta, atol=1e-8)


@pytest.mark.parametrize("strongest", [0.5, 1.0, 1.6, 40.0, 1e6])
def test_a_continuation_starts_with_large_ratios(strongest):
    factors = np.array(continuation_factors(strongest))
    assert ((factors > 1) & (factors < strongest)).all()
    strides = np.append(factors, 1.0)[:-1] / np.append(factors, 1.0)[1:]
    assert (np.diff(strides) <= 1e-9).all()  # and the shorter the nearer
    assert (np.append(strongest, factors)[0] / np.append(factors, 1.0)[0]) <= 6.0 + 1e-9


def test_steps_of_a_continuation_count_towards_max_iter(monkeypatch, rng):
    X, y, w = data(rng, 400, 200, 1)
    l1, l2 = penalty("lasso", X.shape[1])
    tune_solver(monkeypatch, "working_set", min_violators=1)
    for most in (1, 3):
        fit = Batch(DenseTerm(X, y, w)).solve(0.5 * l1, l2, tol=1e-9, max_iter=most)[0]
        assert fit.n_iter == most
        assert not fit.converged


def test_a_term_that_starts_elsewhere_is_not_evaluated_at_zero(rng, monkeypatch):
    X, y = rng.normal(size=(50, 2)), (rng.random(50) < 0.5).astype(float)
    likelihood, beta = LogisticLikelihood(y, get_backend("cpu", 1)), np.array([[0.5], [-1.0]])
    seen, evaluate = [], likelihood.evaluate
    monkeypatch.setattr(
        likelihood, "evaluate", lambda eta, bound: seen.append(eta) or evaluate(eta, bound)
    )
    moved = LocalTerm(as_design(X), likelihood, np.ones((50, 1)))
    moved.join(np.arange(2))
    moved.place(beta)
    assert len(seen) == 1
    assert moved.loss[0] < np.inf
    assert len(seen) == 1
    still = LocalTerm(as_design(X), likelihood, np.ones((50, 1)))
    np.testing.assert_allclose(still.loss[0], 50 * np.log(2))  # at zero until it is placed
    assert not still.eta.any()
    assert len(seen) == 2
