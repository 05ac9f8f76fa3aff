"""Elementwise formulas in blocks of rows."""

import numpy as np
import pytest

from steropes.backends import elementwise_row_blocks as row_blocks
from steropes.backends.elementwise_row_blocks import map_rows
from steropes.backends.thread_pool import ThreadPool


@pytest.mark.parametrize("k", [0, 1, 7, 400, 60_000])
@pytest.mark.parametrize("threads", [None, 1, 3])
def test_blocks_give_the_numbers_of_the_whole_arrays(rng, k, threads):
    x, U, row, column = (rng.normal(size=s) for s in ((k, 9), (2, k, 9), (1, 9), (k, 1)))

    def formula(x, U, row, column):
        return x * row + column, U / (1.0 + x**2), x > column

    pool = None if threads is None else ThreadPool(threads)
    found = map_rows(pool, formula, x, U, row, column)
    for whole, part in zip(formula(x, U, row, column), found, strict=True):
        assert whole.dtype == part.dtype
        np.testing.assert_array_equal(whole, part)


def test_arrays_without_columns_or_terms_keep_their_shapes():
    (out,) = map_rows(None, lambda x, U: (x + U.sum(axis=0),), np.zeros((5, 0)), np.ones((3, 5, 0)))
    assert out.shape == (5, 0)
    (out,) = map_rows(None, lambda U: (U * 2,), np.empty((0, 100_000, 3)))
    assert out.shape == (0, 100_000, 3)


def test_threads_ignore_the_floating_point_errors_that_the_caller_ignores():
    x = np.full((200_000, 8), 1e300)
    with np.errstate(over="ignore"):
        (out,) = map_rows(ThreadPool(3), lambda x: (x * x,), x)
    assert np.isinf(out).all()
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        map_rows(ThreadPool(3), lambda x: (x * x,), x)


def test_a_failure_in_a_block_is_raised(monkeypatch):
    monkeypatch.setattr(row_blocks, "ENTRIES_AT_ONCE", 4)

    def fails(x):
        if x[0, 0] > 5:
            raise ValueError("a block")
        return (x,)

    with pytest.raises(ValueError, match="a block"):
        map_rows(ThreadPool(2), fails, np.arange(20.0)[:, None])
