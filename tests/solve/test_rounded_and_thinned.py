"""Rounded and subsampled Hessians do not change the solution."""

import numpy as np
import pytest
from scipy import sparse

import steropes
from simulators import indicators, outcome
from steropes import Laplace, LogisticRegression, PoissonRegression
from steropes.backends import get_backend
from steropes.design_matrix import as_design
from steropes.likelihoods import CoxLikelihood, LogisticLikelihood
from steropes.solve import Batch
from steropes.solve.data_term import LocalTerm
from steropes.solve.data_term.local_term import thinned
from steropes.solve.proximal_newton import hessian_recomputation as hessian_updates
from tuning import tune_solver


def problem(family, rng, n, p):
    X = indicators(rng, n, p)
    y = outcome(family, X[:, :4] @ [0.8, -0.6, 0.5, -0.4], rng)
    backend = get_backend("cpu", 1)
    likelihood = CoxLikelihood(*y, backend) if family == "cox" else LogisticLikelihood(y, backend)
    return as_design(sparse.csc_array(X)), likelihood


@pytest.mark.parametrize("family", ["cox", "logistic"])
def test_single_precision_gradients_are_close_and_used_for_loose_tolerances_only(family, rng):
    design, likelihood = problem(family, rng, 400, 30)
    term = LocalTerm(design, likelihood, rng.uniform(0.5, 2.0, (400, 9)), None, 9)
    term.join(np.arange(5))
    beta = np.zeros((30, term.lanes))
    beta[:5] = 0.3
    term.place(beta)
    r = np.zeros((400, term.lanes))
    r[slice(None) if likelihood.order is None else likelihood.order] = term.r
    exact = design.rmatmul(r, likelihood.backend)
    size = design.rmatmul(np.abs(r), likelihood.backend)[:, :9]
    tight, loose = term.gradients(1e-8)[:, :9], term.gradients(1e-3)[:, :9]
    np.testing.assert_allclose(tight, exact[:, :9], atol=1e-12 * size.max())
    assert np.all(np.abs(loose - exact[:, :9]) <= 1e-6 * size)
    assert not np.array_equal(tight, loose)  # else nothing was tested
    np.testing.assert_array_equal(tight[:5], loose[:5])  # the working set's are exact


@pytest.mark.parametrize("family", ["cox", "logistic", "poisson"])
def test_a_first_hessian_of_a_part_of_the_rows_ends_at_the_same_optimum(family, rng, monkeypatch):
    X = indicators(rng, 3000, 12)
    X.data[:] = 1.0
    y = outcome(family, X[:, :4] @ [0.8, -0.6, 0.5, -0.4], rng)
    model = {
        "cox": steropes.CoxRegression,
        "logistic": steropes.LogisticRegression,
        "poisson": steropes.PoissonRegression,
    }[family](prior=steropes.Laplace(0.5), tol=1e-9)
    y = steropes.Surv(*y) if family == "cox" else y
    whole = model.fit(X, y).coef_
    thins = []
    thin = hessian_updates.Hessians._thin
    tune_solver(monkeypatch, "hessian", min_pairs=0)
    monkeypatch.setattr(
        hessian_updates.Hessians, "_thin", lambda *a: thins.append(thin(*a)) or thins[-1]
    )
    part = model.fit(X, y)
    assert max(thins) > 1
    assert part.converged_
    np.testing.assert_allclose(part.coef_, whole, atol=1e-8)


@pytest.mark.parametrize("family", ["logistic", "poisson"])
def test_columns_without_penalty_that_a_part_of_the_rows_lacks_take_no_more_steps(
    family, monkeypatch
):
    """A rare exposure without penalty: nearly all of its ones may be outside of the subsample."""
    tune_solver(monkeypatch, "hessian", min_pairs=0.0)
    rng = np.random.default_rng(1)
    n, p, rare = 8000, 20, 4
    elsewhere = np.flatnonzero(thinned(np.ones((n, 1)), 8, get_backend("cpu", 1))[:, 0] == 0)
    X = np.zeros((n, p + rare))
    X[:, :p] = indicators(rng, n, p, 0.2).toarray()
    for j in range(p, p + rare):
        X[rng.choice(elsewhere, 60, replace=False), j] = 1.0
    y = outcome(family, X[:, :p] @ rng.normal(scale=0.5, size=p) + X[:, p:].sum(axis=1), rng)
    model = {"logistic": LogisticRegression, "poisson": PoissonRegression}[family]
    fit = model(prior=Laplace(0.01, exclude=range(p, p + rare))).fit(sparse.csc_array(X), y)
    assert fit.converged_
    assert fit.n_iter_ < 40


@pytest.mark.parametrize("family", ["cox", "logistic"])
def test_a_loose_fit_uses_a_subsample_and_the_next_does_not(family, rng, monkeypatch):
    tune_solver(monkeypatch, "hessian", min_pairs=0.0)
    design, likelihood = problem(family, rng, 3000, 12)
    batch = Batch(LocalTerm(design, likelihood, np.ones((3000, 1))))
    l1 = np.full(12, 20.0)
    thin, found = [], []
    for factor in (4.0, 2.0, 1.0):
        (loose,) = batch.solve(factor * l1, 0 * l1, tol=0.1)
        assert loose.optimality <= 0.1
        thin.append(batch.shared.thinned)
    assert any(thin)
    for _ in range(2):
        (tight,) = batch.solve(l1, 0 * l1, tol=1e-9)
        assert tight.optimality <= 1e-9
        assert not batch.shared.thinned
        found.append(tight.beta)
    (fresh,) = Batch(LocalTerm(design, likelihood, np.ones((3000, 1)))).solve(l1, 0 * l1, tol=1e-9)
    np.testing.assert_allclose(found, [fresh.beta] * 2, atol=1e-8)


@pytest.mark.parametrize("family", ["cox", "logistic"])
def test_a_requested_hessian_uses_all_rows(family, rng, monkeypatch):
    tune_solver(monkeypatch, "hessian", min_pairs=0.0)
    monkeypatch.setattr(hessian_updates.Hessians, "_newton", False)  # that of the way is kept
    design, likelihood = problem(family, rng, 3000, 12)
    batch = Batch(LocalTerm(design, likelihood, np.ones((3000, 1))))
    l1 = np.full(12, 20.0)
    batch.solve(l1, 0 * l1, tol=0.5)
    assert batch.shared.thinned
    G = batch.prepare(np.arange(12))
    assert not batch.shared.thinned
    np.testing.assert_allclose(G, batch.term.curvature(0).matrix(), rtol=1e-10)
