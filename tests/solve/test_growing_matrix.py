"""A matrix that grows in place equals one that is made at once."""

import numpy as np
import pytest

from steropes.backends.thread_pool import ThreadPool
from steropes.solve.quasi_newton.shared_hessian import GrowingMatrix


def symmetric(rng, k, dtype):
    A = rng.normal(size=(k, k)).astype(dtype)
    return A + A.T


def rows_from(H, first, k):
    """What is given when columns join: rows before ``first`` may be anything."""
    out = H[:k, :k].copy()
    out[:first] = np.nan
    return out


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_growth_in_small_and_large_parts_gives_the_whole_matrix(rng, dtype, eager_threads):
    H = symmetric(rng, 900, dtype)
    grown = GrowingMatrix(H[:300, :300].copy(), ThreadPool(2))
    for k in (301, 310, 700, 701, 900):  # within the room behind it, and beyond
        grown.grow(rows_from(H, grown.k, k))
        np.testing.assert_array_equal(grown.matrix, H[:k, :k])
        assert grown.rows.flags.c_contiguous
        np.testing.assert_array_equal(grown.rows[:, :k], H[:k, :k])


def test_there_is_room_for_more_without_another_matrix(rng):
    H = symmetric(rng, 120, float)
    grown = GrowingMatrix(H[:90, :90].copy(), ThreadPool(1))
    grown.grow(rows_from(H, 90, 100))
    before = grown.rows.ctypes.data
    grown.grow(rows_from(H, 100, int(100 * (1 + grown.policy.spare_share))))
    assert grown.rows.ctypes.data == before


def test_earlier_views_stay_as_they_were(rng):
    H = symmetric(rng, 80, float)
    grown = GrowingMatrix(H[:50, :50].copy(), ThreadPool(1))
    earlier = grown.matrix
    grown.grow(rows_from(H, 50, 80))
    np.testing.assert_array_equal(grown.matrix, H)
    np.testing.assert_array_equal(earlier, H[:50, :50])
