"""A site's answer where risk sets hold people of all sites: for one fit, or one a fold."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from ..errors import DataError
from .censoring import CensoringOfAll
from .plan import FederatedPlan
from .protocol import Message
from .risk_set_sums import SiteRiskSets
from .risk_sets import HeldOut, RiskSums, Shares
from .rows import SiteRows
from .site_sums import packed

__all__ = ["risk_set_arrays"]

AT_POINTS = ("S", "E", "linear")
OF_FITS = ("S1", "E1", "covariates", "count", "weight")


def risk_set_arrays(
    rows: SiteRows, plan: FederatedPlan, request: Message, times: np.ndarray, points: np.ndarray,
    center: np.ndarray, columns: np.ndarray,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Sums of a request's points, by name; see the protocol.

    Parameters
    ----------
    times : (T,) array
    points : (m, p) array
    center : (p,) array
    columns : (k,) int array
    """
    sets = SiteRiskSets(rows, times, center, _censoring(plan, request))
    T = len(times)
    if rows.held_out is None:
        shares = None
        if "a" in request.arrays:
            shares = Shares(request.array("a", (T,)), request.array("b", (T,)))
        return _of_one(sets.sums(points, shares, columns))
    firsts = request.numbers("firsts", 0, len(points))
    folds = request.numbers("folds", -1, rows.held_out.shape[1])
    if not len(firsts) or len(folds) != len(firsts) or firsts[0] or (np.diff(firsts) < 1).any():
        raise DataError("the request's 'firsts' must be ascending from 0, and its 'folds' as many")
    known = request.numbers("hessians", 0, len(firsts)).tolist()
    shape = (len(known), T)
    a = request.array("a", shape) if known else np.empty(shape)
    b = request.array("b", shape) if known else np.empty(shape)
    found = []
    for h, own in enumerate(np.split(points, firsts[1:])):
        at = known.index(h) if h in known else -1
        shares = None if at < 0 else Shares(a[at], b[at])
        found.append(sets.sums(own, shares, columns, int(folds[h])))
    return _of_several(found, T)


def _censoring(plan: FederatedPlan, request: Message) -> CensoringOfAll | None:
    if plan.model != "fine_gray":
        return None
    times = request.arrays.get("censoring_times")
    if times is None or times.ndim != 1:
        raise DataError("the request has no array 'censoring_times'")
    shape = (1 + 2 * plan.folds * plan.repeats, len(times))
    return CensoringOfAll(np.asarray(times, float), request.array("censoring", shape))


def _of_one(sums: RiskSums) -> dict[str, np.ndarray]:
    arrays = {name: getattr(sums, name) for name in (*AT_POINTS, *OF_FITS)}
    if sums.second is not None:
        arrays["second"] = packed(sums.second)
    return arrays


def _of_several(found: list[RiskSums], T: int) -> dict[str, np.ndarray]:
    """The same with an axis of fits, and with sums over the rows that each leaves out."""
    arrays = {name: np.concatenate([getattr(s, name) for s in found]) for name in AT_POINTS}
    arrays |= {name: np.array([getattr(s, name) for s in found]) for name in OF_FITS}
    seconds = [packed(s.second) for s in found if s.second is not None]
    if seconds:
        arrays["second"] = np.array(seconds)
    none = HeldOut(np.zeros(T), np.zeros(T), np.array(0.0), np.zeros(T), np.zeros(T))
    held = [s.held_out or none for s in found]
    return arrays | {
        f"held_{f.name}": np.array([getattr(h, f.name) for h in held]) for f in fields(HeldOut)
    }
