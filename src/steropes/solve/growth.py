"""The columns that join the working set.

Columns join by urgency, the size of their slope in units of λ, and no more at once than a share
of those that are there: of correlated columns many look urgent until the first of them have moved.
"""

from __future__ import annotations

import numpy as np

__all__ = ["most_urgent"]

ADD_AT_ONCE = 500  # columns that may join in one round,
AT_ONCE = 1.25  # or so many for each one that is there


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
