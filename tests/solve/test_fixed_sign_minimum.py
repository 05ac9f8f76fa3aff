"""Exact minimisation for fixed signs, with singular and nearly singular matrices."""

from __future__ import annotations

import numpy as np
import pytest

from steropes.backends.thread_pool import ThreadPool
from steropes.solve.optimality.optimality_certificate import violations
from steropes.solve.subproblem import LowRank
from steropes.solve.subproblem.dense_reduced_hessian import DenseReducedHessian
from steropes.solve.subproblem.fixed_sign_minimum import fixed_sign_minimum


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_of_two_equal_columns_leaves_despite_rounding(dtype):
    """A matrix in its own precision: the pair's part has a negative eigenvalue of rounding."""
    G = 50 * np.eye(4, dtype=dtype)
    G[0, 1] = G[1, 0] = np.nextafter(dtype(50), dtype(100))
    assert np.linalg.eigvalsh(G.astype(np.float64)).min() < 0
    shared = DenseReducedHessian(G, np.zeros(4, bool), ThreadPool(1))
    l1, y = np.ones(4), np.array([0.01, 0.02, 0.3, 0.0])
    slope = np.array([-1.0 - 1e-4, -1.0 + 1e-4, -1.0, 0.5])  # the first one's is a little larger
    out = fixed_sign_minimum(shared, LowRank.none(4, 1), l1, np.zeros(4), y, slope)
    assert out[1] == 0.0
    s = slope + G.astype(np.float64) @ (out - y)
    left = violations(s[:, None], out[:, None], l1[:, None], np.zeros(1))
    assert left.max() < 1.1e-4
    np.testing.assert_allclose(out[0], 0.03, rtol=1e-3)
    np.testing.assert_array_equal(out[2:], y[2:])
