"""The precision lost by fitting splines with only a sample of the unexposed cases.

Cases without any exposure contribute to its estimate only through the splines, for which a sample
of ``spline_cases`` suffices. The information of the full data is that of the cases in the model,
with the part of the unexposed ones scaled up to all of them; the resulting variance of a
coefficient shows how much narrower its interval would be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.case_series.interval_rows import PROBE, Intervals

__all__ = ["Sampling", "sampling_cost"]

AT_ONCE = 200_000  # The number of rows per slice, to keep its dense columns small.
MOST_COLUMNS = 200  # Beyond this number of columns the information matrix is too expensive.


@dataclass(frozen=True)
class Sampling:
    """The cost of sampling the unexposed cases.

    Attributes
    ----------
    narrower : dict of str to float
        The relative reduction of each exposure of interest's interval width (on the log scale)
        with all cases; empty if unknown.
    """

    narrower: dict[str, float]

    def sentence(self) -> str:
        """Describe the sample and its cost."""
        sample = (
            "Unexposed cases only help to fit the splines; a sample of them is in the model "
            "(spline_cases)"
        )
        if not self.narrower:
            return f"{sample}; intervals are wider than with all of them."
        most = max(self.narrower.values())
        size = "less than 1%" if most < 0.01 else f"{100 * most:.0f}%"
        up_to = "up to " if len(self.narrower) > 1 else "about "
        up_to = "" if most < 0.01 else up_to
        return f"{sample}; with all of them the interval would be {up_to}{size} narrower."


def sampling_cost(intervals: Intervals, estimates: pd.DataFrame) -> Sampling | None:
    """Compute the cost of the sample; None if no case was left out.

    Parameters
    ----------
    estimates : DataFrame
        Estimates of the fitted model, indexed by covariate, with ``log_rr``.
    """
    if intervals.comparable is None:
        return None
    beta = estimates["log_rr"].reindex(intervals.names).to_numpy(float)
    free = np.array([not c.penalized for c in intervals.columns]) & np.isfinite(beta)
    chosen = np.flatnonzero(free)
    asked = [j for j in chosen.tolist() if intervals.columns[j].of_interest]
    exposed = _exposed(intervals)
    here = int((~exposed).sum())
    left_out = intervals.comparable[3] - intervals.attrition[3]
    if not asked or not here or len(chosen) > MOST_COLUMNS:
        return Sampling({})
    own, others = _information(intervals, np.where(np.isfinite(beta), beta, 0.0), chosen, exposed)
    full = own + others * (1 + left_out / here)
    try:
        now, all_of_them = (np.diag(np.linalg.inv(m)) for m in (own + others, full))
    except np.linalg.LinAlgError:
        return Sampling({})
    place = {j: k for k, j in enumerate(chosen.tolist())}
    narrower = {}
    for j in asked:
        a, b = float(now[place[j]]), float(all_of_them[place[j]])
        if a > 0 and b > 0:
            narrower[intervals.names[j]] = max(0.0, 1 - math.sqrt(b / a))
    return Sampling(narrower)


def _exposed(intervals: Intervals) -> NDArray:
    """Mark the cases of the model, in row order, with a day in any window."""
    starts = np.flatnonzero(np.diff(intervals.case, prepend=-1))
    number = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(intervals))))
    found = np.zeros(len(starts), bool)
    for j, name in enumerate(intervals.names[: intervals.X.shape[1]]):
        if name != PROBE:
            on = intervals.X.indices[intervals.X.indptr[j] : intervals.X.indptr[j + 1]]
            found[number[on]] = True
    return found


def _information(
    d: Intervals, beta: NDArray, chosen: NDArray, exposed: NDArray
) -> tuple[NDArray, NDArray]:
    """Sum Σ n [Z'ΠZ − (Z'π)(Z'π)'] over the exposed and over the unexposed cases."""
    p = d.X.shape[1]
    eta = d.X @ beta[:p] + d.splines.matmul(beta[p:])
    starts = np.flatnonzero(np.diff(d.case, prepend=-1))
    ends = np.append(starts[1:], len(d))
    found = [np.zeros((len(chosen), len(chosen))) for _ in range(2)]
    by_rows = d.X.tocsr()
    first = 0
    while first < len(starts):
        last = int(np.searchsorted(ends, starts[first] + AT_ONCE, side="right"))
        last = max(last, first + 1)
        rows = slice(starts[first], ends[last - 1])
        at = starts[first:last] - starts[first]
        sizes = ends[first:last] - starts[first:last]
        ones = by_rows[rows][:, chosen[chosen < p]].toarray().astype(float)
        z = np.hstack([ones, d.splines.dense(rows)[:, chosen[chosen >= p] - p]])
        top = np.maximum.reduceat(eta[rows], at)
        mass = d.days[rows] * np.exp(eta[rows] - np.repeat(top, sizes))
        share = mass / np.repeat(np.add.reduceat(mass, at), sizes)
        n = np.add.reduceat(d.events[rows], at).astype(float)
        weight = share * np.repeat(n, sizes)
        mean = np.add.reduceat(z * share[:, None], at, axis=0)
        for k, of in enumerate((exposed[first:last], ~exposed[first:last])):
            inside = np.repeat(of, sizes)
            found[k] += (z[inside] * weight[inside, None]).T @ z[inside]
            found[k] -= (mean[of] * n[of, None]).T @ mean[of]
        first = last
    return found[0], found[1]
