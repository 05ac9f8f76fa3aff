"""How far a point is from satisfying the optimality (KKT) conditions."""

from __future__ import annotations

import numpy as np

__all__ = ["units", "violations"]

FLOOR = 1e-3  # of √H: a λ so small against the data's curvature is no unit to count in


def units(l1: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The unit in which each column's violation is counted.

    λ_j for a column with a Laplace part, which makes the certificate comparable along a path;
    otherwise √(H_jj), the standard error of the score, so that a violation is the distance to
    the optimum in the coefficient's own standard errors. Both are free of the column's scale.
    """
    root = np.sqrt(np.maximum(h, 0.0))
    unit = np.where(l1 > 0, np.maximum(l1, FLOOR * root), root)
    return np.where(unit > 0, unit, 1.0)


def violations(g: np.ndarray, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray) -> np.ndarray:
    """Distance of zero from the subdifferential of the objective, for each coordinate.

    Parameters
    ----------
    g : array
        Gradient of the loss at β.
    """
    slope = g + l2 * beta
    return np.where(
        beta != 0, np.abs(slope + l1 * np.sign(beta)), np.maximum(np.abs(slope) - l1, 0.0)
    )
