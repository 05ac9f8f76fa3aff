"""Inverses over some of the columns of a factor."""

from __future__ import annotations

import numpy as np
import pytest

from steropes.backends.thread_pool import ThreadPool
from steropes.solve.subproblem.preconditioners.inactive_column_corrections import (
    InactiveColumnsCache,
)
from steropes.solve.subproblem.preconditioners.tiled_cholesky import Cholesky
from steropes.solve.work_sizes import SIZES


def unit_diagonal(rng, n):
    Z = rng.normal(size=(2 * n, n)) + rng.normal(size=(2 * n, 1))
    Z /= np.sqrt((Z**2).sum(axis=0))
    A = Z.T @ Z
    A[np.diag_indices(n)] = 1.0 + 1e-5
    return A


def solved(factor, correction, D, r, there):
    """The preconditioner's own way, for one replicate."""
    m, z = factor.m, r.astype(np.float32)[:, None]
    factor.forward(z)
    correction.project_out(z[:m, 0])
    factor.down(z)
    correction.rest(z[m:, 0], there, D)
    factor.up(z)
    correction.project_out(z[:m, 0])
    factor.backward(z)
    return z[:, 0]


def with_diagonal_complement(A, m, D):
    """The matrix of which the factor is one: of the complement of the first m only D is left."""
    out = A.copy()
    out[m:, m:] = A[m:, :m] @ np.linalg.solve(A[:m, :m], A[:m, m:]) + np.diag(D)
    return out


@pytest.mark.parametrize("gone", [[0], [699], [3, 5, 650], list(range(0, 700, 3))])
def test_inactive_columns_are_as_if_never_eliminated(gone, rng):
    n, m = 800, 700
    assert m > 2 * SIZES.tile_columns
    A = unit_diagonal(rng, n)
    factor = Cholesky(A[:, :m].astype(np.float32), ThreadPool(2))
    D = (1.0 - (factor.L[m:] ** 2).sum(axis=1)).astype(np.float32)
    has = np.ones((m, 1), bool)
    has[gone] = False
    correction = InactiveColumnsCache(factor).of(has, m)[0]
    assert len(correction.blocks) == -(-len(gone) // SIZES.inverse_columns)
    there = rng.random(n - m) < 0.7
    at = np.concatenate([np.flatnonzero(has), m + np.flatnonzero(there)])
    B = with_diagonal_complement(A, m, D)[np.ix_(at, at)]
    r = np.zeros(n)
    r[at] = rng.normal(size=len(at))
    found, expected = solved(factor, correction, D, r, there), np.linalg.solve(B, r[at])
    np.testing.assert_allclose(found[at], expected, atol=1e-3 * np.abs(expected).max())
    assert np.abs(np.delete(found, at)).max() < 1e-3 * np.abs(expected).max()


def test_columns_that_come_later_are_explained_too(rng):
    n, m, more = 140, 100, 20
    A = unit_diagonal(rng, n + more)
    room = A.astype(np.float32)
    factor = Cholesky(room[:n, :m], ThreadPool(1))
    has = np.ones((m, 2), bool)
    has[40:50, 1] = False
    corrections = InactiveColumnsCache(factor)
    assert corrections.of(has, m)[0] is None  # who has all needs nothing
    assert corrections.of(has, 9) == [None, None]  # and for who lacks many it is not worth it
    before = corrections.of(has, m)[1]
    assert len(before.W) == n - m
    factor.append(room[:, :m], n)
    after = corrections.of(has, m)[1]
    assert after is before
    once = InactiveColumnsCache(Cholesky(A[:, :m].astype(np.float32), ThreadPool(1))).of(has, m)[1]
    np.testing.assert_allclose(after.W @ after.W.T, once.W @ once.W.T, atol=1e-5)


def test_bits_do_not_depend_on_threads_nor_on_what_was_asked_before(rng):
    m = 600
    A = unit_diagonal(rng, m).astype(np.float32)
    has = rng.random((m, 5)) < 0.8
    one, three = (InactiveColumnsCache(Cholesky(A.copy(), ThreadPool(jobs))) for jobs in (1, 3))
    first, second = one.of(has, m), three.of(has, m)
    for a, b in zip(first, second, strict=True):
        assert [Q.tobytes() for _, Q in a.blocks] == [Q.tobytes() for _, Q in b.blocks]
    assert one.of(has[:, ::-1], m) == first[::-1]  # they are kept


def test_columns_of_the_inverse_are_dropped_when_there_are_too_many(rng):
    m = 400
    factor = Cholesky(unit_diagonal(rng, m).astype(np.float32), ThreadPool(1))
    corrections = InactiveColumnsCache(factor)
    for a in range(0, m, 50):
        has = np.ones((m, 1), bool)
        has[a : a + 50] = False
        kept = corrections.of(has, m)[0]
        fresh = InactiveColumnsCache(factor).of(has, m)[0]
        for (_, Q), (_, P) in zip(kept.blocks, fresh.blocks, strict=True):
            np.testing.assert_allclose(Q @ Q.T, P @ P.T, atol=1e-4)
        assert len(corrections._units) <= 0.25 * m + 50
