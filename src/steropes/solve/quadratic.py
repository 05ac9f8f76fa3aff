"""Minimise the quadratic models of replicates that share a Hessian.

Coordinate descent on the Gram matrix, restricted to the columns that can matter; a Cholesky solve
on the support where descent is slow, and alone where nothing is penalised in ℓ1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg

from ..backends.cpu.descent import LANES, descend, descend_lanes
from ..backends.threads import ThreadPool
from .certificate import violations

__all__ = ["minimize_models", "minimize_quadratic"]

SWEEPS = 60
FEW = 32  # columns without penalty that are eliminated before the descent
ROUNDS = 8
SLOW = 5.0  # tolerances from which a replicate among several is worth a Cholesky solve
NEAR = 0.9  # of λ: the slope from which a coefficient at zero is descended on from the start


def minimize_models(
    G: Any, sigma: Any, g: Any, beta: Any, l1: Any, l2: Any, unit: Any, tolerance: Any, pool: Any
) -> Any:
    """Return the steps d that minimise  g'd + ½ d'ΣGΣd + Σ l1|β+d| + ½ Σ l2 (β+d)².

    Parameters
    ----------
    G : (k, k) array
        Hessian, symmetric.
    sigma : (k, B) array
        Σ = diag(σ), by which each replicate's curvature differs from G.
    g : (k, B) array
        Gradient of the loss at β.
    beta, l1, l2 : (k, B) arrays
    unit : (k, B) array
        Size of one unit of violation for each coordinate (`certificate.units`).
    tolerance : (B,) array
        Largest violation of the model's optimality conditions, in units.
    pool : ThreadPool

    Returns
    -------
    (k, B) array
    """
    B = g.shape[1]
    D = np.zeros(g.shape)
    if not l1.any():
        everything = np.arange(len(g))
        q = g + l2 * beta
        steps = pool.map(
            lambda b: _solve(G, sigma[:, b], q[:, b], l2[:, b], everything),
            [(b,) for b in range(B)],
        )
        if all(step is not None for step in steps):
            return np.stack(steps, axis=1)
    free = ~(l1.any(axis=1) | l2.any(axis=1))
    if 0 < np.count_nonzero(free) <= FEW and not free.all():
        D_free = _without_free(G, sigma, g, beta, l1, l2, unit, tolerance, pool, free)
        if D_free is not None:
            return D_free
    live = ((beta != 0) | (l1 == 0) | (np.abs(g + l2 * beta) > NEAR * l1)).any(axis=1)
    for _ in range(ROUNDS):
        at = np.flatnonzero(live)
        some = len(at) < 0.8 * len(g)
        if len(at):
            H = G[np.ix_(at, at)] if some else G
            parts: list[Any] = [x[at] if some else x for x in (sigma, g, beta, l1, l2, unit, D)]
            d = _descend((H, *parts), tolerance, pool)
            if some:
                D[at] = d
            else:
                D = d
        # Small changes in a sweep are not enough: of thousands of correlated columns each moves
        # a little, and all the same way, for a long time.
        v = violations(g + sigma * (G @ (sigma * D)), beta + D, l1, l2) / unit
        bad = v.max(axis=0) > tolerance
        if not bad.any():
            break
        outside = (v > tolerance).any(axis=1) & ~live if some else np.zeros(1, bool)
        if outside.any():
            live |= outside
            continue
        slow = np.flatnonzero(v.max(axis=0) > SLOW * tolerance)
        if B > 1 and len(slow) == 0:
            break  # near enough for a step with a Hessian that is not the replicate's own
        _polish_all(G, sigma, g, beta, l1, l2, D, slow if B > 1 else np.flatnonzero(bad), pool)
    return D


def _without_free(G, sigma, g, beta, l1, l2, unit, tolerance, pool, free):
    """Eliminate the columns without penalty, descend on the others, and solve back.

    An intercept is correlated with every column that is not centred, which is what makes
    coordinate descent slow; without it, G is the Hessian of centred columns. The factors σ of the
    eliminated columns cancel in the Schur complement, so replicates still share it.
    """
    f, r = np.flatnonzero(free), np.flatnonzero(~free)
    try:
        factor = linalg.cho_factor(G[np.ix_(f, f)], check_finite=False)
    except linalg.LinAlgError:  # nearly flat among themselves: descent takes them as they are
        return None
    A = linalg.cho_solve(factor, G[np.ix_(f, r)], check_finite=False)
    schur = G[np.ix_(r, r)]
    schur -= G[np.ix_(r, f)] @ A
    pull = g[f] / sigma[f]
    D = np.zeros(g.shape)
    D[r] = minimize_models(
        schur, sigma[r], g[r] - sigma[r] * (A.T @ pull), beta[r], l1[r], l2[r], unit[r], tolerance,
        pool,
    )  # fmt: skip
    D[f] = -(linalg.cho_solve(factor, pull) + A @ (sigma[r] * D[r])) / sigma[f]
    return D


def _polish_all(G, sigma, g, beta, l1, l2, D, lanes, pool):
    pool.map(
        lambda b: _polish(G, sigma[:, b], g[:, b], beta[:, b], l1[:, b], l2[:, b], D[:, b]),
        [(b,) for b in lanes],
    )


def minimize_quadratic(
    G: Any, scale: float, g: Any, beta: Any, l1: Any, l2: Any, unit: Any, tolerance: float
) -> Any:
    """The same for one replicate with curvature ``scale`` G, all vectors (k,)."""
    sigma = np.full(len(g), np.sqrt(scale))
    step = minimize_models(
        G, sigma[:, None], g[:, None], beta[:, None], l1[:, None], l2[:, None], unit[:, None],
        np.array([tolerance]), ThreadPool(1),
    )  # fmt: skip
    return step[:, 0]


def _descend(model, tolerance, pool):
    """Sweeps for all replicates, in blocks of lanes; returns d (k, B)."""
    G, sigma, g, beta, l1, l2, unit, d = model
    B = g.shape[1]
    if B == 1 and (sigma == sigma[0]).all():
        columns = (np.ascontiguousarray(x[:, 0]) for x in (g, beta, l1, l2, unit))
        step = np.ascontiguousarray(d[:, 0])
        descend(G, float(sigma[0, 0] ** 2), *columns, step, float(tolerance[0]), SWEEPS)
        return step[:, None]
    out = np.empty(g.shape)

    def part(a: int, b: int) -> None:
        def block(x, fill):
            y = np.full((*x.shape[:-1], LANES), fill)
            y[..., : b - a] = x[..., a:b]
            return y

        step = block(d, 0.0)
        descend_lanes(
            G, block(sigma, 1.0), block(g, 0.0), block(beta, 0.0), block(l1, 1.0), block(l2, 0.0),
            block(unit, 1.0), step, block(tolerance, 1.0), SWEEPS,
        )  # fmt: skip
        out[:, a:b] = step[:, : b - a]

    pool.map(part, [(a, min(a + LANES, B)) for a in range(0, B, LANES)])
    return out


def _solve(G, sigma, q, l2, support):
    """Newton's step on some coordinates, or None where the matrix is not positive definite."""
    H = G[np.ix_(support, support)] if len(support) < len(G) else G.copy()
    some = sigma[support]
    H *= some
    H *= some[:, None]
    H[np.diag_indices(len(H))] += l2[support]
    size = np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
    H /= size
    H /= size[:, None]
    try:  # in place: H is symmetric, so its transpose is the column-major H that LAPACK wants
        factor = linalg.cho_factor(H.T, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        return None
    if np.diag(factor[0]).min() < 1e-7:  # nearly singular: its step would be noise
        return None
    return -linalg.cho_solve(factor, q[support] / size, check_finite=False) / size


def _polish(G, sigma, g, beta, l1, l2, d):
    """Jump to the minimum with today's signs, as far as no coefficient changes its sign.

    Coordinate descent is slow along correlated columns, which is where this jump is exact.
    """
    at = beta + d
    support = np.flatnonzero((at != 0) | (l1 == 0))
    if len(support) == 0:
        return
    sign = np.sign(at[support]) * l1[support]
    q = g + sigma * (G @ (sigma * d)) + l2 * at
    q[support] += sign
    step = _solve(G, sigma, q, l2, support)
    if step is None:
        return
    old = at[support]
    crossing = (old * (old + step) < 0) & (l1[support] > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        limits = np.where(crossing, -old / step, 1.0)
    t = float(limits.min(initial=1.0))
    d[support] += t * step
    stopped = crossing & (limits <= t)
    d[support[stopped]] = -beta[support[stopped]]  # exactly zero
