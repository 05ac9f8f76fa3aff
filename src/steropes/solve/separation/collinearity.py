"""Columns that are linear combinations of others, from their information matrix."""

from __future__ import annotations

import numpy as np
from scipy import linalg

from .separation_constants import SEPARATION

__all__ = ["COLLINEAR", "collinear_columns"]

# A column is collinear if others leave less than this share of its information unexplained.
COLLINEAR = 1e-10


def collinear_columns(C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the redundant columns and those of which they are combinations.

    Parameters
    ----------
    C : (k, k) array
        Information with a unit diagonal. It is not modified.
    """
    # Of columns that are alike the first is kept, which rounding would decide otherwise.
    size = 1.0 - SEPARATION.first_preference * np.arange(len(C)) / len(C)
    # The pivots of LAPACK's Cholesky factor count from one.
    _, pivot, rank, _ = linalg.lapack.dpstrf(C * size * size[:, None], tol=COLLINEAR, lower=1)
    redundant, kept = pivot[rank:] - 1, pivot[:rank] - 1
    if not len(redundant):
        return redundant, redundant
    share = linalg.lstsq(C[np.ix_(kept, kept)], C[np.ix_(kept, redundant)])[0]
    return redundant, kept[np.abs(share).max(axis=1) > SEPARATION.partner_coefficient]
