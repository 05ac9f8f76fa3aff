"""Rows of designs whose effects change with time."""

import numpy as np
import pytest

from steropes.backends import host_backend
from steropes.design_matrix import as_design
from steropes.design_matrix.piecewise_design import PiecewiseDesign, StepEffects


def piecewise(source, first, last):
    """Two people, two intervals, and one piece of each person in each interval."""
    names = [str(k) for k in range(len(source))]
    X = as_design(np.array([[1.0, 2.0], [3.0, 5.0]]))
    return PiecewiseDesign(
        X, StepEffects(source, first, last, names, 2), np.array([0, 1, 0, 1]), np.array([0, 2, 4])
    )


@pytest.mark.parametrize(
    ("source", "first", "last"), [([0, 0], [0, 0], [1, 1]), ([1, 1, 0], [1, 1, 0], [1, 1, 1])]
)
def test_two_coefficients_of_a_column_in_one_interval_are_refused(source, first, last):
    with pytest.raises(ValueError, match="one coefficient in each interval"):
        piecewise(source, first, last).by_rows(np.arange(len(source)), None, host_backend(1))


def test_rows_and_design_give_the_same_products():
    design, backend = piecewise([0, 0, 1], [0, 1, 0], [0, 1, 1]), host_backend(1)
    beta = np.array([[1.0], [-2.0], [0.5]])
    rows = design.by_rows(np.arange(3), None, backend)
    np.testing.assert_allclose(rows.matmul(beta), design.matmul(beta, backend))
