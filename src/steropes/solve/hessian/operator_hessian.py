"""Hessians from products of H_η with directions, some columns at a time."""

from __future__ import annotations

import numpy as np

from ...backends.backend_interface import Array
from ...design_matrix.design_interfaces import ColumnsByRows
from ...likelihoods.hessian_structures import OperatorCurvature
from ..work_sizes import SIZES

__all__ = ["diagonal", "hessian"]


def hessian(rows: ColumnsByRows, curvature: OperatorCurvature, first: int = 0) -> Array:
    """See `steropes.solve.hessian`."""
    backend, k = rows.backend, rows.k
    G = np.zeros((k, k))
    most = min(k - first, SIZES.direction_entries // max(rows.n, 1))
    width = SIZES.min_directions * max(1, -(-most // SIZES.min_directions))
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
