"""Cumulative models on the common batch: lanes, zero weights, threads, levels without mass."""

from dataclasses import replace

import numpy as np
import pytest
from dense_hessian import dense_negative_hessian
from scipy import sparse

from steropes import Laplace, Normal
from steropes.backends import get_backend
from steropes.design_matrix import as_design
from steropes.fit import Problem
from steropes.likelihoods.cumulative import CODES, CumulativeLikelihood, Interval, Thresholds
from steropes.likelihoods.hessian_structures import ProfiledCurvature
from steropes.solve.certified_fit import certified_fit
from steropes.solve.hessian import diagonal, hessian, profiled_hessian
from tuning import tune


def made(X, y, link="logit", prior=None, offset=None, weights=None, jobs=2, upper=None):
    design, w = as_design(X).centered(), np.ones(len(y)) if weights is None else weights
    likelihood = CumulativeLikelihood(Interval(y, upper), link, w > 0, get_backend("cpu", jobs))
    return Problem(design, likelihood, w, offset, prior, design.names)


def fitted(problem, tol=1e-9):
    return certified_fit(problem, problem.batch(), *problem.penalties(problem.prior), tol, 100)


def intervals(rng, n):
    X = rng.normal(size=(n, 2))
    z = X @ [1.0, -0.5] + rng.logistic(size=n)
    low = np.floor(z - rng.uniform(0, 4, n))
    return X, low, low + rng.integers(1, 5, n) + rng.integers(0, 2, n) * 0.25


@pytest.mark.parametrize("link", CODES)
def test_a_newton_step_in_all_parameters_at_the_end_is_nothing(link, data):
    """Dense gradient and Hessian over α and β, by differences, for rows with and without weight."""
    X, y = data
    w = np.arange(len(y)) % 4 / 2.0
    fit = fitted(made(X, y, link, weights=w))
    end = fit.nuisance
    Z = (X - X.mean(axis=0))[end.rows.levels.order]
    H = dense_negative_hessian(end.rows, end.thresholds.alpha, fit.beta, Z)
    ev = end.rows.evaluate(end.thresholds, Z @ fit.beta)
    g = np.concatenate([-end.rows.to_thresholds(ev.la, ev.lb), Z.T @ ev.s])
    step = np.linalg.solve(H, g)
    assert np.sqrt(g @ step) < 1e-7
    assert np.linalg.eigvalsh(H)[0] > 0


@pytest.mark.parametrize("storage", [np.asarray, sparse.csc_array])
@pytest.mark.parametrize("prior", [None, Normal(0.3), Laplace(0.05)])
def test_lanes_are_the_fits_of_the_rows_that_they_weigh(prior, storage, data, rng):
    """Weights of zero are rows that are not there, and their outcomes no levels."""
    X, y = data
    offset = 0.3 * rng.normal(size=len(y))
    weights = rng.choice([0.0, 1.0, 2.0], (len(y), 5))
    problem = made(storage(X), y, prior=prior, offset=offset)
    fits = problem.batch(weights, 5).solve(*problem.penalties(prior), tol=1e-9)
    for b, fit in enumerate(fits):
        rows = np.repeat(np.arange(len(y)), weights[:, b].astype(int))
        alone = fitted(made(storage(X[rows]), y[rows], prior=prior, offset=offset[rows]))
        np.testing.assert_allclose(fit.beta, alone.beta, atol=2e-7)
        assert fit.loss == pytest.approx(alone.loss, rel=1e-9)
        np.testing.assert_array_equal(fit.nuisance.values, np.unique(y[rows]))


def test_lanes_lose_different_levels_to_interval_censoring(rng):
    X, low, high = intervals(rng, 60)
    weights = rng.choice([0.0, 1.0], (60, 4), p=[0.3, 0.7])
    problem = made(X, low, upper=high)
    zero = np.zeros(2)
    fits = problem.batch(weights, 4).solve(zero, zero, tol=1e-8)
    lost = []
    for b, fit in enumerate(fits):
        on = weights[:, b] > 0
        alone = fitted(made(X[on], low[on], upper=high[on]), 1e-8)
        assert fit.converged
        assert fit.loss == pytest.approx(alone.loss, abs=1e-7)
        np.testing.assert_allclose(fit.beta, alone.beta, atol=1e-5)
        lost.append(int((~fit.nuisance.keep).sum()))
    assert max(lost) > 0
    assert len(set(lost)) > 1


def test_a_level_that_was_dropped_too_early_comes_back(rng):
    X, low, high = intervals(rng, 60)
    problem = made(X, low, upper=high)
    batch = problem.batch()
    whole = fitted(problem, 1e-8)
    end = batch.term.points[0].nuisance
    change = end.keep.copy()
    change[np.flatnonzero(whole.nuisance.keep & end.loose)[:3]] = False
    batch.term.points[0] = end._over(change).at(batch.term.eta[:, 0].copy())
    fit = batch.solve(np.zeros(2), np.zeros(2), tol=1e-8)[0]
    assert fit.loss == pytest.approx(whole.loss, abs=1e-7)
    np.testing.assert_array_equal(fit.nuisance.keep, whole.nuisance.keep)


@pytest.mark.usefixtures("eager_threads")
def test_no_number_depends_on_the_threads_or_the_order_of_rows(data, rng):
    X, y = data
    weights = rng.choice([0.0, 1.0], (len(y), 3))
    ends = []
    for jobs in (1, 2):
        problem = made(X, y, prior=Laplace(0.05), jobs=jobs)
        fits = problem.batch(weights, 3).solve(*problem.penalties(problem.prior), tol=1e-8)
        ends.append(np.stack([fit.beta for fit in fits]))
    np.testing.assert_array_equal(*ends)
    by = rng.permutation(len(y))
    problem = made(X[by], y[by], prior=Laplace(0.05))
    fits = problem.batch(weights[by], 3).solve(*problem.penalties(problem.prior), tol=1e-8)
    np.testing.assert_allclose(np.stack([fit.beta for fit in fits]), ends[0], atol=1e-7)


def test_what_rows_add_to_the_profiled_score_sums_to_its_derivative(data, rng):
    X, y = data
    problem = made(X, y, weights=np.arange(len(y)) % 3 * 1.0)
    likelihood = problem.likelihood
    eta = 0.5 * rng.normal(size=(likelihood.n, 1))
    d, w, h = rng.normal(size=(likelihood.n, 1)), problem.weights[likelihood.order][:, None], 1e-4
    slope = (likelihood.loss(eta + h * d, w) - likelihood.loss(eta - h * d, w))[0] / (2 * h)
    assert float(likelihood.evaluate(eta, w)[1][:, 0] @ d[:, 0]) == pytest.approx(slope, rel=1e-6)
    assert -likelihood.score_residuals(eta, w, d).sum() == pytest.approx(slope, rel=1e-6)


def test_profiled_scores_of_rows_are_those_of_the_robust_errors(data):
    """The sandwich made of what any family's bootstrap uses equals the family's own."""
    from steropes.infer.information_matrix import Information
    from steropes.infer.score_contributions import UnitScores
    from steropes.models.cumulative import CumulativeProbabilityModel

    X, y = data
    m = CumulativeProbabilityModel(link="probit").fit(X, y)
    problem, zero = m._problem, np.zeros(3)
    D = Information(problem, m._beta, zero, zero).influence()
    U = UnitScores(problem, m._beta).along(D)
    np.testing.assert_allclose(U.T @ U, m.vcov("robust"), rtol=1e-6)


def draws_of_curvature(rng, n, K, chain):
    """A curvature with random numbers, and what it is written out."""
    if chain:
        level = np.sort(rng.integers(0, K + 1, n))
        low, up = (level - 1).astype(np.int32), level.astype(np.int32)
        pointers = np.searchsorted(level, np.arange(K + 2))
    else:
        ends = np.sort(rng.integers(-1, K + 1, (n, 2)), axis=1)
        low, up = ends.astype(np.int32).T.copy()
        pointers = None
    a, b, w = rng.random((3, n)) + 0.1
    a[up >= K], b[low < 0] = 0.0, 0.0
    C, T = np.zeros((K, n)), np.zeros((K, K))
    for i in range(n):
        ends = [(k, x) for k, x in ((up[i], a[i]), (low[i], b[i])) if 0 <= k < K]
        for k, x in ends:
            C[k, i] -= x
            T[k, k] += x
        if len(ends) == 2 and up[i] != low[i]:
            j, k = up[i], low[i]
            T[[j, k], [j, k]] += w[i]
            T[[j, k], [k, j]] -= w[i]
    T += np.diag(np.full(K, 0.3))
    return low, up, pointers, a, b, w, C, T


@pytest.mark.parametrize("storage", ["dense", "sparse", "both"])
@pytest.mark.parametrize("chain", [True, False])
def test_eliminated_hessians_are_those_of_dense_blocks(chain, storage, rng):
    from steropes.design_matrix import Design
    from steropes.likelihoods.nuisance_hessian import Chain, SparseBlock

    n, K, k = 80, 12, 6
    low, up, pointers, a, b, w, C, T = draws_of_curvature(rng, n, K, chain)
    u = np.zeros(K)
    for i in range(n):
        for j, x in ((up[i], a[i]), (low[i], b[i])):
            if 0 <= j < K:
                u[j] += x
    u += 0.3
    if chain:
        W = np.zeros(K)
        inner = (low >= 0) & (up < K)
        np.add.at(W, up[inner], w[inner])
        block = Chain(u, W)
    else:
        inner = (low >= 0) & (up < K) & (up != low)
        block = SparseBlock(u, low[inner], up[inner], w[inner])
    X = rng.normal(size=(n + 5, k)) * (rng.random((n + 5, k)) < 0.4)
    parts = {"dense": [(X, 0)], "sparse": [(sparse.csc_array(X), 1)]}
    parts["both"] = [(X[:, :3], 0), (sparse.csc_array(X[:, 3:]), 1)]
    design = Design([as_design(x).blocks[0] for x, _ in parts[storage]])
    at = rng.permutation(n + 5)[:n]  # rows of the model that the curvature's are
    v = np.zeros(n + 5)
    v[at] = a + b
    rows = design.by_rows(np.arange(k), None, get_backend("cpu", 2))
    curvature = ProfiledCurvature(v, at, low, up, a, b, pointers, block)
    Z = X / design.scale
    CX = C @ Z[at]
    expected = Z.T @ (v[:, None] * Z) - CX.T @ np.linalg.solve(T, CX)
    np.testing.assert_allclose(profiled_hessian.cross(rows, curvature), CX, atol=1e-12)
    np.testing.assert_allclose(hessian(rows, curvature), expected, atol=1e-10)
    np.testing.assert_allclose(diagonal(rows, curvature), np.diag(expected), atol=1e-10)
    part = hessian(rows, curvature, 4)
    np.testing.assert_allclose(part[4:], expected[4:], atol=1e-10)
    np.testing.assert_allclose(part[:, 4:], expected[:, 4:], atol=1e-10)


def test_a_coarse_hessian_is_near_the_exact_one_and_no_answer_depends_on_it(rng, monkeypatch):
    n, p = 3000, 40
    X = sparse.random(n, p, density=0.1, random_state=1, format="csc")
    y = X[:, :3] @ [1.0, -1.0, 0.5] + rng.logistic(size=n)
    tune(monkeypatch, profiled_hessian, "SIZES", min_pooled_parameters=1000)
    problem = made(X, y, prior=Normal(1.0))
    pooled = fitted(problem)
    point = pooled.nuisance.at(problem.design.matmul(
        (pooled.beta * problem.design.scale)[:, None], problem.likelihood.backend
    )[problem.likelihood.order, 0])  # fmt: skip
    rows = problem.design.by_rows(
        np.arange(p), problem.likelihood.order, problem.likelihood.backend
    )
    exact, coarse = (hessian(rows, point.curvature(coarse=c)) for c in (False, True))
    assert 0 < np.abs(coarse - exact).max() < 1e-3 * np.abs(exact).max()
    tune(monkeypatch, profiled_hessian, "SIZES", min_pooled_parameters=10**9)
    np.testing.assert_allclose(pooled.beta, fitted(problem).beta, atol=1e-8)


def test_a_coarse_hessian_knows_stiff_links_behind_a_weak_one(rng, monkeypatch):
    """Links of which the first is next to none, as beside outcomes far from all others."""
    from steropes.likelihoods.nuisance_hessian import Chain

    n, K, k = 80, 12, 6
    low, up, pointers, a, b, _, _, _ = draws_of_curvature(rng, n, K, True)
    rows = as_design(rng.normal(size=(n, k))).by_rows(np.arange(k), None, get_backend("cpu", 1))
    tune(monkeypatch, profiled_hessian, "SIZES", parameter_groups=7)
    tune(monkeypatch, profiled_hessian, "SIZES", min_pooled_parameters=10)
    tune(monkeypatch, profiled_hessian, "SIZES", min_pooled_columns=2)

    def coarse(weak):
        block = Chain(np.full(K, 200.0), np.r_[0.0, weak, np.full(K - 2, 50.0)])
        at = np.arange(n)
        return hessian(rows, ProfiledCurvature(a + b, at, low, up, a, b, pointers, block, True))

    np.testing.assert_allclose(coarse(1e-18), coarse(1e-9), rtol=1e-9)
    assert np.abs(coarse(1e-18) / coarse(50.0) - 1).max() > 1e-3


def test_draws_start_near_the_fit_that_they_are_of(data, rng):
    """Thresholds read off a fit are its own where the weights are, and near it elsewhere."""
    X, y = data
    problem = made(X, y)
    fit = fitted(problem)
    likelihood = problem.likelihood
    eta = (as_design(X).centered().matmul(
        (fit.beta * problem.design.scale)[:, None], likelihood.backend
    ))[likelihood.order, 0]  # fmt: skip
    same = likelihood.begin(eta, np.ones(likelihood.n), fit.nuisance)
    np.testing.assert_allclose(
        same.thresholds.alpha, fit.nuisance.thresholds.alpha, rtol=1e-9, atol=1e-9
    )
    w = rng.choice([0.0, 1.0, 2.0], likelihood.n)
    near = likelihood.begin(eta, w, fit.nuisance).at(eta)
    far = likelihood.begin(eta, w).at(eta)
    assert near.unsettled < far.unsettled


def test_a_batch_goes_on_after_an_interrupt(data):
    X, y = data
    problem = made(X, y, prior=Laplace(0.05))
    batch, penalties = problem.batch(), problem.penalties(problem.prior)

    def stop(step, violation):
        if step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        batch.solve(*penalties, tol=1e-9, callback=stop)
    fit = batch.solve(*penalties, tol=1e-9)[0]
    np.testing.assert_allclose(fit.beta, fitted(problem).beta, atol=1e-8)


def test_thresholds_stay_increasing_on_the_way(data):
    X, y = data
    problem = made(X, y)
    batch = problem.batch()

    def look(step, violation):
        thresholds = batch.term.points[0].nuisance.thresholds
        assert (thresholds.delta > 0).all()
        assert isinstance(thresholds, Thresholds)

    batch.start_at(np.full((3, 1), 5.0))
    fit = batch.solve(np.zeros(3), np.zeros(3), callback=look)[0]
    np.testing.assert_allclose(fit.beta, fitted(problem).beta, atol=1e-7)


def test_a_problem_with_other_weights_leaves_the_first_as_it_was(data):
    X, y = data
    problem = made(X, y)
    before = fitted(problem)
    fitted(replace(problem, weights=np.arange(len(y)) % 2 * 1.0))
    after = fitted(problem)
    np.testing.assert_array_equal(before.beta, after.beta)
    np.testing.assert_array_equal(before.nuisance.thresholds.alpha, after.nuisance.thresholds.alpha)


@pytest.mark.parametrize("link", ["logit", "cauchit"])
def test_reading_a_point_changes_nothing_of_it(link, data):
    X, y = data
    likelihood = made(X, y, link).likelihood
    n = likelihood.n
    point = likelihood.begin(np.zeros(n), np.ones(n)).at(np.zeros(n))
    held = dict(point.__dict__)
    point.gradient(), point.fall, point.usable, point.direction(np.ones(n)), point.curvature()
    assert all(point.__dict__[name] is x for name, x in held.items())
    assert (point._ev is None) == likelihood.convex  # what is left of it is small


def test_so_far_out_that_no_thresholds_are_left_a_point_is_made_and_not_usable(data, monkeypatch):
    def none(rows, ev):
        raise FloatingPointError("the curvature of the thresholds is not finite")

    X, y = data
    likelihood = made(X, y).likelihood
    n = likelihood.n
    start = likelihood.begin(np.zeros(n), np.ones(n))
    monkeypatch.setattr("steropes.likelihoods.cumulative.cumulative_likelihood._eliminate", none)
    point = start.at(np.zeros(n))
    assert not point.usable
    with pytest.raises(FloatingPointError, match="not finite"):
        point.gradient()
