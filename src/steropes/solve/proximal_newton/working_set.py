"""The columns that join the working set.

Columns join by urgency, the size of their slope in units of λ, and no more at once than a share
of those that are there: of correlated columns many look urgent until the first of them have moved.
"""

from __future__ import annotations

import numpy as np

from ..solver_policy import WorkingSetPolicy

__all__ = ["most_urgent"]


def most_urgent(urgency: np.ndarray, k: int, policy: WorkingSetPolicy) -> np.ndarray:
    """The columns with the largest urgency (p,), of those where it is positive, ascending.

    Parameters
    ----------
    k : int
        Columns in the working set.
    policy : WorkingSetPolicy
    """
    wanted = np.flatnonzero(urgency > 0)
    limit = max(policy.min_batch, int(policy.batch_share * k))
    if len(wanted) > limit:
        wanted = wanted[np.argsort(-urgency[wanted], kind="stable")[:limit]]
    return np.sort(wanted)
