"""A factor for several supports is exact for the columns that they have in common."""

from __future__ import annotations

import numpy as np
import pytest

from steropes.backends.thread_pool import ThreadPool
from steropes.solve.subproblem.dense_reduced_hessian import DenseReducedHessian
from steropes.solve.subproblem.preconditioners.factor_preconditioner import FactorPreconditioner
from steropes.solve.subproblem.preconditioners.preconditioner_choice import PreconditionerCache
from steropes.solve.subproblem.preconditioners.tiled_cholesky import Cholesky


def positive(rng, k):
    Z = rng.normal(size=(2 * k, k)) + rng.normal(size=(2 * k, 1))
    return Z.T @ Z


def inverses(G, R, support):
    """Of each replicate's own part of G."""
    out = np.zeros(R.shape)
    for b in range(R.shape[1]):
        at = np.flatnonzero(support[:, b])
        out[at, b] = np.linalg.solve(G[np.ix_(at, at)], R[at, b])
    return out


def supports(rng, k, B):
    """Half of the columns that all have, and others."""
    support = rng.uniform(size=(k, B)) < 0.4
    support[: k // 2] = True
    return support


@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize("m", [0, 1, 255, 300, 600, 601])
def test_a_part_of_the_columns_is_eliminated(m, B, rng):
    n = 601
    A = positive(rng, n)
    factors = [Cholesky(A[:, :m].copy(), ThreadPool(jobs)) for jobs in (1, 3)]
    assert factors[0].L.tobytes() == factors[1].L.tobytes()
    # Forward, S⁻¹ of what is left, and backward: the inverse of the whole.
    S = A[m:, m:] - A[m:, :m] @ np.linalg.solve(A[:m, :m], A[:m, m:]) if m else A
    R = rng.normal(size=(n, B))
    Z = R.copy()
    factors[0].forward(Z)
    factors[0].down(Z)
    Z[m:] = np.linalg.solve(S, Z[m:])
    factors[0].up(Z)
    factors[0].backward(Z)
    np.testing.assert_allclose(A @ Z, R, atol=1e-7)


def test_rows_are_appended_to_a_factor(rng):
    n, m, more = 700, 300, 90
    A = positive(rng, n + more)
    room = A.copy()
    factor = Cholesky(room[:n, :m], ThreadPool(2))
    factor.append(room[:, :m], n)
    once = Cholesky(A[:, :m].copy(), ThreadPool(2))
    np.testing.assert_allclose(np.tril(factor.L), np.tril(once.L), rtol=1e-7, atol=1e-7)


def as_factored(whole, factor):
    """The matrix that a factor is of: of what is not eliminated the complement's diagonal."""
    c, r = factor.at[: factor.m], factor.at[factor.m :]
    out = np.zeros(whole.shape)
    out[np.ix_(factor.at, factor.at)] = whole[np.ix_(factor.at, factor.at)]
    explained = whole[np.ix_(r, c)] @ np.linalg.solve(whole[np.ix_(c, c)], whole[np.ix_(c, r)])
    rest = np.diagonal(whole)[r] - np.diagonal(explained)
    out[np.ix_(r, r)] = explained + np.diag(rest)
    return out


def solved(factor, R, support):
    """What the factor makes of R (k, B), in the order of the matrix."""
    out = np.zeros(R.shape)
    out[factor.at] = factor.solve(R[factor.at], factor.system(support[factor.at]))
    return out


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("B", [1, 4])
def test_a_factor_of_several_supports(free, B, rng):
    k = 120
    G = positive(rng, k).astype(np.float32)
    mask = np.zeros(k, bool)
    mask[3] = free
    shared = DenseReducedHessian(G, mask, ThreadPool(2))
    whole = shared.times(np.eye(k))
    support, ridge = supports(rng, k, B), np.zeros(k)
    support[3] = True
    factor = FactorPreconditioner(shared, support, rng.uniform(size=k), ridge)
    R = rng.normal(size=(k, B)) * support
    found = solved(factor, R, support)
    expected = inverses(as_factored(whole, factor) if B > 1 else whole, R, support)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    # Others come and go: those that not all had, and without a new factor.
    n = len(factor.at)
    missing = np.flatnonzero(~support.any(axis=1))[:5]
    support[missing, 0] = True
    support[factor.at[factor.m : factor.m + 3], B - 1] = False
    support[factor.at[0], 0] = False  # and one that all had
    assert factor.serves(shared, support, ridge)
    assert len(factor.at) == n + len(missing)
    R = rng.normal(size=(k, B)) * support
    found = solved(factor, R, support)
    expected = inverses(as_factored(whole, factor), R, support)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    assert not found[~support].any()


def test_columns_that_are_the_same_leave_an_inverse_finite(rng):
    k = 40
    Z = rng.normal(size=(2 * k, k))
    Z[:, 1] = Z[:, 0]
    Z[:, -1] = Z[:, 2]
    shared = DenseReducedHessian((Z.T @ Z).astype(np.float32), np.zeros(k, bool), ThreadPool(1))
    support = np.ones((k, 2), bool)
    support[-1, 1] = False
    factor = FactorPreconditioner(shared, support, np.ones(k), np.zeros(k))
    assert factor.m < k
    assert np.isfinite(solved(factor, rng.normal(size=(k, 2)), support)).all()


def test_a_single_replicate_needs_a_factor_of_its_own_support(rng):
    k = 80
    shared = DenseReducedHessian(
        positive(rng, k).astype(np.float32), np.zeros(k, bool), ThreadPool(1)
    )
    support = supports(rng, k, 4)
    factor = FactorPreconditioner(shared, support, np.ones(k), np.zeros(k))
    assert factor.serves(shared, support[:, :1], np.zeros(k))
    assert not factor.serves(shared, support[:, :1], np.zeros(k), alone=True)
    own = FactorPreconditioner(shared, support[:, :1], np.ones(k), np.zeros(k))
    assert own.serves(shared, support[:, :1], np.zeros(k), alone=True)


def test_a_fork_can_be_extended_independently(rng):
    k = 60
    shared = DenseReducedHessian(
        positive(rng, k).astype(np.float32), np.zeros(k, bool), ThreadPool(1)
    )
    support = supports(rng, k, 2)
    support[-2:] = False
    factor = FactorPreconditioner(shared, support, np.ones(k), np.zeros(k))
    before, n = factor.factor.L.copy(), len(factor.at)
    fork, more = factor.fork(), support.copy()
    more[-2:] = True
    assert fork.serves(shared, more, np.zeros(k))
    assert len(fork.at) > n == len(factor.at)
    np.testing.assert_array_equal(factor.factor.L, before)


def test_a_factor_without_its_common_columns_is_not_reused(rng):
    k = 100
    shared = DenseReducedHessian(
        positive(rng, k).astype(np.float32), np.zeros(k, bool), ThreadPool(1)
    )
    support = supports(rng, k, 3)
    factor = FactorPreconditioner(shared, support, np.ones(k), np.zeros(k))
    support[factor.at[: factor.m // 2], 1] = False
    assert not factor.serves(shared, support, np.zeros(k))


def test_factors_are_reused_and_remade_for_another_matrix(rng):
    k = 50
    shared = DenseReducedHessian(positive(rng, k), np.zeros(k, bool), ThreadPool(1))
    at, support, size = np.arange(k), np.ones((k, 1), bool), np.ones(k)
    factors = PreconditionerCache(shared)
    factors.prepare(at, support, size, np.zeros((k, 1)))
    other = PreconditionerCache(
        DenseReducedHessian(2.0 * shared.G, np.zeros(k, bool), ThreadPool(1)), factors
    )
    assert other.inherited
    R = rng.normal(size=(k, 1))
    nothing, h, one = np.zeros((k, 1)), np.diag(shared.G)[:, None], np.arange(1)
    found, expected = (x.inverse(at, support, nothing, h)(R, one) for x in (other, factors))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    most = shared.policy.max_iterations
    other.record_iterations(most - 1, at, support, size, nothing)
    assert other.inherited
    other.record_iterations(most, at, support, size, nothing)
    assert not other.inherited
    found = other.inverse(at, support, nothing, h)(R, one)
    np.testing.assert_allclose(found, np.linalg.solve(2.0 * shared.G, R), rtol=0.05, atol=1e-4)
    made = factors.factor
    heir = PreconditionerCache(shared, factors, takes=True)
    assert heir.factor is made  # and not a copy of it
    assert factors.factor is None


def test_factor_leaves_out_what_elimination_left_as_rounding():
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(40, 6)) * np.array([1e30, 1e30, 1.0, 1.0, 1.0, 1.0])
    Z[:, 1] = Z[:, 0] * (1 + 1e-9)  # without a penalty and its copy
    free = np.array([True, False, False, False, False, False])
    shared = DenseReducedHessian(Z.T @ Z, free, ThreadPool(1))
    shared.diagonal[1] = 1e-300
    support = np.ones((6, 2), bool)
    factor = FactorPreconditioner(shared, support, np.ones(6), np.zeros(6))  # warnings are errors
    assert 1 not in factor.at
    assert np.isfinite(solved(factor, np.ones((6, 2)), support)).all()


@pytest.mark.parametrize("with_factor", [False, True])
def test_a_subset_of_replicates_gets_its_own_systems(with_factor, rng):
    k, B = 40, 3
    shared = DenseReducedHessian(positive(rng, k), np.zeros(k, bool), ThreadPool(1))
    support, l2, at = supports(rng, k, B), np.zeros((k, B)), np.arange(k)
    factors = PreconditionerCache(shared)
    if with_factor:
        factors.prepare(at, support, np.ones(k), l2)
    h = np.diagonal(shared.G)[:, None] * rng.uniform(1.0, 2.0, B)
    R = rng.normal(size=(k, B)) * support
    inverse = factors.inverse(at, support, l2, h)
    whole = inverse(R, np.arange(B))
    for some in ([0], [2], [0, 2], [1, 2]):
        np.testing.assert_allclose(inverse(R[:, some], np.array(some)), whole[:, some], rtol=1e-5)
