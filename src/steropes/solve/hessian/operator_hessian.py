"""Hessians from products of H_η with directions, some columns at a time."""

from __future__ import annotations

import numpy as np

from ...backends.backend_interface import Array
from ...design_matrix.design_interfaces import ColumnsByRows
from ...likelihoods.curvature_kinds import OperatorCurvature

__all__ = ["diagonal", "hessian"]

# At least this many columns are processed at once.
MIN_DIRECTIONS = 8
# More columns are processed at once as long as their rows have at most this many numbers.
MAX_DIRECTION_ENTRIES = 1 << 21


def hessian(rows: ColumnsByRows, curvature: OperatorCurvature, first: int = 0) -> Array:
    """See `steropes.solve.hessian`."""
    backend, k = rows.backend, rows.k
    G = np.zeros((k, k))
    most = min(k - first, MAX_DIRECTION_ENTRIES // max(rows.n, 1))
    width = MIN_DIRECTIONS * max(1, -(-most // MIN_DIRECTIONS))
    for a in range(first, k, width):
        b = min(a + width, k)
        D = np.zeros((k, width))
        D[np.arange(a, b), np.arange(b - a)] = 1.0
        T = np.ascontiguousarray(backend.to_host(rows.matmul(backend.asarray(D))))
        J = curvature.product(T)
        G[:, a:b] = backend.to_host(rows.rmatmul(backend.asarray(J)))[:, : b - a]
    G[first:, :first] = G[:first, first:].T
    corner = G[first:, first:]
    G[first:, first:] = 0.5 * (corner + corner.T)
    return backend.asarray(G)


def diagonal(rows: ColumnsByRows, curvature: OperatorCurvature) -> Array:
    """See `steropes.solve.hessian`; as expensive as the whole matrix."""
    return rows.backend.xp.diag(hessian(rows, curvature))
