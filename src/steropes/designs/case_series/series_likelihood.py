"""The likelihood of a case series by rows: its value, its gradient, and single columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steropes.designs.case_series.interval_rows import Intervals

__all__ = ["column_of", "log_likelihood"]


def column_of(d: Intervals, j: int) -> NDArray:
    """Return a column as an array."""
    p = d.X.shape[1]
    if j >= p:
        return d.splines.column(j - p)
    out = np.zeros(len(d))
    out[d.X.indices[d.X.indptr[j] : d.X.indptr[j + 1]]] = 1.0
    return out


def log_likelihood(d: Intervals, beta: NDArray) -> tuple[float, NDArray]:
    """Compute Σ y log[t exp(x'β) / Σ t exp(x'β)], with sums within cases, and its gradient."""
    p = d.X.shape[1]
    eta = d.X @ beta[:p] + d.splines.matmul(beta[p:])
    starts = np.flatnonzero(np.diff(d.case, prepend=-1))
    if len(starts) == 0:
        return 0.0, np.zeros(len(beta))
    sizes = np.diff(np.append(starts, len(d)))
    top = np.maximum.reduceat(eta, starts)
    mass = d.days * np.exp(eta - np.repeat(top, sizes))
    sums = np.add.reduceat(mass, starts)
    n = np.add.reduceat(d.events, starts)
    value = float(d.events @ (eta + np.log(d.days)) - n @ (top + np.log(sums)))
    left = d.events - mass * np.repeat(n / sums, sizes)
    return value, np.concatenate([d.X.T @ left, d.splines.rmatmul(left)])
