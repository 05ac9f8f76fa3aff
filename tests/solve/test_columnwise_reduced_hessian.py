"""The column operator equals the array in products, descent, blocks and parts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from steropes.backends.cpu import CpuBackend
from steropes.design_matrix import as_design
from steropes.solve.data_term.column_hessian import ColumnHessian, StoredColumns
from steropes.solve.hessian import centred as centred_product
from steropes.solve.subproblem import ColumnwiseReducedHessian, DenseReducedHessian, LowRank
from steropes.solve.subproblem.preconditioners.block_preconditioner import (
    BlockPreconditioner,
    ColumnBlocks,
)


def chains(rng, n, count):
    """Columns of 0 and 1, each inside of the one before, four by four."""
    columns = []
    for _ in range(count):
        x = rng.random(n) < 0.3
        for _ in range(4):
            columns.append(x)
            x = x & (rng.random(n) < 0.7)
    return np.array(columns, float).T


@pytest.fixture(params=["indicators", "mixed"])
def X(request, rng):
    """Indicators alone, or with columns of values and dense ones between them."""
    x = chains(rng, 300, 8)
    if request.param == "mixed":
        x[:, 3] *= rng.uniform(1, 3, 300)
        x[:, 20] *= rng.uniform(1, 3, 300)
        x = np.column_stack([rng.normal(size=300), x, x[:, 20] * 2 + (rng.random(300) < 0.05)])
    return x


def pair(X, rng, free=(), centered=False, order=None, jobs=2):
    """The same matrix by columns and as an array, in the places of a shuffled working set."""
    design = as_design(sparse.csc_array(X))
    W = rng.permutation(X.shape[1])
    v = rng.uniform(0.1, 1, len(X) if order is None else len(order))
    rows = (X / design.scale)[:, W]
    if order is not None:
        rows = rows[order]
    H = rows.T @ (v[:, None] * rows)
    if centered:
        m = rows.T @ v
        H -= np.outer(m, m) / v.sum()
    mask = np.isin(W, list(free))
    backend = CpuBackend(jobs)
    product = centred_product(v) if centered else None
    columns = ColumnHessian(StoredColumns(design, W, order), v, product, backend)
    return ColumnwiseReducedHessian(columns, mask), DenseReducedHessian(H, mask, backend.pool)


@pytest.mark.parametrize("B", [1, 3])
@pytest.mark.parametrize("free", [(), (5,), (0, 17)])
@pytest.mark.parametrize("centered", [False, True])
def test_products_are_those_of_the_array(X, B, free, centered, rng):
    order = rng.permutation(300)[:250] if B == 3 else None
    mine, array = pair(X, rng, free, centered, order)
    np.testing.assert_allclose(mine.diagonal, array.diagonal, rtol=1e-9)
    np.testing.assert_allclose(mine.Y, array.Y, atol=1e-9)
    x = np.where(rng.random((mine.k, B)) < 0.5, rng.normal(size=(mine.k, B)), 0.0)
    before = x.copy()
    np.testing.assert_allclose(mine.times(x), array.times(x), atol=1e-9)
    np.testing.assert_array_equal(x, before)
    at = np.sort(rng.permutation(mine.k)[:13])
    at = np.union1d(at, np.flatnonzero(mine.eliminated))
    part, whole = mine.only(at), array.only(at)
    np.testing.assert_allclose(part.times(x[at]), whole.times(x[at]), atol=1e-9)
    np.testing.assert_allclose(part.diagonal, mine.diagonal[at])
    again = np.arange(0, len(at), 2)
    again = np.union1d(again, np.flatnonzero(part.eliminated))
    np.testing.assert_allclose(
        part.only(again).times(x[at][again]), whole.only(again).times(x[at][again]), atol=1e-9
    )


@pytest.mark.parametrize("free", [(), (5,)])
@pytest.mark.parametrize("M", [0, 2])
@pytest.mark.parametrize("B", [1, 3])
def test_a_sweep_goes_coordinate_by_coordinate(X, free, M, B, rng):
    mine, _ = pair(X, rng, free, centered=True)
    k = mine.k
    A = mine.times(np.eye(k))
    low = LowRank(0.2 * rng.normal(size=(M, k, B)), rng.uniform(0, 1, (M, B)))
    s = 10 * rng.normal(size=(k, B))
    y = np.where(rng.random((k, B)) < 0.5, rng.normal(size=(k, B)), 0.0)
    l1, l2 = rng.uniform(0, 5, (k, B)), rng.uniform(0, 0.3, (k, B))
    l1[mine.eliminated] = l2[mine.eliminated] = 0.0
    h = np.diag(A)[:, None] + l2 + low.diagonal()
    h[7, 0], h[:, 2:] = 0.0, 0.0  # these rest
    rest = np.zeros((k, B))
    rest[12] = 1e6  # violates by too little
    end, slopes = y.copy(), s.copy()
    mine.sweeps(low).run(slopes, end, h, l1, l2, rest)
    assert (end[:, :2] != y[:, :2]).sum() > k / 2
    np.testing.assert_array_equal(end[:, 2:], y[:, 2:])
    np.testing.assert_array_equal(end[12], y[12])
    assert end[7, 0] == y[7, 0]
    for b in range(B):
        H = A + np.diag(l2[:, b]) + (low.U[:, :, b].T * low.c[:, b]) @ low.U[:, :, b]
        np.testing.assert_allclose(slopes[:, b], s[:, b] + H @ (end - y)[:, b], atol=1e-9)
        z, order = y[:, b].copy(), np.concatenate([p.at for p in mine.columns.columns.pieces])
        for j in order:
            slope = s[j, b] + H[j] @ (z - y[:, b])
            pull = h[j, b] * z[j] - slope
            if h[j, b] > 0 and j != 12 and not (z[j] == 0 and abs(s[j, b]) < 0.9 * l1[j, b]):
                z[j] = np.sign(pull) * max(abs(pull) - l1[j, b], 0) / h[j, b]
        np.testing.assert_allclose(end[:, b], z, atol=1e-9)


@pytest.mark.parametrize("free", [(), (5,)])
def test_blocks_are_those_of_the_array(X, free, rng):
    mine, array = pair(X, rng, free, centered=True)
    blocks = ColumnBlocks(mine)
    if X.shape[1] == 32:  # all are stored alike
        np.testing.assert_array_equal(blocks.of, ColumnBlocks(array).of)
    assert len(np.unique(blocks.of)) < mine.k / 2
    at, B = np.arange(mine.k), 2
    support, ridge = rng.random((mine.k, B)) < 0.8, rng.uniform(0, 1, (mine.k, B))
    h = mine.diagonal[:, None] + ridge
    r = np.where(support, rng.normal(size=(mine.k, B)), 0.0)
    found = BlockPreconditioner(mine, blocks, at, support, ridge, h)(r, np.arange(B))
    theirs = ColumnBlocks(array)
    theirs.of = blocks.of
    expected = BlockPreconditioner(array, theirs, at, support, ridge, h)(r, np.arange(B))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_blocks_grow_and_change_their_kind(rng):
    X = chains(rng, 300, 8)
    design, v = as_design(sparse.csc_array(X)), rng.uniform(0.1, 1, 300)
    none, backend = np.zeros(32, bool), CpuBackend(1)

    def of(k):
        return ColumnwiseReducedHessian(
            ColumnHessian(
                StoredColumns(design, np.arange(k), None), v, centred_product(v), backend
            ),
            none[:k],
        )

    rows = X / design.scale
    m = rows.T @ v
    H = rows.T @ (v[:, None] * rows) - np.outer(m, m) / v.sum()
    whole, array = of(32), DenseReducedHessian(H, none, backend.pool)
    np.testing.assert_array_equal(
        ColumnBlocks(whole, ColumnBlocks(of(20))).of, ColumnBlocks(whole).of
    )
    assert ColumnBlocks(whole).covers(whole)
    assert not ColumnBlocks(whole).covers(array)
    assert not ColumnBlocks(array).covers(whole)
    assert not ColumnBlocks(of(20)).covers(whole)
    np.testing.assert_array_equal(
        ColumnBlocks(whole, ColumnBlocks(array)).of, ColumnBlocks(whole).of
    )


def test_no_number_depends_on_the_threads(X, rng):
    (one, _), (two, _) = (pair(X, np.random.default_rng(3), (5,), jobs=j) for j in (1, 2))
    x = rng.normal(size=(one.k, 1))
    np.testing.assert_array_equal(one.times(x), two.times(x))
    np.testing.assert_array_equal(one.times(np.tile(x, 3)), two.times(np.tile(x, 3)))
    np.testing.assert_array_equal(ColumnBlocks(one).of, ColumnBlocks(two).of)
