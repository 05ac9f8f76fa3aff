"""Indefinite Hessians are modified to be positive definite."""

import numpy as np
import pytest

from steropes.solve.quasi_newton.absolute_eigenvalue_hessian import make_positive_definite


@pytest.fixture
def indefinite():
    rng = np.random.default_rng(3)
    V = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    return (V * [-2.0, -0.3, 0.5, 1.0, 4.0]) @ V.T


def test_a_positive_matrix_stays_as_it_is(indefinite):
    S = indefinite @ indefinite
    assert make_positive_definite(S, np.zeros(5), np.diag(S)) is S


def test_a_ridge_under_which_it_is_positive_is_enough(indefinite):
    assert make_positive_definite(indefinite, np.full(5, 2.1), np.ones(5)) is indefinite
    assert make_positive_definite(indefinite, np.full(5, 1.9), np.ones(5)) is not indefinite


@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_negative_eigenvalues_get_their_absolute_values(indefinite, ridge):
    size = np.full(5, 3.0)
    out = make_positive_definite(indefinite, np.full(5, ridge), size) + ridge * np.eye(5)
    expected = np.sort(np.abs(np.linalg.eigvalsh(indefinite) + ridge))
    np.testing.assert_allclose(np.linalg.eigvalsh(out), expected, rtol=1e-12)


def test_units_of_the_columns_do_not_matter(indefinite):
    unit, size = np.array([1e-6, 1.0, 1e4, 30.0, 0.1]), np.array([1.0, 2.0, 3.0, 2.0, 1.0])
    ridge = np.array([0.0, 0.2, 0.0, 1.0, 0.5])
    there = make_positive_definite(
        indefinite * unit * unit[:, None], ridge * unit**2, size * unit**2
    )
    here = make_positive_definite(indefinite, ridge, size)
    np.testing.assert_allclose(there / unit / unit[:, None], here, rtol=1e-9, atol=1e-12)


def test_a_flat_matrix_gets_some_curvature():
    out = make_positive_definite(np.zeros((3, 3)), np.zeros(3), np.array([2.0, 0.0, 1.0]))
    assert (np.linalg.eigvalsh(out) > 0).all()
