"""Search for strongly correlated pairs of coordinates, and storage for their blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...backends.thread_pool import ThreadPool
from .subproblem_constants import PreconditionerPolicy

__all__ = ["allocate_squares", "collect_pairs"]


def collect_pairs(
    some: Callable[..., int], stripes: list[tuple[int, int]], pool: ThreadPool, work: int,
    policy: PreconditionerPolicy,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Collect pairs (n, 2) and their strengths (n,) over all stripes.

    Parameters
    ----------
    some : callable
        Takes a stripe a … b of coordinates, the least correlation and arrays for pairs and
        strengths. Returns the number of pairs, or one more than the arrays have room for.
    """

    def found(a: int, b: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the strongly correlated pairs of some columns, with their correlations."""
        room, least = policy.pairs_per_column * (b - a), policy.strong_correlation
        pairs, strength = np.empty((room, 2), np.int64), np.empty(room)
        while True:
            count = some(a, b, least, pairs, strength)
            if count <= room or least > policy.max_correlation:
                count = min(count, room)
                return pairs[:count].copy(), strength[:count].copy()
            least **= 0.5  # Too many pairs make no useful blocks, so only the strongest are kept.

    parts = pool.map(found, stripes, work)
    if not parts:
        return np.empty((0, 2), np.int64), np.empty(0)
    return np.concatenate([x for x, _ in parts]), np.concatenate([x for _, x in parts])


def allocate_squares(starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where the square of each block begins, and an array for all squares."""
    size = np.diff(starts) ** 2
    at = np.cumsum(size) - size
    return at, np.empty(int(size.sum()))
