"""A batch equals its fits one by one, every step descends, and the certificate is correct."""

import numpy as np
import pytest
from scipy import sparse

import reference
from simulators import FAMILIES, indicators, mixed_matrix, outcome
from steropes.backends import get_backend
from steropes.design_matrix import as_design
from steropes.likelihoods import (
    CoxLikelihood,
    LinearLikelihood,
    LogisticLikelihood,
    PoissonLikelihood,
)
from steropes.solve import Batch, Common
from steropes.solve.data_term import LocalTerm, WorkingColumns
from steropes.solve.optimality.optimality_certificate import violations
from steropes.solve.quasi_newton.shared_hessian import SharedHessian

KINDS = {"linear": LinearLikelihood, "logistic": LogisticLikelihood, "poisson": PoissonLikelihood}


def setting(family, rng, n=150, p=10, n_jobs=1, kind="mixed"):
    X = mixed_matrix(rng, n, p) if kind == "mixed" else indicators(rng, n, p).toarray()
    y = outcome(family, X[:, :3] @ [0.5, -0.4, 0.3], rng)
    backend = get_backend("cpu", n_jobs)
    likelihood = CoxLikelihood(*y, backend) if family == "cox" else KINDS[family](y, backend)
    design = as_design(sparse.csc_array(X))
    if family != "cox":
        design = design.with_intercept()
    free = int(family != "cox")
    return X, y, likelihood, design, free


def batch_of(design, likelihood, weights, offset=None, B=1, common=None):
    if common is None:
        return Batch(LocalTerm(design, likelihood, weights, offset, B))
    term = LocalTerm(design, likelihood, weights, offset, B, common.active)
    return Batch(term, common.hessian)


def weights_of(rng, n, B):
    """The folds of a cross-validation, bootstrap draws, and arbitrary weights."""
    W = np.ones((n, B))
    for b in range(B):
        if b % 3 == 0:
            W[rng.permutation(n)[: n // 5], b] = 0
        elif b % 3 == 1:
            W[:, b] = np.bincount(rng.integers(0, n, n), minlength=n)
        else:
            W[:, b] = rng.uniform(0.1, 3.0, n)
    return W


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("B", [2, 5, 11])
def test_batched_fits_equal_fits_one_by_one(family, B, rng):
    X, _, likelihood, design, free = setting(family, rng)
    W = weights_of(rng, len(X), B)
    offset = 0.3 * rng.normal(size=(len(X), B))
    l1 = np.full(design.p, 2.0)
    l1[:free] = 0
    l2 = np.full(design.p, 0.1)
    l2[:free] = 0
    together = batch_of(design, likelihood, W, offset, B).solve(l1, l2, tol=1e-10)
    for b in {0, B // 2, B - 1}:
        alone = batch_of(design, likelihood, W[:, [b]], offset[:, [b]]).solve(l1, l2, tol=1e-10)[0]
        assert together[b].converged
        np.testing.assert_allclose(together[b].beta, alone.beta, atol=1e-8)
        assert together[b].objective == pytest.approx(alone.objective, rel=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
def test_replicates_may_have_penalties_of_their_own(family, rng):
    _, _, likelihood, design, free = setting(family, rng)
    l1 = np.linspace(0.5, 20, 6)[None, :] * np.ones((design.p, 1))
    l1[:free] = 0
    zero = np.zeros_like(l1)
    w = np.ones((likelihood.n, 1))
    together = batch_of(design, likelihood, w, None, 6).solve(l1, zero, tol=1e-10)
    for b in range(6):
        alone = batch_of(design, likelihood, w).solve(l1[:, b], zero[:, b], tol=1e-10)[0]
        np.testing.assert_allclose(together[b].beta, alone.beta, atol=1e-8)


@pytest.mark.parametrize("family", FAMILIES)
def test_replicates_of_a_batch_do_not_touch_each_other(family, rng):
    """The first replicate is the same whatever other replicates follow."""
    X, _, likelihood, design, free = setting(family, rng)
    l1 = np.full(design.p, 1.0)
    l1[:free] = 0
    betas = []
    for seed in (1, 2):
        W = weights_of(np.random.default_rng(seed), len(X), 8)
        W[:, 0] = 1.0
        betas.append(batch_of(design, likelihood, W, None, 8).solve(l1, 0 * l1, tol=1e-11)[0].beta)
    np.testing.assert_allclose(betas[0], betas[1], atol=1e-9)


@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("lasso", [True, False])
def test_every_newton_step_descends(family, lasso, rng):
    _, _, likelihood, design, free = setting(family, rng, 300, 20)
    batch = batch_of(design, likelihood, np.ones((likelihood.n, 1)))
    l1 = np.full(design.p, 1.5 * lasso)
    l2 = np.full(design.p, 0.01)
    l1[:free] = l2[:free] = 0
    seen = []
    for steps in range(1, 12):  # the objective after each number of steps from the same start
        batch = batch_of(design, likelihood, np.ones((likelihood.n, 1)))
        seen.append(batch.solve(l1, l2, tol=1e-12, max_iter=steps)[0].objective)
    seen = np.array(seen)
    assert (np.diff(seen) <= 1e-11 * np.abs(seen[0])).all()
    start = batch_of(design, likelihood, np.ones((likelihood.n, 1))).term.loss[0]
    assert seen[-1] < start


@pytest.mark.parametrize("family", FAMILIES)
def test_the_certificate_is_the_violation_over_all_columns(family, rng):
    X, y, likelihood, design, free = setting(family, rng)
    l1 = np.full(design.p, 3.0)
    l1[:free] = 0
    fit = batch_of(design, likelihood, np.ones((likelihood.n, 1))).solve(l1, 0 * l1, max_iter=2)[0]
    eta = X @ fit.beta[free:] + (fit.beta[0] if free else 0.0)
    _, r = reference.loss(family, eta, y, np.ones(len(X)))
    worst = reference.kkt(X.T @ r, fit.beta[free:], 3.0, 0.0).max() / 3.0
    if free:  # in units of the score's standard error, whose curvature is taken a step before
        v = reference.curvature_bound(family, eta, np.ones(len(X)), r)
        intercept = abs(r.sum()) / np.sqrt(v.sum())
        assert fit.optimality >= max(worst, 0.5 * intercept) - 1e-12
        assert fit.optimality <= max(worst, 2 * intercept) + 1e-12
    else:
        assert fit.optimality == pytest.approx(worst, rel=1e-8)


@pytest.mark.parametrize("family", FAMILIES)
def test_screening_leaves_no_violator_out(family, rng):
    """Far fewer columns are worked on than there are, and yet all meet their conditions."""
    X, y, likelihood, design, free = setting(family, rng, 200, 400, kind="indicators")
    l1 = np.full(design.p, 6.0)
    l1[:free] = 0
    batch = batch_of(design, likelihood, np.ones((likelihood.n, 1)))
    fit = batch.solve(l1, 0 * l1, tol=1e-9)[0]
    assert len(batch.term.W) < design.p / 2
    eta = X @ fit.beta[free:] + (fit.beta[0] if free else 0.0)
    _, r = reference.loss(family, eta, y, np.ones(len(X)))
    assert reference.kkt(X.T @ r, fit.beta[free:], 6.0, 0.0).max() <= 6e-8


def test_a_path_of_warm_starts_ends_where_a_cold_start_does(rng):
    for family in FAMILIES:
        _, _, likelihood, design, free = setting(family, rng)
        batch = batch_of(design, likelihood, np.ones((likelihood.n, 1)))
        for lam in (20.0, 8.0, 3.0, 1.0, 4.0):  # and back
            l1 = np.full(design.p, lam)
            l1[:free] = 0
            warm = batch.solve(l1, 0 * l1, tol=1e-10)[0]
            cold = batch_of(design, likelihood, np.ones((likelihood.n, 1))).solve(
                l1, 0 * l1, tol=1e-10
            )[0]
            np.testing.assert_allclose(warm.beta, cold.beta, atol=1e-8)


def test_batches_may_share_a_working_set(rng):
    X, _, likelihood, design, _ = setting("cox", rng)
    W = weights_of(rng, len(X), 10)
    l1, zero = np.full(design.p, 2.0), np.zeros(design.p)
    active = WorkingColumns(design, likelihood.order, likelihood.backend)
    shared = Common(active, SharedHessian(likelihood.backend.pool))
    first = batch_of(design, likelihood, W[:, :5], None, 5, shared).solve(l1, zero, tol=1e-10)
    second = batch_of(design, likelihood, W[:, 5:], None, 5, shared).solve(l1, zero, tol=1e-10)
    whole = batch_of(design, likelihood, W, None, 10).solve(l1, zero, tol=1e-10)
    for a, b in zip(first + second, whole, strict=True):
        np.testing.assert_allclose(a.beta, b.beta, atol=1e-8)


@pytest.mark.usefixtures("eager_threads")
@pytest.mark.sampled
@pytest.mark.parametrize("family", FAMILIES)
def test_thread_counts_change_no_bit_of_a_large_batch(family):
    """Large enough that every kernel is cut into chunks."""
    betas = []
    for n_jobs in (1, 2, 3):
        rng = np.random.default_rng(3)
        X, _, likelihood, design, free = setting(
            family, rng, 20_000, 40, n_jobs=n_jobs, kind="indicators"
        )
        W = weights_of(rng, len(X), 4)
        l1 = np.full(design.p, 5.0)
        l1[:free] = 0
        fits = batch_of(design, likelihood, W, None, 4).solve(l1, 0 * l1, tol=1e-7)
        betas.append(np.stack([f.beta for f in fits]))
    assert betas[0].tobytes() == betas[1].tobytes() == betas[2].tobytes()


def test_violations_are_distances_from_the_subdifferential():
    g = np.array([0.5, 2.0, -1.0, -1.0, 0.3])
    beta = np.array([0.0, 0.0, 1.0, -1.0, 2.0])
    l1, l2 = np.ones(5), np.array([0, 0, 0, 0, 0.1])
    np.testing.assert_allclose(violations(g, beta, l1, l2), [0.0, 1.0, 0.0, 2.0, 1.5])


def test_a_replicates_own_hessian_is_dropped_when_columns_change(rng):
    """Batches share the working set, and another one may have added columns."""
    _, _, likelihood, design, _ = setting("logistic", rng)
    active = WorkingColumns(design, likelihood.order, likelihood.backend)
    common = Common(active, SharedHessian(likelihood.backend.pool))
    folds = batch_of(design, likelihood, weights_of(rng, 150, 3), B=3, common=common)
    full = batch_of(design, likelihood, np.ones((150, 1)), common=common)
    l1 = np.full(design.p, 15.0)
    folds.solve(l1, np.zeros(design.p), tol=1e-3)
    folds.term.join(np.arange(3))
    assert not folds.term.inside.all()
    folds.hessians.own[1] = folds.term.W.copy(), folds.hessians._own_model(1)
    full.prepare(np.empty(0, np.int64))
    assert 1 in folds.hessians.curvatures().own
    full.prepare(np.flatnonzero(~folds.term.inside)[-1:])
    assert not folds.hessians.curvatures().own
