"""Hessians of effects that are step functions of time, summed over intervals.

No group of rows extends over two intervals, so each interval has its own curvature.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...backends.backend_interface import Array
from ...design_matrix.design_interfaces import PieceLike, RowsLike
from ...likelihoods.hessian_structures import GroupedCurvature
from . import grouped_hessian
from .symmetric_fill import fill_symmetric

__all__ = ["diagonal", "hessian"]


def hessian(rows: PieceLike, curvature: GroupedCurvature, first: int = 0) -> Array:
    """See `steropes.solve.hessian`."""
    G = rows.backend.xp.zeros((rows.k, rows.k))
    for X, part, at, columns, begin, factors in _parts(rows, curvature, first):
        H = fill_symmetric(grouped_hessian.hessian(X, part, begin), begin)
        own = H[np.ix_(columns, columns)]
        G[np.ix_(at, at)] += own if factors is None else own * factors * factors[:, None]
    return G


def diagonal(rows: PieceLike, curvature: GroupedCurvature) -> Array:
    """See `steropes.solve.hessian`."""
    h = rows.backend.xp.zeros(rows.k)
    for X, part, at, columns, _, factors in _parts(rows, curvature, 0):
        own = grouped_hessian.diagonal(X, part)[columns]
        h[at] += own if factors is None else own * factors**2
    return h


def _parts(
    rows: PieceLike, curvature: GroupedCurvature, first: int
) -> Iterator[tuple[RowsLike, GroupedCurvature, np.ndarray, np.ndarray, int, np.ndarray | None]]:
    """Yield each interval's rows and curvature, and the places and factors of its columns."""
    if curvature.u is None:  # Only the diagonal.
        for pieces, X, at, columns, begin, factors in rows.intervals(first):
            yield X, GroupedCurvature(curvature.v[pieces]), at, columns, begin, factors
        return
    n = len(curvature.v)
    lines = np.arange(n) if curvature.rows is None else curvature.rows
    for pieces, X, at, columns, begin, factors in rows.intervals(first):
        # Lines are ordered by interval, but not by row within an interval.
        a, b = (int((lines < edge).sum()) for edge in (pieces.start, pieces.stop))
        inside = (curvature.runs >= a) & (curvature.runs <= b)
        part = GroupedCurvature(
            curvature.v[pieces], curvature.u[a:b], curvature.runs[inside] - a, curvature.c[a:b],
            None if curvature.rows is None else curvature.rows[a:b] - pieces.start,
        )  # fmt: skip
        if b > a:
            yield X, part, at, columns, begin, factors
