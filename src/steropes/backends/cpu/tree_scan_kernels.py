"""Scan statistics of replicates of a hierarchy, as sums over nodes and log-likelihood ratios.

Counts are whole numbers, so that n ln n is looked up in a table instead of computed.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from .compilation.kernel_compiler_options import ORDERED

__all__ = [
    "best_windows",
    "cut_sums",
    "largest_window_ratios",
    "overall_ratios",
    "poisson_ratios",
    "share_ratios",
]

# Slack of bounds, which are computed with another rounding than the ratios that they bound.
SLACK = 1e-9


@njit(**ORDERED)
def cut_sums(draws, indptr, indices):
    """Sum the counts of the groups of each cut, (lanes, groups) to (lanes, cuts)."""
    lanes, cuts = len(draws), len(indptr) - 1
    found = np.empty((lanes, cuts), np.int64)
    for lane in range(lanes):
        own = draws[lane]
        for cut in range(cuts):
            total = 0
            for k in range(indptr[cut], indptr[cut + 1]):
                total += own[indices[k]]
            found[lane, cut] = total
    return found


@njit(**ORDERED)
def poisson_ratios(counts, expected, logs, table, least):
    """Compute c ln(c/e) − c + e where c exceeds e and is at least ``least``, (lanes, cuts).

    ``logs`` are ln e, and ``table`` has n ln n.
    """
    lanes, cuts = counts.shape
    found = np.zeros((lanes, cuts))
    for lane in range(lanes):
        for cut in range(cuts):
            c, e = counts[lane, cut], expected[cut]
            if c >= least and c > e:
                found[lane, cut] = table[c] - c * logs[cut] - c + e
    return found


@njit(**ORDERED)
def share_ratios(counts, sizes, expected, logs, rest_logs, table, least):
    """Compute c ln(c/e) + (m − c) ln((m − c)/(m − e)) where c exceeds e, (lanes, cuts).

    ``logs`` are ln e and ``rest_logs`` ln(m − e).
    """
    lanes, cuts = counts.shape
    found = np.zeros((lanes, cuts))
    for lane in range(lanes):
        for cut in range(cuts):
            c = counts[lane, cut]
            if c >= least and c > expected[cut]:
                rest = sizes[cut] - c
                first = table[c] - c * logs[cut]
                found[lane, cut] = first + (table[rest] - rest * rest_logs[cut])
    return found


@njit(**ORDERED)
def overall_ratios(counts, sizes, cases, size, table, least):
    """Compute the ratio of two binomial probabilities, in a cut and outside, (lanes, cuts).

    ``cases`` of ``size`` events in all are cases, and the probability in the cut is larger.
    """
    lanes, cuts = counts.shape
    found = np.zeros((lanes, cuts))
    null = table[cases] + table[size - cases] - table[size]
    for lane in range(lanes):
        for cut in range(cuts):
            c, n = counts[lane, cut], sizes[cut]
            if c >= least and c * size > cases * n:
                rest, outside = cases - c, size - n
                inner = table[c] + table[n - c] - table[n]
                outer = table[rest] + table[outside - rest] - table[outside]
                found[lane, cut] = inner + outer - null
    return found


@njit(**ORDERED)
def best_windows(until, starts, ends, sizes, expected, logs, rest_logs, table, least):
    """Find the window with the largest ratio of each cut, as `share_ratios`.

    ``until`` are cases before each time, (lanes, cuts, times + 1), and ``expected`` with its
    logarithms is (cuts, windows). Returns ratios and windows, (lanes, cuts).
    """
    lanes, cuts, times = until.shape
    windows = len(starts)
    found, which = np.zeros((lanes, cuts)), np.zeros((lanes, cuts), np.int64)
    for lane in range(lanes):
        for cut in range(cuts):
            if until[lane, cut, times - 1] < least:
                continue
            for w in range(windows):
                c = until[lane, cut, ends[w]] - until[lane, cut, starts[w]]
                if c >= least and c > expected[cut, w]:
                    rest = sizes[cut] - c
                    value = table[c] - c * logs[cut, w]
                    value += table[rest] - rest * rest_logs[cut, w]
                    if value > found[lane, cut]:
                        found[lane, cut], which[lane, cut] = value, w
    return found, which


@njit(**ORDERED)
def _most(own, starts, ends):
    """Return the most cases in a window of a cut."""
    most = np.int32(0)
    for w in range(len(starts)):
        most = max(most, own[ends[w]] - own[starts[w]])
    return most


@njit(**ORDERED)
def largest_window_ratios(drawn, links, until, windows, sizes, exact, smallest, table, least):
    """Find the largest ratio of all cuts and windows in each lane, (lanes,), as `best_windows`.

    ``drawn`` are times of cases, (lanes, cases). ``links`` are the nodes of cases, and indptr and
    indices of the cuts of nodes. ``until`` is an array for cases of cuts before each time.
    ``windows`` are starts, ends, where parts of them begin, and the numbers of windows of which one
    contains each. ``exact`` are expected numbers with logarithms, (cuts, windows), and ``smallest``
    those of each part. A ratio rises with the cases and falls with the expected ones, so that the
    most cases and the smallest expected number bound those of several windows.
    """
    node, indptr, indices = links
    starts, ends, parts, outer = windows
    expected, logs, rest_logs = exact
    small, small_logs, small_rest_logs = smallest
    longest_starts, longest_ends, times = starts[outer], ends[outer], until.shape[1] - 1
    found = np.zeros(len(drawn))
    for lane in range(len(drawn)):
        until[:] = 0
        for i in range(len(node)):
            t = drawn[lane, i] + 1
            for k in range(indptr[node[i]], indptr[node[i] + 1]):
                until[indices[k], t] += 1
        best = 0.0
        for cut in range(len(sizes)):
            own, m = until[cut], sizes[cut]
            for t in range(times):
                own[t + 1] += own[t]
            if own[times] < least:
                continue
            c, part = _most(own, longest_starts, longest_ends), np.argmin(small[cut])
            bound = table[c] - c * small_logs[cut, part]
            bound += table[m - c] - (m - c) * small_rest_logs[cut, part]
            if c < least or c <= small[cut, part] or bound + SLACK < best:
                continue
            for part in range(len(parts) - 1):
                low, high = parts[part], parts[part + 1]
                c = _most(own, starts[low:high], ends[low:high])
                bound = table[c] - c * small_logs[cut, part]
                bound += table[m - c] - (m - c) * small_rest_logs[cut, part]
                if c < least or c <= small[cut, part] or bound + SLACK < best:
                    continue
                for w in range(low, high):
                    c = own[ends[w]] - own[starts[w]]
                    if c >= least and c > expected[cut, w]:
                        value = table[c] - c * logs[cut, w]
                        value += table[m - c] - (m - c) * rest_logs[cut, w]
                        best = max(best, value)
        found[lane] = best
    return found
