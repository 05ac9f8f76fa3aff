"""The choice of columns that join the working set.

Those with the largest slopes in units of λ join first, and no more at once than a share of the
working set: of many correlated columns that seem urgent, most no longer are once the first ones
have moved.
"""

from __future__ import annotations

import numpy as np

from ..solver_constants import WorkingSetPolicy

__all__ = ["most_urgent"]


def most_urgent(urgency: np.ndarray, k: int, policy: WorkingSetPolicy) -> np.ndarray:
    """Return the columns with the largest positive urgency (p,), ascending.

    Parameters
    ----------
    k : int
        Size of the working set.
    """
    wanted = np.flatnonzero(urgency > 0)
    limit = max(policy.min_batch, int(policy.batch_share * k))
    if len(wanted) > limit:
        wanted = wanted[np.argsort(-urgency[wanted], kind="stable")[:limit]]
    return np.sort(wanted)
