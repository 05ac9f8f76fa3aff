"""Rows of many entries: narrow column numbers, and columns that join are appended."""

import numpy as np
import pytest
from scipy import sparse

from steropes.backends.cpu import NO_DATA, CpuBackend, Lines
from steropes.backends.cpu.sparse import sparse_lines
from steropes.backends.cpu.sparse.append_columns import append_lines
from steropes.backends.thread_pool import ThreadPool
from steropes.design_matrix import working_columns_by_row as rows_module
from steropes.design_matrix.design_from_arrays_and_tables import as_design
from steropes.design_matrix.working_columns_by_row import RowMatrix


@pytest.fixture
def few(monkeypatch):
    """Set how many entries are few."""

    def be(entries):
        for module in (sparse_lines, rows_module):
            monkeypatch.setattr(module, "FEW", entries)

    return be


def mixed(rng):
    """Indicators, columns with values, and one that is dense."""
    X = sparse.random_array((60, 9), density=0.3, rng=rng).toarray()
    X[:, :5] = X[:, :5] != 0
    X[:, 6] = rng.normal(size=60)
    return X


@pytest.mark.sampled
@pytest.mark.parametrize("entries", [0, 100, 10_000])
@pytest.mark.parametrize("first", [1, 4, 7])
@pytest.mark.parametrize("order", [None, "reversed"])
def test_columns_that_join_are_as_if_they_had_been_there(rng, few, entries, first, order):
    few(entries)
    X, chosen = mixed(rng), rng.permutation(9)
    order = order and np.arange(60)[::-1]
    R, d, v = rng.normal(size=(60, 4)), rng.normal(size=(9, 4)), rng.uniform(size=60)
    design = as_design(sparse.csc_array(X))
    rows = RowMatrix(design, chosen[:first], order, CpuBackend(2)).grown(design, chosen, order)
    Z = RowMatrix(design, np.arange(9), None, CpuBackend(1)).matmul(np.eye(9, 12))[:, :9]
    np.testing.assert_allclose(Z[:, :5], X[:, :5])  # the others are centred and scaled
    Z = (Z if order is None else Z[order])[:, chosen]
    np.testing.assert_allclose(rows.matmul(d), Z @ d, atol=1e-12)
    np.testing.assert_allclose(rows.rmatmul(R), Z.T @ R, atol=1e-12)
    np.testing.assert_allclose(np.tril(rows.gram(v)), np.tril(Z.T @ (v[:, None] * Z)), atol=1e-12)
    expected = np.uint16 if entries <= rows.lines.nnz else np.int32
    assert rows.lines.indices.dtype == expected


@pytest.mark.parametrize(
    ("wide", "narrow", "width", "kind"),
    [(np.int32, np.uint16, 65_535, np.uint16), (np.int32, np.int32, 65_535, np.int32),
     (np.uint16, np.uint16, 65_536, np.int32)],
)  # fmt: skip
@pytest.mark.parametrize("swapped", [False, True])
def test_of_two_types_the_narrower_that_is_wide_enough(wide, narrow, width, kind, swapped):
    x, y = (Lines(np.array([0, 1]), np.array([1, 3]), np.array([2, 0, 1], index), NO_DATA, 3)
            for index in ((narrow, wide) if swapped else (wide, narrow)))  # fmt: skip
    both = append_lines(x, y, width - 3, width, ThreadPool(1))
    assert both.indices.dtype == kind
    expected = [2, width - 1, 0, 1, width - 3, width - 2]
    np.testing.assert_array_equal(both.indices, expected)


@pytest.mark.parametrize(("entries", "times"), [(0, 1), (10_000, 0)])
def test_few_are_made_again(rng, few, monkeypatch, entries, times):
    few(entries)
    asked, append = [], CpuBackend.append_columns
    monkeypatch.setattr(CpuBackend, "append_columns", lambda *a: (asked.append(1), append(*a))[1])
    design = as_design(sparse.csc_array(mixed(rng)))
    RowMatrix(design, np.arange(4), None, CpuBackend(1)).grown(design, np.arange(9), None)
    assert len(asked) == times


@pytest.mark.parametrize(
    ("width", "entries", "kind"),
    [
        (65_535, sparse_lines.FEW, np.uint16),
        (65_535, sparse_lines.FEW - 1, np.int32),
        (65_536, sparse_lines.FEW, np.int32),
    ],
)
def test_column_numbers_are_narrow_where_there_are_many(width, entries, kind):
    assert sparse_lines.index_type(width, entries) == kind
