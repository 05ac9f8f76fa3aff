"""A site's answers for shared risk sets, for a single fit or for several folds."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from ..errors import DataError
from .federated_plan import FederatedPlan
from .messages import Message
from .pooled_censoring import PooledCensoring
from .pooled_risk_sets import HeldOut, HessianWeights
from .site_risk_set_sums import SiteRiskSets
from .site_rows import SiteRows
from .site_sums import pack_lower

__all__ = ["risk_set_arrays"]

AT_POINTS = ("S", "E", "linear")
OF_FITS = ("S1", "E1", "covariates", "count", "weight")


def risk_set_arrays(
    rows: SiteRows, plan: FederatedPlan, request: Message, times: np.ndarray, points: np.ndarray,
    center: np.ndarray, columns: np.ndarray,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Compute the sums of a request by name, in the columns' own units, as the protocol defines.

    Parameters
    ----------
    times : (T,) array
    points : (m, p) array
    center : (p,) array
    columns : (k,) int array
    """
    sets = SiteRiskSets(rows, times, center, _censoring(plan, request))
    T = len(times)
    firsts = request.numbers("firsts", 0, len(points))
    if not len(firsts) or firsts[0] or (np.diff(firsts) < 1).any():
        raise DataError("the request's 'firsts' must be ascending from 0")
    folds = np.full(len(firsts), -1)
    if rows.held_out is not None:
        folds = request.numbers("folds", -1, rows.held_out.shape[1])
        if len(folds) != len(firsts):
            raise DataError("the request's 'folds' must be as many as its 'firsts'")
    known = request.numbers("hessians", 0, len(firsts)).tolist()
    a = request.array("a", (len(known), T)) if known else np.empty((0, T))
    b = request.array("b", (len(known), T)) if known else np.empty((0, T))
    found = []
    for h, own in enumerate(np.split(points, firsts[1:])):
        at = known.index(h) if h in known else -1
        shares = None if at < 0 else HessianWeights(a[at], b[at])
        found.append(sets.sums(own, shares, columns, int(folds[h])))
    arrays = {name: np.concatenate([getattr(s, name) for s in found]) for name in AT_POINTS}
    arrays |= {name: np.array([getattr(s, name) for s in found]) for name in OF_FITS}
    if known:
        arrays["second"] = np.array([pack_lower(s.second) for s in found if s.second is not None])
    if rows.held_out is None:
        return arrays
    none = HeldOut(np.zeros(T), np.zeros(T), np.array(0.0), np.zeros(T), np.zeros(T))
    held = [s.held_out or none for s in found]
    return arrays | {
        f"held_{f.name}": np.array([getattr(h, f.name) for h in held]) for f in fields(HeldOut)
    }


def _censoring(plan: FederatedPlan, request: Message) -> PooledCensoring | None:
    """Read the censoring distribution from a request; None if the model needs none."""
    if not plan.planned.has_competing_events:
        return None
    times = request.arrays.get("censoring_times")
    if times is None or times.ndim != 1:
        raise DataError("the request has no array 'censoring_times'")
    shape = (1 + 2 * plan.folds * plan.repeats, len(times))
    return PooledCensoring(np.asarray(times, float), request.array("censoring", shape))
