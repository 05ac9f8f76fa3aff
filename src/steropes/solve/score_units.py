"""Units of violations where the replicates are, not where their shared Hessian was taken.

Without λ a violation is counted in standard errors of the score. A replicate that a weak ridge
alone holds is far from the others, with much less curvature than they have: in their unit it
seems to be at its optimum long before it is.
"""

from __future__ import annotations

import numpy as np

from .certificate import informative
from .data_term import DataTerm

__all__ = ["smaller", "variances_here"]


def variances_here(term: DataTerm) -> np.ndarray:
    """Variances of the scores of the working set where each replicate stands, (k, lanes)."""
    here = np.zeros((len(term.W), term.lanes))
    for b in range(term.B):
        at = term.curvature(b)
        assert at is not None  # it is of all rows
        here[:, b] = informative(at.diagonal(), at.uncentred())
    return here * term.dispersion


def smaller(known: np.ndarray, here: np.ndarray | None) -> np.ndarray:
    """The smaller of two variances, (k, lanes), where both are known."""
    if here is None or here.shape != known.shape:
        return known
    return np.where(here > 0, np.minimum(here, known), known)
