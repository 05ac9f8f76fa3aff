"""Curvature added to a quadratic model where it cannot tell how far to go."""

from __future__ import annotations

import numpy as np

from .certificate import violations

__all__ = ["damping"]


def damping(
    h: np.ndarray, g: np.ndarray, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray, reach: float,
    damp: np.ndarray,
) -> np.ndarray | None:  # fmt: skip
    """Curvature to add so that no coefficient goes further than the model can tell.

    A rare column may have hardly any curvature, or none, where it stands: with the rows of a
    fold its ones can be gone, and exp may have underflowed. Alone it would step by its violation
    over its curvature; under an l1 penalty that is held to ``reach``. Near the optimum there is
    no violation and nothing is added. A replicate whose step failed to descend is damped in all
    coordinates (Levenberg 1944, Marquardt 1963).

    Parameters
    ----------
    h, g, beta, l1, l2 : (k, B) or (k,) arrays
        Curvature and gradient of the loss, coefficients, penalties.
    reach : float
        See `Likelihood.reach`.
    damp : (B,) array or number
        Damping of each replicate, relative to its curvature.

    Returns
    -------
    array like h, or None where nothing is added
    """
    curve = h + l2
    mu = damp * np.maximum(curve, 0.0)
    if l1.any():
        mu = np.maximum(mu, violations(g, beta, l1, l2) / reach - curve)
    return mu if (mu > 0).any() else None
