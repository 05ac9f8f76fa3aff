"""Hessians with nuisance parameters eliminated: S = V − C' T⁻¹ C, V = X' diag(v) X, C = H_αη X.

If T is a chain, C is never stored: its rows are computed, eliminated and multiplied a few thousand
at a time. Otherwise T couples distant parameters and C is stored as a dense matrix.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import linalg

from ...backends.backend_interface import Array
from ...backends.cpu.likelihoods import tridiagonal_threshold_kernels
from ...backends.thread_pool import ThreadPool, balanced_chunks
from ...design_matrix.design_interfaces import ColumnsByRows, RowsLike
from ...likelihoods.hessian_structures import ProfiledCurvature
from ...likelihoods.nuisance_hessian import Chain
from ..work_sizes import SIZES
from .symmetric_fill import fill_symmetric

__all__ = ["MIN_EIGENVALUE", "cross", "diagonal", "hessian", "pooled_groups"]

# A matrix with a unit diagonal is positive definite if no eigenvalue is below this.
MIN_EIGENVALUE = 1e-10


def hessian(rows: RowsLike, curvature: ProfiledCurvature, first: int = 0) -> Array:
    """Compute the Hessian; see `steropes.solve.hessian`.

    All rows are computed where the loss is not convex.
    """
    if rows.k == 0:
        return np.zeros((0, 0))
    if curvature.safer is None:
        return _hessian(rows, curvature, first)
    S = _hessian(rows, curvature, 0)
    if _positive(S):
        return S
    S = _hessian(rows, curvature.safer(), 0)
    S[np.diag_indices(rows.k)] *= 1 + MIN_EIGENVALUE
    return S


def diagonal(rows: RowsLike, curvature: ProfiledCurvature) -> Array:
    """See `steropes.solve.hessian`."""
    h = rows.diagonal(curvature.v)
    block = curvature.block
    if rows.k == 0:
        return h
    if not isinstance(block, Chain):
        C = cross(rows, curvature)
        return h - (C * block.solve(C)).sum(axis=0)
    for Z in _eliminated(rows, curvature, block):
        h = h - np.einsum("ij,ij->j", Z, Z)
    return h


def cross(rows: RowsLike, curvature: ProfiledCurvature) -> np.ndarray:
    """Compute C, (K, k)."""
    if isinstance(curvature.block, Chain):
        out = np.empty((curvature.block.K, rows.k))
        _fill(rows, curvature, _numbers(curvature), 0, curvature.block.K, out)
        return out
    return _scattered(rows, curvature)


def _positive(S: np.ndarray) -> bool:
    """Return whether a matrix is positive definite beyond rounding."""
    h = np.diag(S)
    if not (h > 0).all():
        return False
    root = np.sqrt(h)
    return bool(
        linalg.eigvalsh(S / root / root[:, None], subset_by_index=[0, 0])[0] > MIN_EIGENVALUE
    )


def _hessian(rows: RowsLike, curvature: ProfiledCurvature, first: int) -> np.ndarray:
    """Compute S for a given curvature, without checking whether it is positive."""
    block = curvature.block
    S = _gram(rows, curvature.v, first)
    if not isinstance(block, Chain):
        C = cross(rows, curvature)
        S[:, first:] -= C.T @ block.solve(C[:, first:])
    else:
        pooled = _pooled(rows, curvature, block) if curvature.coarse else None
        if pooled is not None:
            S[:, first:] -= pooled.T @ pooled[:, first:]
        else:
            ones = np.ones(max(64, SIZES.cross_entries // rows.k))
            for Z in _eliminated(rows, curvature, block):
                if first:
                    S[:, first:] -= Z.T @ Z[:, first:]
                else:
                    S -= _weighted_gram(Z, ones[: len(Z)], rows.backend.pool)
    corner = S[first:, first:]
    S[first:, first:] = 0.5 * (corner + corner.T)
    S[first:, :first] = S[:first, first:].T
    return S


# -- V: the Gram matrix --------------------------------------------------------------------------


def _gram(rows: RowsLike, v: np.ndarray, first: int) -> np.ndarray:
    """Compute V, at least its rows from ``first`` on."""
    if rows.lines is not None or rows.dense is None or first:
        return fill_symmetric(rows.gram(v, first), first)
    return _weighted_gram(rows.dense, v, rows.backend.pool)


def _weighted_gram(X: np.ndarray, v: np.ndarray, pool: ThreadPool) -> np.ndarray:
    """Compute X' diag(v) X, summed in an order independent of the number of threads."""
    n, k = X.shape
    G = np.zeros((k, k))
    step = (
        max(256, -(-n // 16))
        if k <= SIZES.cached_gram_columns
        else max(256, SIZES.gram_entries // k)
    )

    def part(i0: int, i1: int) -> np.ndarray:
        """Compute the sum over rows i0 … i1 − 1."""
        if k > SIZES.cached_gram_columns:
            return (X[i0:i1] * v[i0:i1, None]).T @ X[i0:i1]
        g = np.zeros((k, k))
        tridiagonal_threshold_kernels.gram_dense(X, v, g, i0, i1)
        return g

    for g in pool.map(part, [(i, min(i + step, n)) for i in range(0, n, step)]):
        G += g
    return np.tril(G) + np.tril(G, -1).T


# -- C: cross derivatives ------------------------------------------------------------------------


def _numbers(curvature: ProfiledCurvature) -> np.ndarray:
    """Return the model's rows to which the curvature refers."""
    return np.arange(len(curvature.v)) if curvature.rows is None else curvature.rows


def _fill(
    rows: RowsLike, curvature: ProfiledCurvature, at: np.ndarray, k0: int, k1: int, out: np.ndarray
) -> None:
    """Fill ``out`` with C[k0:k1] of a chain."""
    out[:] = 0.0
    pointers, u, w = curvature.pointers, curvature.a, curvature.b
    assert pointers is not None
    if elsewhere(rows):
        out -= _sums_elsewhere(rows, curvature, at, pointers[k0 : k1 + 2])
        return
    whole = rows.lines is None

    def part(a: int, b: int) -> None:
        """Fill the rows a … b − 1 of ``out``."""
        a, b = a + k0, b + k0
        here = out[a - k0 : b - k0]
        if rows.dense is not None:
            D = here if whole else np.zeros((b - a, rows.dense.shape[1]))
            tridiagonal_threshold_kernels.cross_dense(rows.dense, at, u, w, pointers, a, b, D)
            if not whole:
                here[:, rows.dense_at] = D
        if rows.lines is not None:
            x = rows.lines
            tridiagonal_threshold_kernels.cross_lines(
                x.starts, x.ends, x.indices, x.data, at, u, w, pointers, a, b, here
            )

    entries = int(pointers[k1] - pointers[k0]) * rows.k
    rows.backend.pool.map(part, balanced_chunks(pointers[k0 : k1 + 1], 4), entries)


def elsewhere(rows: ColumnsByRows) -> bool:
    """Return whether the entries are held elsewhere, so that only sums are available."""
    return rows.lines is None and rows.layout == "rows" and rows.dense is None


def _sums_elsewhere(
    rows: RowsLike, curvature: ProfiledCurvature, at: np.ndarray, runs: np.ndarray
) -> np.ndarray:
    """Request −C of the parameters with runs that begin at ``runs``, except the last two.

    A parameter's rows are its own run and the next one, which are adjacent.
    """
    first, own, both = runs[:-2], np.diff(runs[:-1]), runs[2:] - runs[:-2]
    pointers = np.concatenate([[0], np.cumsum(both)])
    place = np.arange(pointers[-1]) - np.repeat(pointers[:-1], both)
    row = place + np.repeat(first, both)
    u = np.where(place < np.repeat(own, both), curvature.a[row], curvature.b[row])
    return rows.sums(u, pointers, at[row])


def _eliminated(rows: RowsLike, curvature: ProfiledCurvature, block: Chain) -> Iterator[np.ndarray]:
    """Yield D^(−1/2) L⁻¹ C for T = L D L', some rows at a time, in a reused array."""
    size = max(64, SIZES.cross_entries // rows.k)
    store, carry = np.empty((min(size, block.K), rows.k)), np.zeros(rows.k)
    at = _numbers(curvature)
    for k0 in range(0, block.K, size):
        Z = store[: min(size, block.K - k0)]
        _fill(rows, curvature, at, k0, k0 + len(Z), Z)
        tridiagonal_threshold_kernels.eliminate(Z, block.W, block.d, carry, k0)
        yield Z


def pooled_groups(rows: ColumnsByRows, K: int) -> int:
    """Return as how many groups a chain of K parameters is eliminated in a coarse Hessian."""
    if elsewhere(rows):  # Each group takes k numbers to send.
        return K if 2 * SIZES.parameter_groups >= K else SIZES.parameter_groups
    return (
        K
        if rows.lines is None
        or rows.k < SIZES.min_pooled_columns
        or SIZES.min_pooled_parameters >= K
        else SIZES.parameter_groups
    )


def _pooled(rows: RowsLike, curvature: ProfiledCurvature, block: Chain) -> np.ndarray | None:
    """Eliminate neighbouring parameters as one: some hundred rows instead of K.

    This is far cheaper where X is sparse, because eliminated rows are dense. Returns None where it
    saves nothing or is not possible.
    """
    pointers, at = curvature.pointers, curvature.rows
    if pooled_groups(rows, block.K) == block.K or pointers is None:
        return None
    if not (block.W[1:] > 0).all() or (at is not None and not (np.diff(at) > 0).all()):
        return None
    # Finer towards the ends, where α is steep.
    place = 0.5 - 0.5 * np.cos(np.pi * np.arange(SIZES.parameter_groups) / SIZES.parameter_groups)
    first = np.unique((place * block.K).astype(np.int64))
    u, d = np.add.reduceat(block.u, first), np.empty(len(first))
    edges = np.append(first, block.K)
    # Links from the middle of one group to the next combine like springs in series. Each sum is
    # computed by itself, because stiff springs would be lost in a running sum.
    middle = (edges[:-1] + edges[1:] - 1) // 2
    slack = (1.0 / block.W[1:])[: middle[-1]]
    W = np.concatenate([[0.0], 1.0 / np.add.reduceat(slack, middle[:-1])])
    if not tridiagonal_threshold_kernels.factor(u, W, d):
        return None
    a, b = curvature.a, curvature.b
    if at is not None:
        a, b = np.zeros(rows.n), np.zeros(rows.n)
        a[at], b[at] = curvature.a, curvature.b
        pointers = np.append(at, rows.n)[pointers]  # Rows in between have no weight.
    Z = -rows.sums(a, pointers[edges]) - rows.sums(b, pointers[edges + 1])
    tridiagonal_threshold_kernels.eliminate(Z, W, d, np.zeros(rows.k), 0)
    return Z


def _scattered(rows: RowsLike, curvature: ProfiledCurvature) -> np.ndarray:
    """Compute C where the rows are not ordered by parameter."""
    K, at = curvature.block.K, _numbers(curvature)
    out = np.zeros((K, rows.k))
    for parameter, x in ((curvature.up, curvature.a), (curvature.low, curvature.b)):
        by = np.argsort(parameter, kind="stable")
        pointers = np.searchsorted(parameter[by], np.arange(K + 1))
        out -= rows.sums(x[by], pointers, at[by])
    return out
