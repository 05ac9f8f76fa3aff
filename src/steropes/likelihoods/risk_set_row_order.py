"""The rows of a Cox model in the order in which they join and leave the risk sets.

`GroupedCurvature` needs a stream of lines with running sums that equal the sums over the risk sets
at the flushes. Rows join as time runs backwards. With late entry they leave again and their terms
are subtracted; a sum is restarted from the rows at risk before the subtracted terms outweigh the
remaining ones so much that digits are lost.

The weight of a line is r of its row times a factor from a short table. Lines and their places in
the table change only if sums are restarted elsewhere, so that a device rarely receives them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..backends.backend_interface import Array
from ..backends.cpu.sums.segmented_sums import scan
from .risk_sets import RiskSets

__all__ = ["RiskSetLines", "lines_are_rows", "risk_set_lines"]

# The largest ratio of subtracted terms to the remaining sum, which limits the loss of digits.
LEFT = 1e3
# Places of the factors 0, 1 and −1 in the table, and of the first share of the tied events.
NOTHING, JOINS, LEAVES, TIED = 0, 1, 2, 3


def lines_are_rows(risk: RiskSets, nodes: list) -> bool:
    """Return whether the rows in their order are the lines, so that ``u`` is r itself."""
    return risk.b is None and len(nodes) == 1 and bool(np.all(nodes[0][0] == 1.0))


@dataclass(frozen=True, eq=False)
class _Stream:
    """Lines in their order.

    Attributes
    ----------
    rows, group : (L,) int arrays
        The row of each line, and the group at which it joins or leaves.
    factor : (L,) int array
        The place of its factor in the table.
    runs : (S + 1,) int array
        Boundaries of the runs among the lines.
    flush : (nodes, m) int array
        The line at which each group's sum is flushed for each node.
    """

    rows: np.ndarray
    group: np.ndarray
    factor: np.ndarray
    runs: np.ndarray
    flush: np.ndarray

    def weights(self, nodes: list) -> np.ndarray:
        """Return the weight of the group that ends with each line, (L,)."""
        c = np.zeros(len(self.rows))
        for at, (_, own) in zip(self.flush, nodes, strict=True):
            c[at] = own
        return c


class RiskSetLines:
    """The streams of a model's risk sets.

    Parameters
    ----------
    risk : RiskSets
        Risk sets of the rows.
    stratum : (n,) int array
        Stratum of each row.
    """

    def __init__(self, risk: RiskSets, stratum: np.ndarray) -> None:
        self.risk, self.stratum = risk, stratum
        self._known: dict[tuple, _Stream] = {}

    def stream(self, nodes: int, rest: bool, cuts: tuple[tuple[int, int], ...] = ()) -> _Stream:
        """Return the lines for some nodes, with restarts at the (group, stratum) of ``cuts``.

        With ``rest`` a part of the tied events joins after the last node. Streams are kept for a
        device, of those with restarts the last one.
        """
        key = nodes, rest, cuts
        found = self._known.get(key)
        if found is None:
            if cuts:
                found = _restarted(self.risk, self.stream(nodes, rest), cuts)
            else:
                found = _ordered(self.risk, self.stratum, nodes, rest)
            if not self.risk.backend.on_host:
                self._known = {k: x for k, x in self._known.items() if not (cuts and k[2])}
                self._known[key] = found
        return found


def risk_set_lines(
    lines: RiskSetLines, r: Array, nodes: list, S: np.ndarray
) -> tuple[Array, np.ndarray, np.ndarray, np.ndarray | None]:
    """Build the lines of a `GroupedCurvature` from risk sets.

    Parameters
    ----------
    r : (n,) array
        Weight of each row in the sums.
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
    risk, backend = lines.risk, lines.risk.backend
    if lines_are_rows(risk, nodes):
        c = np.zeros(len(r))
        c[risk.event_rows[risk.event_start[1:] - 1]] = nodes[0][1]
        return r, risk.strata_start, c, None
    shares = np.array([np.zeros(risk.m), *(f for f, _ in nodes), np.ones(risk.m)])
    rest = not np.all(shares[-2] == 1.0)
    parts = np.diff(shares if rest else shares[:-1], axis=0)
    table = backend.asarray(np.concatenate([[0.0, 1.0, -1.0], parts.ravel()]))
    stream = lines.stream(len(nodes), rest)
    c = stream.weights(nodes)
    u = r[stream.rows] * table[stream.factor]
    if risk.b is not None and (cuts := _cuts(risk, stream, u, c, S)):
        stream = lines.stream(len(nodes), rest, cuts)
        c = stream.weights(nodes)
        u = r[stream.rows] * table[stream.factor]
    return u, stream.runs, c, stream.rows


def _ordered(risk: RiskSets, stratum: np.ndarray, nodes: int, rest: bool) -> _Stream:
    """Sort the lines by group.

    In phase 0 of a group, rows join or leave. The tied events follow in as many parts as there are
    nodes, with a flush after each, and finally the rest of them.
    """
    n, ev, g = len(stratum), risk.event_rows, risk.group_of_event
    is_event = np.zeros(n, bool)
    is_event[ev] = True
    joins = np.flatnonzero(~is_event if risk.b is None else ~is_event & (risk.a < risk.b))
    parts = [(joins, risk.first_group(joins), 0, np.full(len(joins), JOINS))]
    if risk.b is not None:
        leaves = np.flatnonzero((is_event | (risk.a < risk.b)) & (risk.b < risk.end))
        parts.append((leaves, risk.b[leaves], 0, np.full(len(leaves), LEAVES)))
    first = sum(len(x[0]) for x in parts)  # Position of the tied events before the sort.
    parts += [(ev, g, k + 1, TIED + k * risk.m + g) for k in range(nodes + rest)]
    rows, group, factor = (np.concatenate([x[i] for x in parts]) for i in (0, 1, 3))
    phase = np.concatenate([np.full(len(x[0]), x[2]) for x in parts])
    # Groups are numbered across strata, so the end of one stratum is the start of the next.
    place = group + stratum[rows]
    by = np.argsort(place * (nodes + 2) + phase, kind="stable")
    at = np.empty(len(by), np.int64)
    at[by] = np.arange(len(by))
    last = risk.event_start[1:] - 1
    flush = np.array([at[first + k * len(ev) + last] for k in range(nodes)])
    rows = rows[by]
    runs = np.searchsorted(stratum[rows], np.arange(len(risk.strata_start)))
    return _Stream(rows, group[by], factor[by], runs, flush)


def _cuts(
    risk: RiskSets, stream: _Stream, u: Array, c: np.ndarray, S: np.ndarray
) -> tuple[tuple[int, int], ...]:
    """Find the groups and strata where the subtracted terms outweigh the remaining sum."""
    # Each sum is computed from its own start, because a difference of longer sums would be
    # dominated by rounding if the earlier terms are much larger.
    backend, runs, flush = risk.backend, stream.runs, np.flatnonzero(c)
    if not len(flush):
        return ()
    run = np.searchsorted(runs, flush, side="right") - 1
    begin = runs[run]
    same = run[1:] == run[:-1]
    begin[1:][same] = flush[:-1][same] + 1
    leaves = backend.xp.maximum(-u, 0.0)[:, None]
    since = backend.to_host(backend.range_sum(leaves, begin, flush + 1))  # after the last flush
    left = np.zeros(since.shape)
    strata = np.searchsorted(run, np.arange(len(runs)))
    scan(since, strata, False, left, 0, len(strata) - 1)
    since, left, group = since[:, 0], left[:, 0], stream.group[flush]
    limit = LEFT * S[group]
    cuts = []
    while (left > limit).any():
        i = int(np.argmax(left > limit))
        cuts.append((int(group[i]), int(run[i])))
        end = int(np.searchsorted(run, run[i], side="right"))
        left[i:end] = np.append(0.0, np.cumsum(since[i + 1 : end]))
    return tuple(cuts)


def _restarted(risk: RiskSets, x: _Stream, cuts: tuple[tuple[int, int], ...]) -> _Stream:
    """Restart running sums at some groups from the rows that are at risk there."""
    assert risk.b is not None  # rows leave only with entry times
    is_event = np.zeros(len(risk.a), bool)
    is_event[risk.event_rows] = True
    factor, at = x.factor.copy(), 0
    places, added, parts = [], [], []
    for g, s in cuts:
        first, end = int(x.runs[s]), int(x.runs[s + 1])
        lo, hi = first + np.searchsorted(x.group[first:end], [g, g + 1])
        here = factor[lo:hi]
        here[here == LEAVES] = NOTHING  # rows that leave here are not in the restarted sum
        a, b = risk.strata_start[s], risk.strata_start[s + 1]
        joined = risk.a[a:b] - is_event[a:b] < g
        again = a + np.flatnonzero(joined & (risk.b[a:b] > g))
        parts.append((x.rows[at:lo], x.group[at:lo], factor[at:lo]))
        parts.append((again, np.full(len(again), g), np.full(len(again), JOINS)))
        places.append(lo)
        added.append(len(again))
        at = lo
    parts.append((x.rows[at:], x.group[at:], factor[at:]))
    before, starts = np.append(0, np.cumsum(added)), x.runs[:-1]
    shifted = starts + before[np.searchsorted(places, starts)]
    fresh = np.array(places) + before[:-1]
    rows, group, factor = (np.concatenate([part[i] for part in parts]) for i in range(3))
    runs = np.append(np.unique(np.concatenate([shifted, fresh])), len(rows))
    flush = x.flush + before[np.searchsorted(places, x.flush, side="right")]
    return _Stream(rows, group, factor, runs, flush)
