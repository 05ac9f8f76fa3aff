"""Sums of the columns over risk sets, from local rows of X and the likelihood's grouping."""

from __future__ import annotations

import numpy as np

from ....backends.protocols import Array
from ....design.protocols import PieceLike
from ....likelihoods.shard_risk_sets import ShardRiskSets, ShardWeights
from ..working_set import WorkingColumns

__all__ = ["moments"]


def moments(
    part: ShardRiskSets, active: WorkingColumns, r: Array, weights: ShardWeights,
    chosen: np.ndarray, apart: bool,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Compute ``at_risk`` and, with ``apart``, ``tied``: sums of r x at some groups, (F, k) each.

    Parameters
    ----------
    r : (n, 1) array
    chosen : (F,) int array
        Groups, ascending.
    """
    rows, u = active.rows, r[:, 0]
    if rows.layout == "rows":
        N, E = part.moments(rows.sums, rows.k, u, weights, chosen)
    else:
        assert rows.layout == "pieces"  # No other model over time has risk sets.
        N, E = _by_interval(part, rows, u, weights, chosen)
    if apart:
        assert E is not None  # Families that separate tied events return both.
        return {"at_risk": N, "tied": E}
    return {"at_risk": N if E is None else N + E}


def _by_interval(
    part: ShardRiskSets, rows: PieceLike, u: Array, weights: ShardWeights, chosen: np.ndarray
) -> tuple[Array, Array]:
    """Compute the sums of columns that act in some intervals of time; see `PieceLike`."""
    assert part.rows.interval is not None
    of = part.rows.interval[part.rows.groups.stratum[chosen]]
    N, E = np.zeros((2, len(chosen), rows.k))
    for q, (pieces, X, at, columns, _, factors) in enumerate(rows.intervals()):
        here = np.flatnonzero(of == q)
        if len(here) and pieces.stop > pieces.start:
            n, e = part.moments(X.sums, X.k, u[pieces], weights, chosen[here], pieces)
            assert e is not None
            own = 1.0 if factors is None else factors
            N[np.ix_(here, at)], E[np.ix_(here, at)] = n[:, columns] * own, e[:, columns] * own
    return N, E
