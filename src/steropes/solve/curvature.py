"""From a likelihood's curvature in η to the Hessian of the active columns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..design import RowMatrix
from ..likelihoods import Curvature

__all__ = ["diagonal", "hessian"]

DENSE_SUMS = 2_000_000  # entries of the group sums that are held at once
PIECES = 8  # stripes of the Hessian


def hessian(rows: RowMatrix, curvature: Curvature, first: int = 0, rough: bool = False) -> Any:
    """X' diag(v) X − Σ_g c_g m_g m_g' for the active columns, (k, k).

    Parameters
    ----------
    first : int
        Only the rows and columns from here on are needed (the rest is left undefined).
    rough : bool
        Whether it may be rounded to single precision.
    """
    if hasattr(curvature, "hessian"):  # a family whose curvature is of another form
        return curvature.hessian(rows, first)
    if hasattr(rows, "intervals"):  # effects that are step functions of time
        return _by_interval(rows, curvature, first)
    backend = rows.backend
    G = rows.gram(curvature.v, first, rough)
    if curvature.u is None:
        return G
    # Sums over lines are the device's work; which lines end a group is read on the host.
    curvature = replace(curvature, u=backend.asarray(curvature.u), c=backend.to_host(curvature.c))
    if not curvature.c.any():
        return G
    lines = rows.n if curvature.rows is None else len(curvature.rows)
    runs = len(curvature.runs) - 1
    # Small groups touch few columns: their sums are kept sparse. Large ones go to BLAS, whose
    # multiply-adds are some twenty times cheaper.
    if rows.lines is not None and rows.lines.nnz / max(rows.n, 1) * lines / runs < 0.2 * rows.k:
        _subtract_sparse(rows, curvature, G)
        return G
    batch = max(1, DENSE_SUMS // max(1, rows.k))
    for M, c in _group_sums(rows, curvature, batch):
        _subtract(G, M, backend.asarray(c), first, backend)
    if first:
        G[:first, first:] = G[first:, :first].T
    return G


def diagonal(rows: RowMatrix, curvature: Curvature) -> Any:
    """The diagonal of `hessian`, (k,), in one pass over the rows."""
    own: Any = curvature
    if hasattr(own, "hessian"):  # as above, it brings its own diagonal too
        return own.diagonal(rows)
    if hasattr(rows, "intervals"):
        h = rows.backend.xp.zeros(rows.k)
        for X, part, at, columns, _ in _intervals(rows, curvature, 0):
            h[at] += diagonal(X, part)[columns]
        return h
    backend = rows.backend
    h = rows.diagonal(curvature.v)
    if curvature.u is None:
        return h
    curvature = replace(curvature, u=backend.asarray(curvature.u), c=backend.to_host(curvature.c))
    if curvature.c.any():
        batch = max(1, DENSE_SUMS // max(1, rows.k))
        for M, c in _group_sums(rows, curvature, batch):
            h -= (M**2).T @ backend.asarray(c)
    return rows.backend.xp.maximum(h, 0.0)


def _subtract(G, M, c, first, backend):
    """Take M' diag(c) M out of G's rows from ``first`` on, in stripes that go side by side."""
    k = len(G)
    cM = M * c[:, None]
    size = max(64, -(-(k - first) // PIECES))

    def stripe(a: int, b: int) -> None:
        G[a:b] -= cM[:, a:b].T @ M

    backend.pool.map(stripe, [(a, min(a + size, k)) for a in range(first, k, size)])


def _subtract_sparse(rows, curvature, G):
    """Take the groups' terms out of G without their dense sums over the sparse columns."""
    backend, xp = rows.backend, rows.backend.xp
    S, D, u = rows.sparse_at, rows.dense_at, curvature.u
    lines = rows.lines if curvature.rows is None else rows.lines.take(curvature.rows)
    part = xp.zeros(G.shape)
    backend.gram_groups(lines, u, curvature.runs, curvature.c != 0, curvature.c, part)
    part += xp.tril(part, -1).T
    G += part
    if len(D) == 0:
        return
    # The dense columns' sums up to each line; a line is in its run's groups from there on.
    Z = rows.dense if curvature.rows is None else rows.dense[curvature.rows]
    M = backend.scan(Z * u[:, None], curvature.runs)
    cM = M * backend.asarray(curvature.c)[:, None]
    G[np.ix_(D, D)] -= cM.T @ M
    padded = xp.zeros((len(cM), backend.lanes(len(D))))
    padded[:, : len(D)] = backend.scan(cM, curvature.runs, True) * u[:, None]
    cross = backend.scatter(lines, padded)[S, : len(D)]
    G[np.ix_(S, D)] -= cross
    G[np.ix_(D, S)] -= cross.T


def _by_interval(rows, curvature, first):
    """Sum the Hessians of the intervals of time; no group of rows reaches over two of them."""
    G = rows.backend.xp.zeros((rows.k, rows.k))
    for X, part, at, columns, begin in _intervals(rows, curvature, first):
        G[np.ix_(at, at)] += hessian(X, part, begin)[np.ix_(columns, columns)]
    return G


def _intervals(rows, curvature, first):
    """Yield each interval's rows and curvature, and where its columns go and come from."""
    n = len(curvature.v)
    lines = np.arange(n) if curvature.rows is None else curvature.rows
    for pieces, X, at, columns, begin in rows.intervals(first):
        # Lines are in order of the intervals, though not of the rows inside of them.
        a, b = (int((lines < edge).sum()) for edge in (pieces.start, pieces.stop))
        inside = (curvature.runs >= a) & (curvature.runs <= b)
        part = Curvature(
            curvature.v[pieces], curvature.u[a:b], curvature.runs[inside] - a, curvature.c[a:b],
            None if curvature.rows is None else curvature.rows[a:b] - pieces.start,
        )  # fmt: skip
        if b > a:
            yield X, part, at, columns, begin


def _group_sums(rows, curvature, batch):
    """Yield dense sums of the groups, (at most about ``batch``, k), with their weights."""
    ends = np.flatnonzero(curvature.c) + 1  # just after each flush
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
        else:  # lines between the groups are in none
            pointers = np.append(np.stack([begin, e], 1).ravel(), e[-1:])
            S = view.sums(curvature.u, pointers)[::2][: len(e)]
        if not new_run[0] and carried is not None:
            S[0] += carried
        starts = np.append(np.flatnonzero(np.append(True, run[1:] != run[:-1])), len(e))
        M = rows.backend.scan(S, starts)
        carried, carried_run = M[-1].copy(), run[-1]
        yield M, curvature.c[e - 1]


class _View:
    """The rows of a `RowMatrix` in the order of a stream of lines."""

    def __init__(self, rows: RowMatrix, lines) -> None:
        self.rows, self.lines = rows, lines

    def sums(self, u, pointers):
        if self.lines is None:
            return self.rows.sums(u, pointers)
        rows, xp = self.rows, self.rows.backend.xp
        if rows.lines is not None:
            out = rows.backend.line_sums(rows.lines.take(self.lines), u, pointers)
        else:
            out = xp.zeros((len(pointers) - 1, rows.k))
        if rows.dense is not None:
            out[:, rows.dense_at] = rows.backend.segment_sum(
                rows.dense[self.lines] * u[:, None], pointers
            )
        return out
