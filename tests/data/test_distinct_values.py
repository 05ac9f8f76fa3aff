"""Distinct values and positions are those of numpy.unique, counted or sorted."""

import numpy as np
import pytest

from steropes.data.distinct_values import rank_values


@pytest.mark.parametrize(
    "values",
    [
        [],
        [3, 0, 3, 1],
        [3.0, 0.0, 3.0, -0.0],
        [2.5, 0.0, 1.0],
        [-1, 0, 2],
        [-5, 2, 2, 900],
        [7.5, 7.5, 8.25],
        [np.nan],
        [1.0, np.inf, np.inf],
        [10.0, 1.0],
        [np.nan, 1.0, np.nan],
        [np.inf, 1.0],
        ["b", "a", "b"],
        np.array([2, 0, 2, 1], dtype=np.uint8),
    ],
)
def test_whole_numbers_are_ranked_as_by_sorting(values):
    expected, positions = np.unique(np.asarray(values), return_inverse=True)
    distinct, place = rank_values(values)
    np.testing.assert_array_equal(distinct, expected)
    np.testing.assert_array_equal(place, positions)
    assert distinct.dtype == expected.dtype
