"""Hessians from products of H_η with directions, some columns at a time."""

from __future__ import annotations

import numpy as np

from ...backends.protocols import Array
from ...design.protocols import AnyRows
from ...likelihoods.curvature import OperatorCurvature

__all__ = ["diagonal", "hessian"]

DIRECTIONS = 8  # Least number of columns processed at once.
MORE = 1 << 21  # Numbers in the rows of as many columns as are processed at once.


def hessian(rows: AnyRows, curvature: OperatorCurvature, first: int = 0) -> Array:
    """See `steropes.solve.hessian`."""
    backend, k = rows.backend, rows.k
    G = np.zeros((k, k))
    most = min(k - first, MORE // max(rows.n, 1))
    width = DIRECTIONS * max(1, -(-most // DIRECTIONS))
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


def diagonal(rows: AnyRows, curvature: OperatorCurvature) -> Array:
    """See `steropes.solve.hessian`; as expensive as the whole matrix."""
    return rows.backend.xp.diag(hessian(rows, curvature))
