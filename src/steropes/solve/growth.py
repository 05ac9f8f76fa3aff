"""Which columns join the working set, and which leave it.

Columns join by urgency, the size of their slope in units of λ, and no more at once than a share
of those that are there: of correlated columns many look urgent until the first of them have moved.
"""

from __future__ import annotations

import numpy as np

from ..backends.tall_reductions import row_any

__all__ = ["idle", "most_urgent"]

ADD_AT_ONCE = 500  # columns that may join in one round,
AT_ONCE = 1.25  # or so many for each one that is there
STAYS = 0.9  # of λ: the slope with which a column whose coefficient is zero stays
WORTH = 0.25  # share of the working set that must be idle for the rows to be made again


def most_urgent(urgency: np.ndarray, k: int) -> np.ndarray:
    """The columns with the largest urgency (p,), of those where it is positive, ascending.

    Parameters
    ----------
    k : int
        Columns in the working set.
    """
    wanted = np.flatnonzero(urgency > 0)
    limit = max(ADD_AT_ONCE, int(AT_ONCE * k))
    if len(wanted) > limit:
        wanted = wanted[np.argsort(-urgency[wanted], kind="stable")[:limit]]
    return np.sort(wanted)


def idle(beta: np.ndarray, g: np.ndarray, l1: np.ndarray, l2: np.ndarray) -> np.ndarray | None:
    """Places of a working set that are worth keeping, or None where that is nearly all.

    Parameters
    ----------
    beta, g, l1, l2 : (k, B) arrays
        Coefficients, gradient of the loss and penalties of the working set's columns.
    """
    stays = (beta != 0) | (l1 == 0) | (np.abs(g + l2 * beta) > STAYS * l1)
    kept = np.flatnonzero(row_any(stays))
    return kept if len(kept) < (1 - WORTH) * len(beta) else None
