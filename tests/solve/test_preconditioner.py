"""A factor that is exact for each of several supports."""

from __future__ import annotations

import numpy as np
import pytest

from steropes.backends.threads import ThreadPool
from steropes.solve.quadratic.cholesky import Cholesky
from steropes.solve.quadratic.factors import Factors
from steropes.solve.quadratic.own_part import OwnPart
from steropes.solve.quadratic.preconditioner import Preconditioner
from steropes.solve.quadratic.shared import SharedMatrix


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


@pytest.mark.parametrize("m", [0, 1, 255, 300, 600, 601])
def test_a_part_of_the_columns_is_eliminated(m, rng):
    n = 601
    A = positive(rng, n)
    factors = [Cholesky(A.copy(), ThreadPool(jobs), m) for jobs in (1, 3)]
    assert factors[0].L.tobytes() == factors[1].L.tobytes()
    S = np.tril(factors[0].complement)
    expected = A[m:, m:] - A[m:, :m] @ np.linalg.solve(A[:m, :m], A[:m, m:]) if m else A
    np.testing.assert_allclose(S, np.tril(expected), rtol=1e-8, atol=1e-8)


def test_rows_are_appended_to_a_factor(rng):
    n, m, more = 700, 300, 90
    A = positive(rng, n + more)
    room = A.copy()
    factor = Cholesky(room[:n, :n], ThreadPool(2), m)
    factor.append(room, n)
    once = Cholesky(A.copy(), ThreadPool(2), m)
    np.testing.assert_allclose(np.tril(factor.L), np.tril(once.L), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("B", [1, 4])
def test_a_factor_is_exact_for_each_support(free, B, rng):
    k = 120
    G = positive(rng, k).astype(np.float32)
    mask = np.zeros(k, bool)
    mask[3] = free
    shared = SharedMatrix(G, mask, ThreadPool(2))
    whole = shared.times(np.eye(k))
    support, ridge = supports(rng, k, B), np.zeros(k)
    support[3] = True
    factor = Preconditioner(shared, support, rng.uniform(size=k), ridge)
    R = rng.normal(size=(k, B)) * support
    found = factor.solve(R, support)
    expected = inverses(whole, R, support)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())
    # Others come and go: those that not all had exactly, and without a new factor.
    n = len(factor.at)
    missing = np.flatnonzero(~support.any(axis=1))[:5]
    support[missing, 0] = True
    support[factor.at[factor.m : factor.m + 3], B - 1] = False
    support[factor.at[0], 0] = False  # and one that all had
    assert factor.serves(shared, support, ridge)
    assert len(factor.at) == n + len(missing)
    R = rng.normal(size=(k, B)) * support
    found = factor.solve(R, support)
    expected = inverses(whole, R, support)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())


def test_a_fork_lets_columns_in_unseen(rng):
    k = 60
    shared = SharedMatrix(positive(rng, k).astype(np.float32), np.zeros(k, bool), ThreadPool(1))
    support = supports(rng, k, 2)
    support[-2:] = False
    factor = Preconditioner(shared, support, np.ones(k), np.zeros(k))
    before, n = factor.factor.L.copy(), len(factor.at)
    fork, more = factor.fork(), support.copy()
    more[-2:] = True
    assert fork.serves(shared, more, np.zeros(k))
    assert len(fork.at) > n == len(factor.at)
    np.testing.assert_array_equal(factor.factor.L, before)


def test_a_factor_whose_core_is_gone_serves_no_more(rng):
    k = 100
    shared = SharedMatrix(positive(rng, k).astype(np.float32), np.zeros(k, bool), ThreadPool(1))
    support = supports(rng, k, 3)
    factor = Preconditioner(shared, support, np.ones(k), np.zeros(k))
    support[factor.at[: factor.m // 2], 1] = False
    assert not factor.serves(shared, support, np.zeros(k))


def test_a_border_is_as_good_as_a_new_factor(rng):
    q = 80
    S = positive(rng, q)
    S = (S / np.sqrt(np.outer(np.diag(S), np.diag(S)))).astype(np.float32)
    lower = np.tril(S)
    has = np.arange(q) < 70
    first = OwnPart(lower, has, ThreadPool(1))
    now = has.copy()
    now[[3, 40]], now[[72, 75]] = False, True
    bordered = OwnPart.near(lower, now, [first], ThreadPool(1))
    assert bordered.base is first.base
    R = rng.normal(size=q).astype(np.float32)
    found, other = R.copy(), R.copy()
    bordered.solve(found)
    OwnPart(lower, now, ThreadPool(1)).solve(other)
    np.testing.assert_allclose(found, other, atol=2e-3 * np.abs(other).max())
    assert not found[~now].any()


def test_an_indefinite_part_is_made_definite_or_goes_by_its_diagonal():
    S = np.array([[1.0, 0.0], [1.0001, 1.0]], np.float32)
    z = np.array([1.0, 2.0], np.float32)
    part = OwnPart(S, np.array([True, True]), ThreadPool(1))
    part.solve(z)
    assert np.isfinite(z).all()
    hopeless = OwnPart(np.array([[-1.0]], np.float32), np.array([True]), ThreadPool(1))
    z = np.array([2.0], np.float32)
    hopeless.solve(z)
    assert z[0] == 2.0
    assert not hopeless.usable


def test_factors_are_handed_on_and_made_again_for_the_matrix_at_hand(rng):
    k = 50
    shared = SharedMatrix(positive(rng, k), np.zeros(k, bool), ThreadPool(1))
    at, support, size = np.arange(k), np.ones((k, 1), bool), np.ones(k)
    factors = Factors(shared)
    factors.prepare(at, support, size, np.zeros((k, 1)))
    other = Factors(SharedMatrix(2.0 * shared.G, np.zeros(k, bool), ThreadPool(1)), factors)
    assert other.inherited
    R = rng.normal(size=(k, 1))
    h = np.diag(shared.G)[:, None]
    np.testing.assert_allclose(
        other.inverse(at, R, support, h), factors.inverse(at, R, support, h), rtol=1e-12
    )
    other.renew(at, support, size, np.zeros((k, 1)))
    assert not other.inherited
    np.testing.assert_allclose(
        other.inverse(at, R, support, h), np.linalg.solve(2.0 * shared.G, R), rtol=0.05, atol=1e-4
    )
    made = factors.factor
    heir = Factors(shared, factors, takes=True)
    assert heir.factor is made  # and not a copy of it
    assert factors.factor is None


def test_factor_leaves_out_what_elimination_left_as_rounding():
    rng = np.random.default_rng(3)
    Z = rng.normal(size=(40, 6)) * np.array([1e30, 1e30, 1.0, 1.0, 1.0, 1.0])
    Z[:, 1] = Z[:, 0] * (1 + 1e-9)  # without a penalty and its copy
    free = np.array([True, False, False, False, False, False])
    shared = SharedMatrix(Z.T @ Z, free, ThreadPool(1))
    shared.diagonal[1] = 1e-300
    support = np.ones((6, 2), bool)
    factor = Preconditioner(shared, support, np.ones(6), np.zeros(6))  # warnings are errors
    assert 1 not in factor.at
    assert np.isfinite(factor.solve(np.ones((6, 2)), support)).all()
