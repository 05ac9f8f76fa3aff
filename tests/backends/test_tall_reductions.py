"""Reductions of tall arrays are NumPy's, whatever the shape and the order in memory."""

import numpy as np
import pytest

from steropes.backends.reductions_of_tall_arrays import (
    column_all,
    column_any,
    column_max,
    column_sum,
    columns,
    row_any,
    row_max,
    row_min,
)

SHAPES = [(0, 3), (1, 1), (5, 10), (33, 2), (1000, 1), (1001, 10), (64, 70)]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", SHAPES)
def test_as_numpy_has_them(shape, order, rng):
    x = np.asarray(rng.normal(size=shape) * (rng.random(shape) < 0.1), order=order)
    np.testing.assert_array_equal(column_max(x), x.max(axis=0, initial=0.0))
    np.testing.assert_allclose(column_sum(x), x.sum(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(row_any(x), x.any(axis=1))
    np.testing.assert_array_equal(row_any(x != 0), x.any(axis=1))
    np.testing.assert_array_equal(column_any(x), x.any(axis=0))
    np.testing.assert_array_equal(column_all(x == 0), (x == 0).all(axis=0))
    np.testing.assert_array_equal(row_max(x), x.max(axis=1))
    np.testing.assert_array_equal(row_min(x), x.min(axis=1))


def test_what_is_not_a_number_is_not_lost(rng):
    x = rng.normal(size=(200, 3))
    x[7, 1] = np.nan
    assert np.isnan(column_max(x)).tolist() == [False, True, False]
    assert np.isnan(row_max(x)).sum() == 1
    assert row_any(np.where(np.isnan(x), x, 0.0)).sum() == 1


def test_some_columns_have_short_rows_and_all_are_no_copy(rng):
    x = rng.normal(size=(50, 4))
    assert columns(x, [0, 1, 2, 3]) is x
    some = columns(x, np.array([1, 3]))
    assert some.flags.c_contiguous
    np.testing.assert_array_equal(some, x[:, [1, 3]])
