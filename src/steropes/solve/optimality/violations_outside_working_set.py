"""Violations of the optimality conditions by columns outside of the working set."""

from __future__ import annotations

import numpy as np

from ...backends.array_namespace import array_namespace
from ...backends.backend_interface import Array
from ...backends.elementwise_row_blocks import ENTRIES_AT_ONCE
from ...backends.reductions_of_tall_arrays import column_max, row_max

__all__ = ["outside_violations"]


def outside_violations(g: Array, l1: Array, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute the violations of columns with coefficients of zero.

    Parameters
    ----------
    g, l1 : (p, B) arrays
        Gradients of the loss and λ.
    inside : (p,) bool array
        Columns of the working set, which are left out.

    Returns
    -------
    (p,) array
        The largest violation of each column, in units of λ, or of 1 without λ; zero inside. (The
        units of `certificate.units` also depend on curvature; these serve only to rank columns.)
    (B,) array
        The largest violation of each replicate.
    """
    xp, (p, B) = array_namespace(g), g.shape
    by_column, by_replicate = np.zeros(p), np.zeros(B)
    step = max(1, ENTRIES_AT_ONCE // B) if isinstance(g, np.ndarray) else p
    for a in range(0, p, step):
        at = slice(a, a + step)
        size = l1[at]
        v = xp.abs(g[at])
        v -= size
        v /= xp.where(size > 0, size, 1.0)
        v[inside[at]] = 0.0
        by_column[at] = np.maximum(row_max(v), 0.0)
        np.maximum(by_replicate, column_max(v), out=by_replicate)
    return by_column, by_replicate
