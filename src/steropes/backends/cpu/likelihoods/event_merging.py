"""Merging of event times within strata, with the weight of each bin at its middle event time."""

from __future__ import annotations

from numba import njit

from ..compilation.kernel_compiler_options import ORDERED

__all__ = ["merge_events"]


@njit(**ORDERED)
def merge_events(mass, start, bins, out):
    """Merge event times into bins of nearly equal mass, at least one per stratum with mass.

    ``mass`` (m,) is at least zero; strata begin and end at ``start`` (S + 1,); ``out`` (m,) is
    zero and gets the masses of the bins at their middle places, of two the earlier in time.
    """
    everything = 0.0
    for s in range(len(start) - 1):
        for g in range(start[s], start[s + 1]):
            everything += mass[g]
    for s in range(len(start) - 1):
        total, kept = 0.0, 0
        for g in range(start[s], start[s + 1]):
            total += mass[g]
            kept += mass[g] > 0.0
        if kept == 0:
            continue
        exact = bins * total / everything
        per = int(exact) + (exact > int(exact))
        per = min(max(per, 1), kept)
        done, now = 0.0, -1
        first, count, inside = start[s], 0, 0.0
        for g in range(start[s], start[s + 1] + 1):
            b = per  # past the last bin
            if g < start[s + 1]:
                if mass[g] <= 0.0:
                    continue
                b = min(int((done + 0.5 * mass[g]) / total * per), per - 1)
                done += mass[g]
            if b != now:
                if count > 0:
                    left, at = count // 2, first
                    while True:
                        if mass[at] > 0.0:
                            if left == 0:
                                break
                            left -= 1
                        at += 1
                    out[at] = inside
                now, first, count, inside = b, g, 0, 0.0
            if g < start[s + 1]:
                count += 1
                inside += mass[g]
