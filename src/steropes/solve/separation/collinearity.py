"""Columns that are linear combinations of others, from their information matrix."""

from __future__ import annotations

import numpy as np
from scipy import linalg

__all__ = ["COLLINEAR", "collinear_columns"]

# A column is collinear if others leave less than this share of its information unexplained.
COLLINEAR = 1e-10
# Share of its information by which the first column counts more than the last.
FIRST = 1e-6
# A collinear column's partners have at least this coefficient, relative to their sizes.
PARTNER_COEFFICIENT = 1e-6


def collinear_columns(C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the redundant columns and those of which they are combinations.

    Parameters
    ----------
    C : (k, k) array
        Information with a unit diagonal. It is not modified.
    """
    # Of columns that are alike the first is kept, which rounding would decide otherwise.
    size = 1.0 - FIRST * np.arange(len(C)) / len(C)
    # The pivots of LAPACK's Cholesky factor count from one.
    _, pivot, rank, _ = linalg.lapack.dpstrf(C * size * size[:, None], tol=COLLINEAR, lower=1)
    redundant, kept = pivot[rank:] - 1, pivot[:rank] - 1
    if not len(redundant):
        return redundant, redundant
    share = linalg.lstsq(C[np.ix_(kept, kept)], C[np.ix_(kept, redundant)])[0]
    return redundant, kept[np.abs(share).max(axis=1) > PARTNER_COEFFICIENT]
