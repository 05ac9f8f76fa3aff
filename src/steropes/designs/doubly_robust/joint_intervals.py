"""The quantile of the largest of many correlated statistics, by multipliers of influences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steropes.designs.values.argument_checks import check_whole

__all__ = ["joint_quantile"]

# Multipliers of this many people and draws are generated at a time.
NUMBERS_AT_ONCE = 4_000_000


def joint_quantile(
    influence: NDArray, clusters: NDArray | None, level: float, draws: int, seed: int
) -> tuple[float, NDArray]:
    """Draw the largest of all |z| under normal multipliers.

    Parameters
    ----------
    influence : ndarray, shape (n, K)
    clusters : ndarray of int, shape (n,), or None
    level : float
        Level of the quantile.
    draws : int
    seed : int

    Returns
    -------
    quantile : float
    largest : ndarray, shape (draws,)
    """
    check_whole("draws", draws, 2)
    check_whole("random_state", seed, 0)
    if clusters is not None:
        summed = np.zeros((int(clusters.max()) + 1, influence.shape[1]))
        np.add.at(summed, clusters, influence)
        influence = summed
    size = np.sqrt((influence**2).sum(axis=0))
    rng, parts = np.random.default_rng(seed), []
    step = max(1, NUMBERS_AT_ONCE // max(1, len(influence)))
    for a in range(0, draws, step):
        xi = rng.standard_normal((min(step, draws - a), len(influence)))
        parts.append(np.abs(xi @ influence / size).max(axis=1))
    largest = np.concatenate(parts)
    return float(np.quantile(largest, level)), largest
