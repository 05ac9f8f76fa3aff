"""Kernels of the quadratic models against plain NumPy, coordinate by coordinate."""

import numpy as np
import pytest

from steropes.backends.cpu.descent.coordinate_descent import descend_panel, panel_room


def _slope(A, U, c, s, y, start, i, b):
    """Slope of coordinate i of replicate b where its point is y, from that at the start."""
    d = y[:, b] - start[:, b]
    return s[i, b] + A[i] @ d + (U[:, i, b] * c[:, b]) @ (U[:, :, b] @ d)


@pytest.mark.parametrize("B", [1, 2, 8, 11])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("m", [0, 1, 2])
def test_a_panel_is_descended_coordinate_by_coordinate(B, dtype, m, rng):
    k, M, first, last = 23, 2, 5, 17
    root = rng.normal(size=(k, k + 5))
    G = np.ascontiguousarray(root @ root.T / k, dtype)
    Y = 0.3 * rng.normal(size=(m, k))
    apart = np.zeros(k, bool)
    apart[np.array([6, 20])[:m]] = True
    Y[:, apart] = 0.0
    A = G.astype(float) - Y.T @ Y
    A[apart], A[:, apart] = 0.0, 0.0
    A[apart, apart] = 1.0
    s, y = rng.normal(size=(k, B)), np.where(rng.random((k, B)) < 0.5, rng.normal(size=(k, B)), 0.0)
    l1, l2 = rng.uniform(0, 0.5, (k, B)), rng.uniform(0, 0.3, (k, B))
    l2[apart] = l1[apart] = 0.0
    U, c = 0.2 * rng.normal(size=(M, k, B)), rng.uniform(0, 1, (M, B))
    U[:, apart] = 0.0
    h = np.diag(A)[:, None] + l2 + np.einsum("mb,mkb->kb", c, U**2)
    h[9, 0] = 0.0  # rests
    rest = np.zeros((k, B))
    rest[12] = 1e6  # violates by too little

    found, point, t = s.copy(), y.copy(), np.zeros((M, B))
    delta = np.full((last - first, B), np.nan)
    moved = descend_panel(
        G, Y, apart, first, found, point, h, l1, l2, U, t, c, rest, delta,
        *panel_room(last - first, B, m),
    )  # fmt: skip
    assert moved

    wanted = y.copy()
    for b in range(B):
        for i in range(first, last):
            if h[i, b] == 0.0 or rest[i, b] > 0:
                continue
            slope = _slope(A, U, c, s, wanted, y, i, b) + l2[i, b] * (wanted[i] - y[i])[b]
            z = h[i, b] * wanted[i, b] - slope
            wanted[i, b] = np.sign(z) * max(abs(z) - l1[i, b], 0.0) / h[i, b]
    np.testing.assert_allclose(point, wanted, atol=1e-12)
    np.testing.assert_allclose(delta, (wanted - y)[first:last], atol=1e-12)
    d = wanted - y
    slopes = s + A @ d + l2 * d  # what the low-rank terms add is told by t
    np.testing.assert_allclose(found[first:last], slopes[first:last], atol=1e-11)
    np.testing.assert_array_equal(np.delete(found, np.s_[first:last], 0),
                                  np.delete(s, np.s_[first:last], 0))  # fmt: skip
    np.testing.assert_allclose(t, np.einsum("mkb,kb->mb", U, d), atol=1e-12)


def test_a_panel_at_its_minimum_does_not_move(rng):
    G, y = np.eye(4), np.zeros((4, 3))
    s, one, none = rng.uniform(-1, 1, (4, 3)), np.ones((4, 3)), np.zeros((4, 3))
    U, c, delta = np.zeros((0, 4, 3)), np.zeros((0, 3)), np.full((4, 3), np.nan)
    before = s.copy()
    assert not descend_panel(
        G, np.zeros((0, 4)), np.zeros(4, bool), 0, s, y, one, one, none, U, c, c, none, delta,
        *panel_room(4, 3, 0),
    )  # fmt: skip
    assert not y.any()
    assert not delta.any()
    np.testing.assert_array_equal(s, before)
