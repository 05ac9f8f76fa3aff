"""Cached sums over a changing working set equal new ones, and only new columns are computed."""

import numpy as np
import pytest
from scipy import sparse

from simulators import indicators, mixed_matrix
from steropes.backends import get_backend
from steropes.design_matrix import as_design
from steropes.likelihoods import CoxLikelihood, LogisticLikelihood
from steropes.solve import Batch
from steropes.solve.data_term import LocalTerm
from steropes.solve.data_term.working_set import WorkingColumns
from steropes.solve.solver_constants import DataTermPolicy
from tuning import tune_solver

N, P, B = 300, 30, 5


@pytest.fixture
def of_what(monkeypatch):
    """Which columns rows were made of to see what they say, problems of any size counting."""
    tune_solver(monkeypatch, "data", min_cached_entries=0)
    asked, rows_of = [], WorkingColumns.rows_of

    def noted(self, columns):
        asked.append([int(j) for j in columns])
        return rows_of(self, columns)

    monkeypatch.setattr(WorkingColumns, "rows_of", noted)
    return asked


def likelihood(rng, family):
    backend = get_backend("cpu", 2)
    if family == "logistic":
        return LogisticLikelihood((rng.random(N) < 0.4).astype(float), backend)
    return CoxLikelihood(rng.exponential(size=N), rng.random(N) < 0.6, backend)


def term(rng, family, X):
    w = rng.uniform(0.5, 2.0, (N, 1)) * (rng.random((N, B)) < 0.8)
    w[:, 0] = np.maximum(w[:, 0], 0.1)  # the first has weight in all rows
    return LocalTerm(as_design(X), likelihood(rng, family), w, None, B)


@pytest.mark.parametrize("family", ["logistic", "cox"])
@pytest.mark.parametrize("kind", ["indicators", "mixed", "dense"])
def test_gradients_and_diagonals_are_those_of_all_rows(rng, of_what, monkeypatch, family, kind):
    X = indicators(rng, N, P) if kind == "indicators" else mixed_matrix(rng, N, P)
    it = term(rng, family, sparse.csc_array(X) if kind == "mixed" else X)

    def check(at):
        g, relative = it.gradient(), it.relative(at)
        with monkeypatch.context() as m:
            for cache in (it._gradient, it._diagonals):
                m.setattr(cache, "policy", DataTermPolicy(min_cached_entries=10**9))
                cache.clear()
            np.testing.assert_allclose(g, it.gradient(), rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(relative, it.relative(at), rtol=1e-12)

    it.join(np.arange(10))
    beta = np.zeros((P, it.lanes))
    beta[:10, :B] = rng.normal(size=(10, B)) * 0.3
    it.place(beta)
    at = it.curvature(0)
    check(at)
    it.join(np.array([20, 25]))
    check(at)
    it.active.set_columns(it.W[[0, 3, 4, 7, 8, 9, 10]])
    it.join(np.array([2, 28]))
    check(at)
    assert of_what == 2 * [[20, 25]] + 2 * [[28]]  # of 2 all is known yet
    it.place(np.zeros((P, it.lanes)))
    other = it.curvature(1)
    if other is not None and not (it.w[other.base == 0] > 0).any():
        check(other)
    it.gradient()
    it.join(np.arange(P))  # mostly new
    check(at)
    assert len(of_what) == 4


def test_a_new_curvature_is_not_taken_from_the_cache(rng, of_what):
    it = term(rng, "logistic", indicators(rng, N, P))
    it.join(np.arange(10))
    near = it.curvature(0)
    first = it.relative(near)
    beta = np.zeros((P, it.lanes))
    beta[:10, :B] = rng.normal(size=(10, B)) * 2
    it.place(beta)
    far = it.curvature(0)
    second = it.relative(far)
    assert np.abs(second - first)[:, :B].max() > 1e-3
    np.testing.assert_array_equal(it.relative(near), first)
    assert it.relative(it.curvature(1)) is None  # rows without weight there count elsewhere


def test_a_fit_is_the_same_with_and_without(rng, monkeypatch):
    X = indicators(rng, N, P)
    l1 = np.full(P, 1.0)
    found = []
    for many in (0, np.inf):
        tune_solver(monkeypatch, "data", min_cached_entries=many)
        it = term(np.random.default_rng(3), "logistic", X)
        batch = Batch(it)
        for factor in (8.0, 4.0, 2.0, 1.0):
            fits = batch.solve(factor * l1, 0 * l1, tol=1e-10)
        found.append(np.column_stack([fit.beta for fit in fits]))
        assert all(fit.converged for fit in fits)
    np.testing.assert_allclose(*found, atol=1e-9)


@pytest.mark.parametrize("family", ["logistic", "cox"])
def test_gradients_of_all_columns_fill_the_cache(rng, of_what, monkeypatch, family):
    it = term(rng, family, indicators(rng, N, P))
    it.join(np.arange(10))
    beta = np.zeros((P, it.lanes))
    beta[:10, :B] = rng.normal(size=(10, B)) * 0.3
    it.place(beta)
    g = it.gradients(1e-8)
    it.join(np.array([20, 25]))
    it.active.set_columns(it.W[[0, 3, 10, 11]])
    np.testing.assert_array_equal(it.gradient(), g[[0, 3, 20, 25]])
    it.join(np.arange(P))
    np.testing.assert_array_equal(it.gradient(), g[it.W])
    assert not of_what
    beta[20, :B] = 0.5
    it.place(beta)  # elsewhere it is another
    now = it.gradient()
    it._gradient.clear()
    np.testing.assert_array_equal(now, it.gradient())
    assert np.abs(now - g[it.W])[:, :B].max() > 0.1


def test_single_precision_gradients_are_not_cached(rng, monkeypatch):
    tune_solver(monkeypatch, "data", single_precision_lanes=1)
    it = term(rng, "logistic", indicators(rng, N, P))
    it.join(np.arange(10))
    g = it.gradients(1e-2)
    it.join(np.array([20]))
    now = it.gradient()
    it._gradient.clear()
    np.testing.assert_allclose(now, it.gradient(), rtol=1e-12, atol=1e-12)
    assert np.abs(now[10] - g[20]).max() > 0
