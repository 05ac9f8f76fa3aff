"""Units in which violations of the optimality conditions are measured, for each replicate.

Without λ, a violation is counted in standard errors of the score. A replicate held back only by a
weak ridge can be far from the others and have much less curvature. In the others' unit it would
seem to be at its optimum long before it is.
"""

from __future__ import annotations

import numpy as np

from ...backends.array_namespace import array_namespace
from ...backends.backend_interface import Array
from ..data_term import DataTerm
from ..optimality.optimality_certificate import floored_curvature

__all__ = ["local_score_variances", "smaller_variances"]


def local_score_variances(term: DataTerm) -> Array:
    """Compute variances of the scores of the working set at each replicate's point, (k, lanes)."""
    here = np.zeros((len(term.W), term.lanes))
    for b in range(term.B):
        at = term.curvature(b)
        assert at is not None  # Never None for all rows.
        here[:, b] = floored_curvature(at.diagonal(), at.uncentred())
    return term.asarray(here * term.dispersion)


def smaller_variances(known: Array, here: Array | None) -> Array:
    """Return the smaller of two variances, (k, lanes), or ``known`` if ``here`` is out of date."""
    if here is None or here.shape != known.shape:
        return known
    xp = array_namespace(known)
    return xp.where(here > 0, xp.minimum(here, known), known)
