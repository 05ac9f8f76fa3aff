"""A second opinion: another optimiser, and whether there is a maximum to find at all."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog, minimize

__all__ = ["kkt", "optimise", "separated", "smooth_optimum", "undetermined", "units"]

TINY = 1e-3  # of √H: a λ below that is no unit to count in


def units(l1, h):
    """λ of a column, or without one the standard error of its score."""
    root = np.sqrt(np.maximum(h, 0.0))
    out = np.where(l1 > 0, np.maximum(l1, TINY * root), root)
    return np.where(out > 0, out, 1.0)


def kkt(g, t, l1, l2):
    """Distance of zero from the subdifferential, for each coefficient."""
    slope = g + l2 * t
    return np.where(t != 0, np.abs(slope + l1 * np.sign(t)), np.maximum(np.abs(slope) - l1, 0.0))


def optimise(dense, columns=None, start=None, steps=300, tol=1e-11):
    """Proximal Newton with plain coordinate descent, from zero, in scaled and centred columns.

    Returns
    -------
    (θ, objective, largest KKT violation in units)
    """
    columns = np.arange(dense.P) if columns is None else columns
    t = dense.start() if start is None else start.copy()
    l1, l2 = dense.l1, dense.l2

    def objective(t):
        value = dense.value(t)
        return value + float(np.sum(l1 * np.abs(t)) + 0.5 * np.sum(l2 * t**2))

    here, damping, violation = objective(t), 0.0, np.inf
    for _ in range(steps):
        _, g, H = dense.derivatives(t)
        if g is None or not np.isfinite(H).all():
            break
        h = np.maximum(np.diag(H), 0.0) + l2
        violation = (kkt(g, t, l1, l2) / units(l1, h))[columns].max(initial=0.0)
        if violation < tol:
            break
        Q = _positive(H) + np.diag(l2 + damping * np.where(h > 0, h, 1.0))
        d = _model_step(Q[np.ix_(columns, columns)], g[columns], t[columns], l1[columns],
                        l2[columns])  # fmt: skip
        step = np.zeros_like(t)
        step[columns] = d
        size, moved = 1.0, False
        while size > 1e-9:
            there = objective(t + size * step)
            if there < here or (np.isfinite(there) and there <= here + 1e-13 * abs(here)):
                t, here, moved = t + size * step, there, True
                break
            size *= 0.5
        damping = damping * 0.1 if size == 1.0 else max(damping * 10, 1e-6)
        damping = 0.0 if damping < 1e-7 else damping
        if not moved and damping > 1e6:
            break
    return t, here, float(violation)


def _positive(H):
    """H, or where it is not convex (the Cauchy link) the same with eigenvalues' sizes."""
    value, V = np.linalg.eigh(H)
    if value[0] >= -1e-9 * value[-1]:
        return H
    return (V * np.maximum(np.abs(value), 1e-6 * np.abs(value).max())) @ V.T


def _model_step(Q, g, t, l1, l2):
    """Minimise g'd + ½ d'Qd + Σ λ|t + d| − …, by coordinate descent or, if smooth, a solve."""
    g = g + l2 * t
    if not l1.any():
        root = np.sqrt(np.where(np.diag(Q) > 0, np.diag(Q), 1.0))
        value, V = np.linalg.eigh(Q / root / root[:, None])
        value = np.maximum(value, 1e-13)
        return -(V @ ((V.T @ (g / root)) / value)) / root
    x, slope = t.copy(), g.copy()
    diagonal = np.maximum(np.diag(Q), max(1e-12 * np.diag(Q).max(initial=0.0), 1e-100))
    for sweep in range(2000):
        largest = 0.0
        for j in range(len(g)):
            at = x[j]
            z = diagonal[j] * at - slope[j]
            new = np.sign(z) * max(abs(z) - l1[j], 0.0) / diagonal[j]
            if new != at:
                slope += Q[:, j] * (new - at)
                largest = max(largest, abs(new - at) * np.sqrt(diagonal[j]))
                x[j] = new
        if largest < 1e-14 or (largest < 1e-11 and sweep > 100):
            break
    return x - t


def smooth_optimum(dense):
    """Objective that SciPy's L-BFGS reaches, where nothing has a corner."""

    def f(t):
        value, g, _ = dense.derivatives(t)
        if g is None:
            return 1e300, np.zeros(len(t))
        return value + 0.5 * np.sum(dense.l2 * t**2), g + dense.l2 * t

    options = {"maxiter": 3000, "maxfun": 6000, "ftol": 1e-15, "gtol": 1e-9}
    found = minimize(f, dense.start(), jac=True, method="L-BFGS-B", options=options)
    return float(found.fun)


def undetermined(dense):
    """Smallest eigenvalue of the correlations of free columns in the information at the start.

    At or below rounding (1e-12, say) the data do not tell these columns apart; 1 where no column
    is free of penalty.
    """
    free = np.flatnonzero((dense.l1 == 0) & (dense.l2 == 0))
    if len(free) == 0:
        return 1.0
    H = dense.told_apart()[np.ix_(free, free)]
    raw = np.diag(H)
    if (raw <= 1e-13 * dense.mass).any():
        return 0.0
    root = np.sqrt(raw)
    return float(np.linalg.eigvalsh(H / root / root[:, None])[0])


def separated(dense):
    """A direction of the free columns along which the likelihood never falls, or None.

    Linear programming: the largest Σ g'd over |d| ≤ 1 with g'd ≥ 0 for all rows g of
    `directions`; the likelihood has a finite maximum only where that is zero.
    """
    free = np.flatnonzero((dense.l1 == 0) & (dense.l2 == 0))
    if len(free) == 0:
        return None
    G, E = (x[:, free] for x in dense.directions())
    G = G[np.abs(G).max(axis=1, initial=0.0) > 1e-12]
    if len(G) == 0:
        return None
    size = np.abs(G).max(axis=1)
    G = G / size[:, None]
    E = E[np.abs(E).max(axis=1, initial=0.0) > 1e-12]
    bounds = [(-1, 1)] * len(free)
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(-G.sum(axis=0), A_ub=-G, b_ub=np.zeros(len(G)),
                    A_eq=E if len(E) else None, b_eq=np.zeros(len(E)) if len(E) else None,
                    bounds=bounds, options=options)  # fmt: skip
    if found.status != 0:
        return None
    d = np.zeros(dense.P)
    d[free] = found.x
    rises = (G @ found.x).max()
    return d if rises > 1e-6 else None
