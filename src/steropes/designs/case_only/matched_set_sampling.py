"""Random members of matched sets, without replacement within a set."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Eligible", "eligible_members", "sample_members"]

Eligible = Callable[[NDArray, NDArray], NDArray]
# Rounds, each with twice the draws of the one before, after which the candidates of sets that are
# not complete are listed. With a twentieth of a million people eligible, listing took minutes.
ROUNDS = 10
# Pairs of sets and candidates that are examined together.
CHUNK = 1 << 20


def sample_members(
    low: NDArray, high: NDArray, wanted: int | NDArray, eligible: Eligible, rng: np.random.Generator
) -> tuple[NDArray, NDArray]:
    """Sample members of sets among candidates with consecutive numbers.

    Every subset of the eligible candidates of a set is equally likely; sets with fewer of them than
    wanted get all.

    Parameters
    ----------
    low, high : (n,) int arrays
        The candidates of a set are low, …, high − 1.
    wanted : int or (n,) int array
        Number of members of each set.
    eligible : callable
        Maps sets and candidates, (m,) each, to whether they are eligible.

    Returns
    -------
    set, member : (m,) int arrays
        Sorted by set and member.
    """
    n, total = len(low), int(high.max(initial=0)) + 1
    need = np.where(high > low, np.broadcast_to(wanted, n), 0).astype(np.int64)
    chosen = np.zeros(0, np.int64)
    for k in range(ROUNDS):
        # Sets with few candidates are cheaper to list.
        pending = np.flatnonzero((need > 0) & (high - low > need << k))
        sizes = need[pending] << k
        for part in np.split(pending, _cuts(sizes)):
            of = np.repeat(part, need[part] << k)
            drawn = rng.integers(low[of], high[of])
            good = eligible(of, drawn)
            key = np.unique((of * total + drawn)[good])
            key = _first(key[~np.isin(key, chosen)], total, need, rng)
            chosen = np.union1d(chosen, key)
            need -= np.bincount(key // total, minlength=n)
    left = np.flatnonzero(need)
    of, member = eligible_members(low[left], high[left], lambda s, m: eligible(left[s], m))
    key = left[of] * total + member
    key = key[~np.isin(key, chosen)]
    chosen = np.union1d(chosen, _first(key, total, need, rng))
    return chosen // total, chosen % total


def _first(key: NDArray, total: int, need: NDArray, rng: np.random.Generator) -> NDArray:
    """Keep members at random up to the number that each set needs."""
    key = key[np.lexsort((rng.random(len(key)), key // total))]
    rank = np.arange(len(key)) - np.searchsorted(key // total, key // total, side="left")
    return key[rank < need[key // total]]


def _cuts(sizes: NDArray) -> NDArray:
    """Return where to split sets so that each part has about `CHUNK` candidates."""
    ends = np.cumsum(sizes)
    return np.flatnonzero(np.diff(ends // CHUNK)) + 1


def eligible_members(low: NDArray, high: NDArray, eligible: Eligible) -> tuple[NDArray, NDArray]:
    """List all eligible candidates of each set, sorted by set and member; see `sample_members`."""
    sizes = np.maximum(high - low, 0)
    ends = np.cumsum(sizes)
    sets, members = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    a = 0
    while a < len(low):
        before = int(ends[a - 1]) if a else 0
        b = max(int(np.searchsorted(ends, before + CHUNK, side="right")), a + 1)
        of = np.repeat(np.arange(a, b), sizes[a:b])
        member = low[of] + np.arange(len(of)) - (ends[of] - sizes[of] - before)
        good = eligible(of, member)
        sets.append(of[good])
        members.append(member[good])
        a = b
    return np.concatenate(sets), np.concatenate(members)
