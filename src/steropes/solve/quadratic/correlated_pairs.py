"""Pairs of strongly correlated coordinates, found in stripes, and room for blocks of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...backends.threads import ThreadPool

__all__ = ["STRONG", "found_pairs", "room_for_squares"]

STRONG = 0.2  # correlation from which on two columns are joined
PAIRS = 32  # for each column at most, if not
EQUAL = 0.99  # correlated so much


def found_pairs(
    some: Callable[..., int], stripes: list[tuple[int, int]], pool: ThreadPool, work: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (n, 2) and their strengths (n,) of all stripes.

    Parameters
    ----------
    some : callable
        Takes a stripe a … b of coordinates, the least correlation and arrays for pairs and
        strengths, and returns how many there are, or one more than there is room for.
    """

    def found(a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
        room, least = PAIRS * (b - a), STRONG
        pairs, strength = np.empty((room, 2), np.int64), np.empty(room)
        while True:
            count = some(a, b, least, pairs, strength)
            if count <= room or least > EQUAL:
                count = min(count, room)
                return pairs[:count].copy(), strength[:count].copy()
            least **= 0.5  # so many make no blocks: the strongest alone

    parts = pool.map(found, stripes, work)
    if not parts:
        return np.empty((0, 2), np.int64), np.empty(0)
    return np.concatenate([x for x, _ in parts]), np.concatenate([x for _, x in parts])


def room_for_squares(starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the square of each block begins, and an array for all of them."""
    size = np.diff(starts) ** 2
    at = np.cumsum(size) - size
    return at, np.empty(int(size.sum()))
