"""Products with a few vectors."""

from __future__ import annotations

import numpy as np
import pytest

from steropes.backends.cpu.descent import single_precision_products as thin
from steropes.backends.thread_pool import ThreadPool
from steropes.solve.subproblem import dense_products


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("B", [1, 2, 8, 10, 19, 40])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 3), (300, 61), (530, 1300)])
def test_products(dtype, B, n, k, rng):
    A, z = rng.normal(size=(n, k)).astype(dtype), rng.normal(size=(k, B)).astype(dtype)
    atol = (1e-5 if dtype == np.float32 else 1e-12) * np.sqrt(k)
    found = dense_products.times(A, z, ThreadPool(2))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, A.astype(np.float64) @ z, atol=atol)
    fewer = dense_products.times(
        A, z[: k // 2], ThreadPool(1)
    )  # the other columns are not looked at
    np.testing.assert_allclose(fewer, A[:, : k // 2].astype(np.float64) @ z[: k // 2], atol=atol)


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("B", [1, 2, 8, 10, 19, 40])
@pytest.mark.parametrize(("n", "k"), [(1, 1), (7, 3), (300, 61), (1300, 2100)])
def test_transposed_products(dtype, B, n, k, rng):
    A, z = rng.normal(size=(n, k)).astype(dtype), rng.normal(size=(n, B)).astype(dtype)
    atol = (1e-5 if dtype == np.float32 else 1e-12) * np.sqrt(n)
    whole = A.astype(np.float64).T @ z
    found = dense_products.transposed_times(A, z, ThreadPool(2), (0, k))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, whole, atol=atol)
    part = dense_products.transposed_times(A, z, ThreadPool(1), (k // 3, k))
    np.testing.assert_allclose(part, whole[k // 3 :], atol=atol)
    rows = rng.permutation(n)[: n // 2 + 1]
    some = dense_products.transposed_times(A, z[rows], ThreadPool(1), (0, k), rows)
    np.testing.assert_allclose(some, A[rows].astype(np.float64).T @ z[rows], atol=atol)


def test_no_product_depends_on_the_number_of_threads(rng, eager_threads):
    A = rng.normal(size=(1500, 1500)).astype(np.float32)
    z = rng.normal(size=(1500, 10)).astype(np.float32)
    found = [
        (
            dense_products.times(A, z, ThreadPool(jobs)).tobytes(),
            dense_products.transposed_times(A, z, ThreadPool(jobs), (0, 1500)).tobytes(),
        )
        for jobs in (1, 2, 3)
    ]
    assert found[0] == found[1] == found[2]


def test_many_terms_are_not_added_up_in_single_precision():
    """One hundred thousand ones and a large one: single precision would lose the ones."""
    n = 100_000
    A = np.ones((1, n), np.float32)
    A[0, 0] = 2**24
    z = np.ones((n, 2), np.float32)
    assert abs(dense_products.times(A, z, ThreadPool(1))[0, 0] - (2**24 + n - 1)) < thin.TERMS
    found = dense_products.transposed_times(A.T.copy(), z, ThreadPool(1), (0, 1))
    assert abs(found[0, 0] - (2**24 + n - 1)) < thin.TERMS
