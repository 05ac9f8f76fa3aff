"""The variance at which a path begins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import linalg

from ..errors import DataError
from ..priors import INFINITE_PENALTY
from .path_tuning import DEFAULT

__all__ = ["first_variance", "own_information"]

# A remainder below this share of a column's curvature is rounding error.
CURVATURE_ROUNDING = 1e-9


def first_variance(
    l1: np.ndarray,
    l2: np.ndarray,
    gradient: Callable[[np.ndarray], np.ndarray],
    information: Callable[[np.ndarray], np.ndarray],
) -> float:
    """Return the variance at which the first penalised coefficient leaves zero, or nearly so.

    It follows from ratios of a column's data to its penalty. It depends neither on the storage of X
    nor on the unit of a column, if its variance has the same unit.

    Parameters
    ----------
    l1, l2 : (p,) arrays
        λ and κ at variance one.
    gradient : callable
        Takes λ (p,), infinite for all columns with a penalty, fits the others, and returns the
        gradient of the loss there, (p,), in the units of λ.
    information : callable
        Takes numbers of columns and returns the curvature of the loss along each at that fit, with
        the columns without penalty eliminated, in the units of κ.
    """
    penalised = (l1 > 0) | (l2 > 0)
    if not penalised.any():
        raise DataError("Every column is excluded from the prior; there is nothing to choose.")
    g = np.abs(gradient(np.where(penalised, INFINITE_PENALTY, 0.0)))
    if (l1 > 0).any():
        largest = float((g[l1 > 0] / l1[l1 > 0]).max())
        # λ is proportional to variance^(−1/2). The path starts one step beyond the threshold.
        return DEFAULT.step_ratio / largest**2 if largest > 0 else 1.0
    columns = np.flatnonzero(penalised)
    columns = columns[
        np.unique(np.linspace(0, len(columns) - 1, DEFAULT.start_columns).astype(int))
    ]
    ratio = information(columns) / l2[columns]
    return DEFAULT.ridge_start / float(np.median(ratio[ratio > 0])) if (ratio > 0).any() else 1.0


def own_information(
    H: np.ndarray, free: np.ndarray, at: np.ndarray, whole: np.ndarray | None = None
) -> np.ndarray:
    """Return a Hessian's diagonal at some places, with the columns at ``free`` eliminated.

    Remainders at the level of rounding are zero, relative to the diagonal or to ``whole``, its
    value before terms that may cancel it were subtracted.
    """
    h = np.diag(H)[at].copy()
    if len(free):
        cross = H[np.ix_(free, at)]
        h -= (cross * linalg.lstsq(H[np.ix_(free, free)], cross)[0]).sum(axis=0)
    whole = np.diag(H)[at] if whole is None else whole
    return np.where(h > CURVATURE_ROUNDING * whole, h, 0.0)
