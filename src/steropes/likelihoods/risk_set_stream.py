"""The rows of a Cox model in the order in which they join and leave the risk sets.

`GroupedCurvature` needs a stream of lines with running sums that equal the sums over the risk sets
at the flushes. Rows join as time runs backwards. With late entry they leave again and their terms
are subtracted; a sum is restarted from the rows at risk before the subtracted terms outweigh the
remaining ones so much that digits are lost.
"""

from __future__ import annotations

import numpy as np

from ..backends.cpu.segmented_sums import scan
from ..backends.protocols import Array
from .risk_sets import RiskSets

__all__ = ["lines_are_rows", "risk_set_lines"]

# The largest ratio of subtracted terms to the remaining sum, which limits the loss of digits.
LEFT = 1e3


def lines_are_rows(risk: RiskSets, nodes: list) -> bool:
    """Return whether the rows in their order are the lines, so that ``u`` is r itself."""
    return risk.b is None and len(nodes) == 1 and bool(np.all(nodes[0][0] == 1.0))


def risk_set_lines(
    risk: RiskSets, stratum: np.ndarray, r: Array, nodes: list, S: np.ndarray
) -> tuple[Array, np.ndarray, np.ndarray, np.ndarray | None]:
    """Build the lines of a `GroupedCurvature` from risk sets.

    Parameters
    ----------
    risk : RiskSets
        Risk sets of the rows.
    stratum : (n,) int array
        Stratum of each row.
    r : (n,) array
        Weight of each row in the sums; on the host unless `lines_are_rows`.
    nodes : list of ((m,) array, (m,) array)
        Pairs (f, c) with f ascending. At each group, the sum with a share f of the tied events is
        flushed with the weight c.
    S : (m,) array
        Sums of r over the risk sets including all tied events.

    Returns
    -------
    u, runs, c, rows
        As in `GroupedCurvature`.
    """
    n, ev, g = len(r), risk.event_rows, risk.group_of_event
    last = risk.event_start[1:] - 1
    if lines_are_rows(risk, nodes):
        c = np.zeros(n)
        c[ev[last]] = nodes[0][1]
        return r, risk.strata_start, c, None
    # In phase 0 of a group, rows join or leave. The tied events follow in as many parts as there
    # are nodes, with a flush after each, and finally the rest of them.
    is_event = np.zeros(n, bool)
    is_event[ev] = True
    joins = np.flatnonzero(~is_event if risk.b is None else ~is_event & (risk.a < risk.b))
    parts: list[tuple] = [(joins, risk.first_group(joins), 0, r[joins], None)]
    if risk.b is not None:
        leaves = np.flatnonzero((is_event | (risk.a < risk.b)) & (risk.b < risk.end))
        parts.append((leaves, risk.b[leaves], 0, -r[leaves], None))
    before = np.zeros(risk.m)
    for k, (f, c) in enumerate(nodes):
        flush = np.zeros(len(ev))
        flush[last] = c
        parts.append((ev, g, k + 1, r[ev] * (f - before)[g], flush))
        before = f
    if not np.all(before == 1.0):
        parts.append((ev, g, len(nodes) + 1, r[ev] * (1.0 - before)[g], None))
    rows = np.concatenate([x[0] for x in parts])
    group = np.concatenate([x[1] for x in parts])
    phase = np.concatenate([np.full(len(x[0]), x[2]) for x in parts])
    u = np.concatenate([x[3] for x in parts])
    c = np.concatenate([np.zeros(len(x[0])) if x[4] is None else x[4] for x in parts])
    # Groups are numbered across strata, so the end of one stratum is the start of the next.
    place = group + stratum[rows]
    by = np.argsort(place * (len(nodes) + 2) + phase, kind="stable")
    rows, u, c, group = rows[by], u[by], c[by], group[by]
    runs = np.searchsorted(stratum[rows], np.arange(len(risk.strata_start)))
    if risk.b is not None:
        u, runs, c, rows = _begin_anew(risk, is_event, r, S, u, runs, c, rows, group)
    return u, runs, c, rows


def _begin_anew(
    risk: RiskSets,
    is_event: np.ndarray,
    r: np.ndarray,
    S: np.ndarray,
    u: np.ndarray,
    runs: np.ndarray,
    c: np.ndarray,
    rows: np.ndarray,
    group: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Restart running sums where the subtracted terms outweigh the remaining sum."""
    # Each sum is computed from its own start, because a difference of longer sums would be
    # dominated by rounding if the earlier terms are much larger.
    leaves = np.where(u < 0, -u, 0.0)
    gone = np.zeros((len(u), 1))
    scan(leaves[:, None], runs, False, gone, 0, len(runs) - 1)
    flush = np.flatnonzero(c)
    run = np.searchsorted(runs, flush, side="right") - 1
    left = gone[flush, 0]
    limit = LEFT * S[group[flush]]
    cuts = []
    while (left > limit).any():
        i = int(np.argmax(left > limit))
        g, s = int(group[flush[i]]), int(run[i])
        lo = int(runs[s] + np.searchsorted(group[runs[s] : runs[s + 1]], g))
        cuts.append((lo, g, s))
        later = slice(i, int(np.searchsorted(run, s, side="right")))
        since = np.append(0.0, np.cumsum(leaves[flush[i] + 1 : runs[s + 1]]))
        left[later] = since[flush[later] - flush[i]]
    if not cuts:
        return u, runs, c, rows
    out: list[list[np.ndarray]] = [[], [], []]
    starts = runs[:-1]
    at = added = 0
    u = u.copy()
    new_runs = []
    assert risk.b is not None  # rows leave only with entry times
    for lo, g, s in cuts:
        a, b = risk.strata_start[s], risk.strata_start[s + 1]
        joined = risk.a[a:b] - is_event[a:b] < g
        again = a + np.flatnonzero(joined & (risk.b[a:b] > g))
        hi = int(runs[s] + np.searchsorted(group[runs[s] : runs[s + 1]], g, side="right"))
        here = np.arange(lo, hi)
        u[here[u[here] < 0]] = 0.0  # rows that leave here are not in the restarted sum
        new_runs.append((lo, added))
        for x, (old, new) in zip(
            out, ((u, r[again]), (c, np.zeros(len(again))), (rows, again)), strict=True
        ):
            x += [old[at:lo], new]
        at, added = lo, added + len(again)
    for x, old in zip(out, (u, c, rows), strict=True):
        x.append(old[at:])
    places = np.array([lo for lo, _ in new_runs])
    before = np.append(0, np.cumsum([len(x) for x in out[2][1::2]]))
    shifted = starts + before[np.searchsorted(places, starts)]
    fresh = np.array([lo + more for lo, more in new_runs])
    u, c, rows = (np.concatenate(x) for x in out)
    return u, np.append(np.unique(np.concatenate([shifted, fresh])), len(u)), c, rows
