"""Hessians with risk sets that people with a competing event do not leave (Fine and Gray 1999).

The sum of a group is that of the people at risk plus G times a running sum over time. Groups are
processed some at a time, so the running sum starts from its value at the end of those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...backends.backend_interface import Array
from ...design_matrix.design_interfaces import RowsLike
from ...likelihoods.hessian_structures import SubdistributionCurvature
from ..work_sizes import SIZES
from .grouped_hessian import group_sums

__all__ = ["diagonal", "hessian"]


def hessian(rows: RowsLike, curvature: SubdistributionCurvature, first: int = 0) -> Array:
    """See `steropes.solve.hessian`."""
    H = rows.gram(curvature.v, first)
    for M, c in _group_sums(rows, curvature):
        H[first:] -= (M[:, first:] * rows.backend.asarray(c)[:, None]).T @ M
    return H


def diagonal(rows: RowsLike, curvature: SubdistributionCurvature) -> Array:
    """See `steropes.solve.hessian`."""
    h = rows.diagonal(curvature.v)
    for M, c in _group_sums(rows, curvature):
        h -= rows.backend.asarray(c) @ M**2
    return rows.backend.xp.maximum(h, 0.0)


def _group_sums(
    rows: RowsLike, curvature: SubdistributionCurvature
) -> Iterator[tuple[Array, np.ndarray]]:
    """Yield the sums m of some groups at a time, with their weights."""
    asarray, batch = rows.backend.asarray, max(1, SIZES.group_sums // max(1, rows.k))
    curvature = replace(
        curvature, u=asarray(curvature.u), late=asarray(curvature.late), G=asarray(curvature.G)
    )
    n = len(curvature.ends)
    cuts = [(a, min(a + batch, n)) for a in range(0, n, batch)]
    after = _after(rows, curvature, np.array([b - 1 for _, b in cuts], np.int64))
    at_risk = group_sums(rows, curvature.at_risk, batch)
    for (a, b), rest, (M, c) in zip(cuts, after, at_risk, strict=True):
        yield M + curvature.G[a:b, None] * _stayed(rows, curvature, a, b, rest), c


def _after(rows: RowsLike, curvature: SubdistributionCurvature, at: np.ndarray) -> Array:
    """Sum late · x over the stratum's rows after the end of some groups, (len(at), k)."""
    if len(at) == 0:
        return []
    stratum, own = curvature.stratum[at], curvature.ends[at]
    ends = curvature.strata_start[stratum + 1]
    # Sums between the chosen ends, and from the last end in a stratum to the end of the stratum.
    follow = np.append(own[1:], len(curvature.late))
    stop = np.minimum(ends, follow)
    pointers = np.append(np.stack([own, stop], 1).ravel(), stop[-1:])
    parts = rows.sums(curvature.late, pointers)[::2]
    return rows.backend.scan(parts, _starts(stratum), True)


def _stayed(
    rows: RowsLike, curvature: SubdistributionCurvature, a: int, b: int, rest: Array
) -> Array:
    """Sum late · x before the times of the groups a … b; ``rest`` is the sum of the last group."""
    ends, stratum = curvature.ends[a:b], curvature.stratum[a:b]
    starts = _starts(stratum)
    closing = starts[1:-1] - 1
    stop = np.append(ends[1:], ends[-1:])
    stop[closing] = curvature.strata_start[stratum[closing] + 1]
    pointers = np.append(np.stack([ends, stop], 1).ravel(), stop[-1:])
    down = rows.sums(curvature.late, pointers)[::2]
    down[-1] = rest
    return rows.backend.scan(down, starts, True)


def _starts(stratum: np.ndarray) -> np.ndarray:
    """Return where runs of equal strata begin, and the end."""
    return np.append(np.flatnonzero(np.diff(stratum, prepend=-1)), len(stratum))
