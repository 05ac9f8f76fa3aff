"""Wald statistics of several equations together, whatever units the coefficients have."""

from __future__ import annotations

import numpy as np
from scipy import linalg

__all__ = ["wald_statistic"]

# Share of the variance of one equation's estimate that the other equations must leave it. Below
# this rounding in the covariance matrix decides.
SINGULAR = 1e-12


def wald_statistic(gap: np.ndarray, V: np.ndarray) -> tuple[float, int]:
    """Compute d'V⁻¹d of estimates d with covariance matrix V, and the rank of V.

    The matrix is judged and inverted as a matrix of correlations, so that neither the units of
    the coefficients nor the size of the equations decide what counts as singular.

    Parameters
    ----------
    gap : (r,) array
        How far each equation is from holding.
    V : (r, r) array
        Covariance matrix of ``gap``, with a positive diagonal.

    Returns
    -------
    statistic : float
        Where the rank is below r, the statistic of as many equations, the ones with most
        variance of their own first.
    rank : int
    """
    size = np.sqrt(np.diag(V))
    C, d = V / size / size[:, None], gap / size
    L, pivot, rank, _ = linalg.lapack.dpstrf(C, tol=SINGULAR, lower=1)
    if not np.isfinite(d).all():  # further than a number can hold
        return np.inf, int(rank)
    first = pivot[:rank] - 1
    root = linalg.solve_triangular(np.tril(L[:rank, :rank]), d[first], lower=True)
    return float(root @ root), int(rank)
