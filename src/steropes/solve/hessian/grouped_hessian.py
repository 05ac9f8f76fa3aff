"""Hessians with rank-one terms of nested groups of rows: X' diag(v) X − Σ_g c_g m_g m_g'."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from ...backends.backend_interface import Array, Backend
from ...design_matrix.design_interfaces import RowsLike
from ...likelihoods.hessian_structures import GroupedCurvature
from ..work_sizes import SIZES

__all__ = ["diagonal", "group_sums", "hessian"]


def hessian(
    rows: RowsLike, curvature: GroupedCurvature, first: int = 0, rough: bool = False
) -> Array:
    """See `steropes.solve.hessian`."""
    backend = rows.backend
    G = rows.gram(curvature.v, first, rough)
    if curvature.u is None:
        return G
    # Sums over lines run on the device; the ends of groups are read on the host.
    curvature = replace(curvature, u=backend.asarray(curvature.u), c=backend.to_host(curvature.c))
    if not curvature.c.any():
        return G
    lines = rows.n if curvature.rows is None else len(curvature.rows)
    runs = len(curvature.runs) - 1
    # Small groups touch few columns, so their sums are kept sparse. Large ones use BLAS, whose
    # multiply-adds are some twenty times cheaper.
    if rows.lines is not None and rows.lines.nnz / max(rows.n, 1) * lines / runs < 0.2 * rows.k:
        _subtract_sparse(rows, curvature, G, first)
        return G
    batch = max(1, SIZES.group_sums // max(1, rows.k))
    for M, c in group_sums(rows, curvature, batch):
        _subtract(G, M, backend.asarray(c), first, backend)
    return G


def diagonal(rows: RowsLike, curvature: GroupedCurvature) -> Array:
    """See `steropes.solve.hessian`."""
    backend = rows.backend
    h = rows.diagonal(curvature.v)
    if curvature.u is None:
        return h
    curvature = replace(curvature, u=backend.asarray(curvature.u), c=backend.to_host(curvature.c))
    if curvature.c.any():
        batch = max(1, SIZES.group_sums // max(1, rows.k))
        for M, c in group_sums(rows, curvature, batch):
            h -= (M**2).T @ backend.asarray(c)
    return rows.backend.xp.maximum(h, 0.0)


def _subtract(G: Array, M: Array, c: Array, first: int, backend: Backend) -> None:
    """Subtract M' diag(c) M from G's rows from ``first`` on, in parallel stripes."""
    k = len(G)
    cM = M * c[:, None]
    M, cM = (x.astype(G.dtype, copy=False) for x in (M, cM))  # In the precision of G.
    size = max(64, -(-(k - first) // SIZES.hessian_stripes))

    def stripe(a: int, b: int) -> None:
        G[a:b] -= cM[:, a:b].T @ M

    backend.pool.map(stripe, [(a, min(a + size, k)) for a in range(first, k, size)])


def _subtract_sparse(rows: RowsLike, curvature: GroupedCurvature, G: Array, first: int) -> None:
    """Subtract the groups' terms from G's rows from ``first`` on, without dense sums."""
    backend, xp = rows.backend, rows.backend.xp
    S, D, u = rows.sparse_at, rows.dense_at, curvature.u
    view = _View(rows, curvature.rows)
    lines = view.entries()
    part = xp.zeros(G.shape)
    backend.gram_groups(lines, u, curvature.runs, curvature.c != 0, curvature.c, part)
    part += xp.tril(part, -1).T
    G[first:] += part[first:]
    if len(D) == 0:
        return
    # Sums of the dense columns up to each line, which belongs to all later groups of its run.
    Z = view.dense()
    M = backend.scan(Z * u[:, None], curvature.runs)
    cM = M * backend.asarray(curvature.c)[:, None]
    late, late_dense = first <= S, first <= D
    G[np.ix_(D[late_dense], D)] -= (cM.T @ M)[late_dense]
    padded = xp.zeros((len(cM), backend.lanes(len(D))))
    padded[:, : len(D)] = backend.scan(cM, curvature.runs, True) * u[:, None]
    cross = backend.scatter(lines, padded)[S, : len(D)]
    G[np.ix_(S[late], D)] -= cross[late]
    G[np.ix_(D[late_dense], S)] -= cross.T[late_dense]


def group_sums(
    rows: RowsLike, curvature: GroupedCurvature, batch: int
) -> Iterator[tuple[Array, Array]]:
    """Yield dense sums of the groups, (at most about ``batch``, k), with their weights."""
    ends = np.flatnonzero(curvature.c) + 1  # Just after each group's last line.
    runs = curvature.runs
    view = _View(rows, curvature.rows)
    run_of_end = np.searchsorted(runs, ends, side="left") - 1
    carried, carried_run = None, -1
    for a in range(0, len(ends), batch):
        e, run = ends[a : a + batch], run_of_end[a : a + batch]
        previous = ends[a - 1] if a else 0
        new_run = np.append(True, run[1:] != run[:-1])
        if a and run[0] == carried_run:
            new_run[0] = False
        begin = np.where(new_run, runs[run], np.append(previous, e[:-1]))
        if np.array_equal(begin[1:], e[:-1]):
            S = view.sums(curvature.u, np.append(begin[:1], e))
        else:  # Lines between the groups belong to none.
            pointers = np.append(np.stack([begin, e], 1).ravel(), e[-1:])
            S = view.sums(curvature.u, pointers)[::2][: len(e)]
        if not new_run[0] and carried is not None:
            S[0] += carried
        starts = np.append(np.flatnonzero(np.append(True, run[1:] != run[:-1])), len(e))
        M = rows.backend.scan(S, starts)
        carried, carried_run = M[-1].copy(), run[-1]
        yield M, curvature.c[e - 1]


class _View:
    """Rows in the order of a sequence of lines, if there is one."""

    def __init__(self, rows: RowsLike, lines: np.ndarray | None) -> None:
        self.rows, self.lines = rows, lines

    def sums(self, u: Array, pointers: np.ndarray) -> Array:
        """Compute weighted sums of runs of lines."""
        return self.rows.sums(u, pointers, self.lines)

    def entries(self) -> Any:
        """Return the entries of the sparse columns, which must exist."""
        assert self.rows.lines is not None
        return self.rows.lines if self.lines is None else self.rows.lines.take(self.lines)

    def dense(self) -> Array:
        """Return the dense columns, which must exist."""
        assert self.rows.dense is not None
        return self.rows.dense if self.lines is None else self.rows.dense[self.lines]
