"""Cardinality matching: the largest subsets of both groups whose means are within tolerances."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp

from steropes.errors import DataError

__all__ = ["cardinality_matching"]


def cardinality_matching(
    x: NDArray, target: NDArray, tolerance: NDArray, ratio: int = 1
) -> tuple[NDArray, float]:
    """Select as many people as possible such that the groups have nearly equal means.

    Parameters
    ----------
    x : ndarray, shape (n, p)
        Covariates.
    target : ndarray of bool, shape (n,)
    tolerance : ndarray, shape (p,)
        Largest absolute differences of means.
    ratio : int
        Number of comparator people per target person.

    Returns
    -------
    ndarray of bool, shape (n,)
        Who is selected.
    float
        Relative gap between the size of the selection and the proven largest one.

    References
    ----------
    Zubizarreta, Paredes and Rosenbaum (2014), Annals of Applied Statistics 8:204–231.
    """
    spread = np.where(tolerance > 0, tolerance, 1.0)
    z = (x - x[target].mean(axis=0)) / spread  # so that all limits are one, or zero
    limit = (tolerance > 0).astype(float)
    # With m target people selected: |Σ_T z − Σ_C z / ratio| ≤ m limit.
    difference = np.where(target[:, None], z, -z / ratio)
    upper = difference - np.where(target[:, None], limit, 0.0)
    lower = -difference - np.where(target[:, None], limit, 0.0)
    sizes = np.where(target, float(ratio), -1.0)
    A = sp.csr_array(np.vstack([upper.T, lower.T, sizes]))
    most = np.concatenate([np.zeros(2 * x.shape[1]), [0.0]])
    least = np.concatenate([np.full(2 * x.shape[1], -np.inf), [0.0]])
    result = milp(
        -np.where(target, 1.0, 0.0),
        integrality=np.ones(len(x)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(A, least, most),
        options={"mip_rel_gap": 0.0},
    )
    if result.x is None:
        raise DataError(f"Cardinality matching found no selection: {result.message}")
    chosen = result.x > 0.5
    if not chosen.any():
        raise DataError(
            "No people of both groups have means within the tolerance. Raise tolerance, or leave "
            "out covariates."
        )
    return chosen, float(result.mip_gap or 0.0)
