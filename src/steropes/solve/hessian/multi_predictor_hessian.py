"""Hessians with several linear predictors per person and a baseline that all share.

The block for each pair of channels is a Gram matrix of X. The block between a channel and the
baseline involves n · K numbers, which exist for one multiplication only.
"""

from __future__ import annotations

import numpy as np

from ...backends.backend_interface import Array
from ...backends.cpu.likelihoods import pooled_logistic_kernels as pooled
from ...backends.thread_pool import balanced_chunks
from ...design_matrix.design_interfaces import ChannelLike
from ...likelihoods.hessian_structures import ChannelCurvature
from ..work_sizes import SIZES
from .symmetric_fill import fill_symmetric

__all__ = ["hessian"]


def hessian(rows: ChannelLike, curvature: ChannelCurvature, first: int = 0) -> Array:
    """See `steropes.solve.hessian`."""
    if rows.has_rest:
        return rows.fold(_hessian(rows.extended(), curvature, first))
    return _hessian(rows, curvature, first)


def _hessian(rows: ChannelLike, curvature: ChannelCurvature, first: int) -> Array:
    """Compute the Hessian channel pair by channel pair."""
    H = rows.backend.xp.zeros((rows.k, rows.k))
    B, at_base = rows.baseline, rows.baseline_at
    H[np.ix_(at_base, at_base)] = B.T @ (curvature.at_time[:, None] * B)
    for c, (at_c, columns_c) in enumerate(rows.places):
        if len(at_c) == 0:
            continue
        for d in range(c, len(rows.places) if curvature.coupled else c + 1):
            at_d, columns_d = rows.places[d]
            new = np.concatenate([columns_c[at_c >= first], columns_d[at_d >= first]])
            if len(at_d) == 0 or len(new) == 0:
                continue
            begin = int(new.min())
            G = fill_symmetric(rows.X.gram(curvature.pair(c, d), begin), begin)
            if _is_run(at_c) and c == d and np.array_equal(columns_c, np.arange(len(G))):
                run = slice(at_c[0], at_c[-1] + 1)  # Avoids a copy.
                H[run, run] = G
                continue
            part = G[np.ix_(columns_c, columns_d)]
            del G
            H[np.ix_(at_c, at_d)] = part
            H[np.ix_(at_d, at_c)] = part.T
        if len(at_base) and max(at_c.max(), at_base.max()) >= first:
            cross = _with_baseline(rows, curvature, c)[columns_c]
            H[np.ix_(at_c, at_base)] = cross
            H[np.ix_(at_base, at_c)] = cross.T
    return H


def _with_baseline_on_device(rows: ChannelLike, at: ChannelCurvature, c: int) -> Array:
    """Compute the result of `_with_baseline` from the inner sums of all people."""
    assert at.variances is not None
    xp, factors = rows.backend.xp, rows.baseline
    if c:
        factors = rows.backend.asarray(at.functions[:, c - 1 : c]) * factors
    S = xp.zeros((len(at.w), factors.shape[1]))
    for people, v in at.variances():
        S[people] = v @ factors
    return rows.X.rmatmul(S)


def _with_baseline(rows: ChannelLike, curvature: ChannelCurvature, c: int) -> Array:
    """Compute Σ_i x_i Σ_k f_c(k) v_ik B_k', (columns of X, M), for some people at a time."""
    if not rows.backend.on_host:
        return _with_baseline_on_device(rows, curvature, c)
    at, B, X = curvature, rows.baseline, rows.X
    # With one intercept for each interval the inner sum has one term each. A person contributes
    # only to the intervals in which they are at risk.
    free = B.shape[0] == B.shape[1] and np.array_equal(B, np.diag(np.diag(B)))
    M = len(B) if free else B.shape[1]
    basis = np.empty((0, M)) if free else B
    n = len(at.first)
    at_risk = at.first, at.last, at.w, at.interval_weights
    if X.lines is None and X.dense is None and X.k:  # Rows held elsewhere.
        width = rows.backend.lanes(M)  # The width that products require.
        S = np.zeros((n, width))
        s = np.empty((SIZES.people_at_once, M))
        for i0 in range(0, n, SIZES.people_at_once):
            i1 = min(i0 + SIZES.people_at_once, n)
            own = s[: i1 - i0]
            pooled.moments(at.h, at.base, at.functions, basis, *at_risk, c, own, i0, i1)
            S[i0:i1, :M] = own
        parts = [X.rmatmul(S[:, m : m + 8]) for m in range(0, width, 8)]
        total = np.concatenate(parts, axis=1)[:, :M]
        return total * np.diag(B) if free else total

    def part(a: int, b: int) -> np.ndarray:
        S = np.empty((min(SIZES.people_at_once, b - a), M))
        out = np.zeros((X.k, M))
        sparse = np.zeros((X.k, M))
        for i0 in range(a, b, SIZES.people_at_once):
            i1 = min(i0 + SIZES.people_at_once, b)
            s = S[: i1 - i0]
            pooled.moments(at.h, at.base, at.functions, basis, *at_risk, c, s, i0, i1)
            if X.lines is not None:
                lo, hi = (at.first, at.last) if free else (zero, full)
                x = X.lines
                pooled.scatter_range(x.starts, x.ends, x.indices, x.data, s, lo, hi, sparse, i0, i1)
            if X.dense is not None:
                out[X.dense_at] += X.dense[i0:i1].T @ s
        out += sparse
        return out

    zero = np.zeros(0 if free else n, np.int32)
    full = np.full(0 if free else n, M, np.int32)
    work = np.zeros(n + 1, np.int64)
    np.cumsum(at.last - at.first + 1, out=work[1:])
    parts = rows.backend.pool.map(
        part, balanced_chunks(work, SIZES.people_partial_sums), 8 * int(work[-1])
    )
    total = sum(parts, np.zeros((X.k, M)))
    return total * np.diag(B) if free else total


def _is_run(at: np.ndarray) -> bool:
    """Return whether places are consecutive."""
    return bool((np.diff(at) == 1).all())
