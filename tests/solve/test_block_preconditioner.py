"""Blocks of correlated columns, and each replicate's part of them."""

from __future__ import annotations

import numpy as np
import pytest

from steropes.backends.thread_pool import ThreadPool
from steropes.solve.subproblem import LowRank
from steropes.solve.subproblem.conjugate_gradients import support_steps
from steropes.solve.subproblem.dense_reduced_hessian import DenseReducedHessian
from steropes.solve.subproblem.preconditioners.block_preconditioner import (
    BlockPreconditioner,
    ColumnBlocks,
)
from steropes.solve.subproblem.preconditioners.preconditioner_choice import PreconditionerCache
from steropes.solve.subproblem.subproblem_constants import SubproblemPolicy

POLICY = SubproblemPolicy().preconditioner


def chains(rng, n, lengths):
    """Columns of 0 and 1 in chains, each inside of the one before, in any order."""
    columns = []
    for length in lengths:
        x = rng.random(n) < 0.2
        for _ in range(length):
            columns.append(x)
            x = x & (rng.random(n) < 0.7)
    order = rng.permutation(len(columns))
    chain = np.repeat(np.arange(len(lengths)), lengths)[order]
    return np.array(columns, float)[order].T, chain


def shared_of(X, free=(), dtype=np.float32, jobs=1):
    mask = np.zeros(X.shape[1], bool)
    mask[list(free)] = True
    return DenseReducedHessian((X.T @ X).astype(dtype), mask, ThreadPool(jobs))


def strong(shared):
    """Whether the correlation of two columns is strong, (k, k)."""
    A = shared.times(np.eye(shared.k))
    size = np.sqrt(np.diag(A))
    return np.abs(A / size / size[:, None]) > POLICY.strong_correlation


def solved(shared, blocks, at, support, ridge, R):
    """The blocks' own systems, one after another, and the diagonal."""
    A = shared.times(np.eye(shared.k))[np.ix_(at, at)]
    out = np.zeros(R.shape)
    for b in range(R.shape[1]):
        together = blocks.of[at][:, None] == blocks.of[at]
        H = np.where(together, A, 0.0) + np.diag(ridge[:, b])
        some = np.flatnonzero(support[:, b])
        out[some, b] = np.linalg.solve(H[np.ix_(some, some)], R[some, b])
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("free", [(), (5,), (0, 17)])
def test_chains_are_blocks(free, dtype, rng):
    X, chain = chains(rng, 4000, [1, 2, 4, 9, 4, 1, 6])
    if not free:
        X = X - X.mean(axis=0)
    for j in free:  # an intercept, and another one
        X = np.insert(X, j, 1.0 if j == free[0] else rng.normal(size=len(X)), axis=1)
    shared = shared_of(X, free, dtype)
    blocks = ColumnBlocks(shared)
    rest = np.setdiff1d(np.arange(X.shape[1]), free)
    together = blocks.of[rest][:, None] == blocks.of[rest]
    assert (together <= (chain[:, None] == chain)).all()  # nothing between chains
    assert together[strong(shared)[np.ix_(rest, rest)]].all()
    assert (blocks.of[list(free)] == list(free)).all()


def test_blocks_do_not_depend_on_threads_and_grow(rng):
    X, _ = chains(rng, 3000, [4] * 150 + [12] * 20)
    X -= X.mean(axis=0)
    one, two, three = (ColumnBlocks(shared_of(X, jobs=jobs)) for jobs in (1, 2, 3))
    np.testing.assert_array_equal(one.of, two.of)
    np.testing.assert_array_equal(one.of, three.of)
    grown = ColumnBlocks(shared_of(X[:, :700]))
    assert (grown.of[:, None] == grown.of).sum() > 700
    before = grown.of[:, None] == grown.of
    grown = ColumnBlocks(shared_of(X), grown)
    after = grown.of[:, None] == grown.of
    assert after[:700, :700][before].all()
    np.testing.assert_array_equal(after, one.of[:, None] == one.of)  # no block is full here


def test_a_block_is_no_larger_than_it_may_be(rng):
    X = rng.normal(size=(500, 1)) + 0.05 * rng.normal(size=(500, 3 * POLICY.max_block_columns + 7))
    assert len(X.T) ** 2 // 2 > POLICY.pairs_per_column * len(
        X.T
    )  # more pairs than there is room for
    count = np.bincount(ColumnBlocks(shared_of(X)).of)
    assert 1 < count.max() <= POLICY.max_block_columns


@pytest.mark.parametrize("B", [1, 4])
def test_each_replicates_part_of_each_block_is_solved(B, rng):
    X, _ = chains(rng, 2000, [1, 5, 3, 8, 4, 1])
    X = np.hstack([np.ones((len(X), 1)), X])
    shared = shared_of(X, (0,))
    blocks = ColumnBlocks(shared)
    at = np.sort(rng.choice(np.arange(1, X.shape[1]), 18, replace=False))
    support = rng.random((18, B)) < 0.7
    support[:, B - 1] |= B > 1
    ridge = rng.uniform(0, 20, (18, B))
    R = rng.normal(size=(18, B)) * support
    h = shared.diagonal[at][:, None] + ridge
    inverse = BlockPreconditioner(shared, blocks, at, support, ridge, h)
    expected = solved(shared, blocks, at, support, ridge, R)
    np.testing.assert_allclose(inverse(R, np.arange(B)), expected, rtol=1e-5, atol=1e-9)
    some = np.arange(1, B)
    if len(some):
        np.testing.assert_allclose(
            inverse(R[:, some], some), expected[:, some], rtol=1e-5, atol=1e-9
        )
    assert not inverse(R[:, some], some)[~support[:, some]].any()


def test_without_blocks_the_preconditioner_is_the_diagonal(rng):
    shared = shared_of(rng.normal(size=(4000, 30)))
    blocks, at, support = ColumnBlocks(shared), np.arange(30), np.ones((30, 2), bool)
    h = np.tile(shared.diagonal[:, None], 2)
    R = rng.normal(size=(30, 2))
    found = BlockPreconditioner(shared, blocks, at, support, np.zeros((30, 2)), h)(R, np.arange(2))
    np.testing.assert_array_equal(found, R * (1 / h))


def test_columns_that_are_the_same_leave_an_inverse_finite(rng):
    X, _ = chains(rng, 1000, [5, 5])
    X[:, 3], X[:, 8] = X[:, 2], X[:, 7]
    shared = shared_of(X)
    at, support, h = np.arange(10), np.ones((10, 2), bool), np.tile(shared.diagonal[:, None], 2)
    inverse = BlockPreconditioner(shared, ColumnBlocks(shared), at, support, np.zeros((10, 2)), h)
    out = inverse(rng.normal(size=(10, 2)), np.arange(2))
    assert np.isfinite(out).all()
    # What is left of a column without curvature is rounding, and in no block.
    shared.diagonal[4] = 1e-300
    h[4] = 1e-300
    blocks = ColumnBlocks(shared)
    assert np.count_nonzero(blocks.of == blocks.of[4]) == 1
    inverse = BlockPreconditioner(shared, blocks, at, support, np.zeros((10, 2)), h)
    assert np.isfinite(inverse(np.ones((10, 2)), np.arange(2))).all()


def test_a_subset_of_replicates_gets_its_own_systems(rng):
    X, _ = chains(rng, 1000, [5, 5, 5])
    shared, B = shared_of(X), 3
    k = shared.k
    support = rng.random((k, B)) < 0.7
    h = shared.diagonal[:, None] * rng.uniform(1.0, 2.0, B)
    R = rng.normal(size=(k, B)) * support
    given = np.arange(k), support, np.zeros((k, B)), h
    inverse = BlockPreconditioner(shared, ColumnBlocks(shared), *given)
    whole = inverse(R, np.arange(B))
    for some in ([0], [2], [0, 2], [1, 2]):
        own = inverse(np.ascontiguousarray(R[:, some]), np.array(some))
        np.testing.assert_allclose(own, whole[:, some], rtol=1e-9)


def steps(shared, factors, support, residual):
    """A Newton step by what the factors give, and its iterations."""
    k, B = support.shape
    at, ridge = np.arange(k), np.zeros((k, B))
    mine = at, support, np.ones(k), ridge
    factors.prepare(*mine)
    h = np.tile(shared.diagonal[:, None], B)
    p, _, iterations = support_steps(
        shared, LowRank.none(k, B), ridge, support, residual, np.zeros((k, B)),
        factors.inverse(at, support, ridge, h), np.full(B, 0.2),
    )  # fmt: skip
    factors.record_iterations(iterations, *mine)
    return p, iterations


def test_chains_take_few_iterations_and_no_factor(rng):
    X, _ = chains(rng, 5000, [6] * 60)
    shared = shared_of(X - X.mean(axis=0))
    assert shared.k > POLICY.min_factor_columns
    factors = PreconditionerCache(shared)
    support = rng.random((shared.k, 3)) < 0.8
    residual = rng.normal(size=support.shape) * np.sqrt(shared.diagonal)[:, None]
    _, iterations = steps(shared, factors, support, residual)
    assert iterations <= 4
    assert factors.factor is None
    assert not factors.blocks_failed_at


def test_columns_correlated_beyond_blocks_use_a_factor(rng):
    k = POLICY.min_factor_columns + 50
    size = np.logspace(0, -3, k)  # of what joins them
    X = (rng.normal(size=(3000, k)) * size) @ rng.normal(size=(k, k))
    shared = shared_of(X)
    factors, support = PreconditionerCache(shared), np.ones((k, 2), bool)
    residual = X.T @ rng.normal(size=(3000, 2))
    lost = 0
    while not factors.blocks_failed_at:  # what is lost may come to what a factor costs
        _, before = steps(shared, factors, support, residual)
        assert before > POLICY.enough_iterations
        lost += before - POLICY.enough_iterations
    most = k // POLICY.columns_per_lost_iteration + SubproblemPolicy().max_iterations
    assert lost <= most
    assert PreconditionerCache(shared, factors).blocks_failed_at  # and the next matrix's as well
    _, after = steps(shared, factors, support, residual)
    assert factors.factor is not None
    assert after < before
    # Of many more columns blocks may tell enough.
    assert (
        PreconditionerCache(shared_of(np.hstack([X, X[:, : k - 1]])), factors).blocks_failed_at == k
    )
    more = PreconditionerCache(shared_of(np.hstack([X, rng.normal(size=(3000, k + 1))])), factors)
    assert not more.blocks_failed_at
    assert more.factor is None


def test_an_eliminated_column_is_in_no_block(rng):
    X = rng.normal(size=(2000, 1)) + 0.3 * rng.normal(size=(2000, 6))
    X = np.hstack([X, np.ones((2000, 1))])
    blocks = ColumnBlocks(shared_of(X, (6,)))  # the model's penalty was another one then
    shared = shared_of(X, (2, 6))
    assert blocks.of[2] == blocks.of[3]
    at, support, ridge = np.arange(7), np.ones((7, 1), bool), np.zeros((7, 1))
    h = shared.diagonal[:, None]
    inverse = BlockPreconditioner(shared, blocks, at, support, ridge, h)
    R = rng.normal(size=(7, 1))
    expected = np.linalg.solve(shared.times(np.eye(7)), R)
    np.testing.assert_allclose(inverse(R, np.arange(1)), expected, rtol=1e-4)


@pytest.mark.parametrize("size", [3e-4, 4e-4, 5e-4, 6e-4])
def test_columns_reduced_to_rounding_error_have_no_large_inverse(size, rng):
    """Nearly constant columns in single precision: their Schur complement is not positive."""
    X = np.hstack([np.ones((4000, 1)), 1 + size * rng.normal(size=(4000, 40))])
    shared = shared_of(X, (0,))
    blocks, B = ColumnBlocks(shared), 2
    assert np.bincount(blocks.of).max() > 8
    h = np.tile(shared.diagonal[:, None], B)
    at, support = np.arange(41), h > 0
    inverse = BlockPreconditioner(shared, blocks, at, support, np.zeros((41, B)), h)
    R = rng.normal(size=(41, B)) * np.sqrt(np.abs(h)) * support
    for some in (np.arange(B), np.array([1])):
        z = inverse(R[:, some], some) * np.sqrt(np.abs(h[:, some]))  # warnings are errors
        assert np.abs(z).max() < 1e6  # NaN is not
