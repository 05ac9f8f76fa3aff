"""Wald statistics of several linear equations jointly, independent of the coefficients' units."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from .inference_constants import IDENTIFICATION

__all__ = ["wald_statistic"]


def wald_statistic(gap: np.ndarray, V: np.ndarray) -> tuple[float, int]:
    """Compute d'V⁻¹d for estimates d with covariance matrix V, and the rank of V.

    The matrix is scaled to correlations first, so that neither the units of the coefficients nor
    the size of the equations affect whether it counts as singular.

    Parameters
    ----------
    gap : (r,) array
        The difference between the two sides of each equation.
    V : (r, r) array
        Covariance matrix of ``gap``, with a positive diagonal.

    Returns
    -------
    statistic : float
        If the rank is below r, the statistic of as many equations, chosen in decreasing order of
        the variance that remains given those already chosen.
    rank : int
    """
    size = np.sqrt(np.diag(V))
    C, d = V / size / size[:, None], gap / size
    L, pivot, rank, _ = linalg.lapack.dpstrf(C, tol=IDENTIFICATION.singular_share, lower=1)
    if not np.isfinite(d).all():  # the difference overflows
        return np.inf, int(rank)
    first = pivot[:rank] - 1
    root = linalg.solve_triangular(np.tril(L[:rank, :rank]), d[first], lower=True)
    return float(root @ root), int(rank)
