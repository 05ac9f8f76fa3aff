"""Row weights of replicates, which a device receives as bytes where they are whole multiples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...backends.backend_interface import Array, Backend

__all__ = ["RowMultiples", "weights_of_rows", "weights_on_device"]


@dataclass(frozen=True, eq=False)
class RowMultiples:
    """Row weights that are common weights times whole numbers, such as those of folds.

    Attributes
    ----------
    weights : (n,) array
        The common weights.
    times : (B, n) array
        Of bytes if no number is larger than 255. Each replicate's numbers are contiguous, as they
        are computed one after another; a device transposes them.
    """

    weights: np.ndarray
    times: np.ndarray


def weights_of_rows(weights: np.ndarray | RowMultiples) -> np.ndarray:
    """Return row weights as an array of the host, (n, B)."""
    if isinstance(weights, RowMultiples):
        return np.ascontiguousarray((weights.weights * weights.times).T)
    return np.asarray(weights, np.float64)


def weights_on_device(
    weights: np.ndarray | RowMultiples, order: np.ndarray | None, B: int, backend: Backend
) -> Array:
    """Transfer row weights, (n, B) or (n, 1), and sort them on the device, (rows, B)."""
    if isinstance(weights, RowMultiples):
        times = backend.xp.ascontiguousarray(backend.asarray(weights.times).T)
        w = backend.asarray(weights.weights[:, None]) * times
    else:
        w = backend.asarray(np.asarray(weights, np.float64))
    w = w if order is None else w[order]
    return w if w.shape[1] == B else w + backend.xp.zeros((1, B))
