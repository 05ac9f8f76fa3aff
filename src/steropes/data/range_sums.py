"""Sums over the ranges of places that rows cover, by additions alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["sums_over_ranges"]


def sums_over_ranges(
    first: NDArray[Any], end: NDArray[Any], weight: NDArray[Any], m: int
) -> NDArray[Any]:
    """At each of m places the sum of weights of the rows that cover it.

    Differences of cumulative sums lose the small beside the large that is gone already. Here a
    range is cut into aligned pieces of lengths that are powers of two, at most two of each length
    (the nodes of a segment tree), and a place adds up the pieces that it lies in: weights >= 0 are
    only ever added, and sums are exact to rounding whatever has been there before.

    Parameters
    ----------
    first, end : (n,) int arrays
        Row i covers the places ``first[i] <= k < end[i]``.
    weight : (n,) array
    m : int

    Returns
    -------
    (m,) array
    """
    size = 1 << max(int(m - 1).bit_length(), 0)
    tree = np.zeros(2 * size)
    low, high = first + size, end + size
    while len(low):
        odd = (low & 1) == 1
        alone = odd & (low < high)
        _add(tree, low[alone], weight[alone])
        low = low + odd
        odd = (high & 1) == 1
        alone = odd & (low < high)
        _add(tree, high[alone] - 1, weight[alone])
        high = high - odd
        more = low < high
        low, high, weight = low[more] >> 1, high[more] >> 1, weight[more]
    above = tree[1:2]
    level = 2
    while level <= size:
        above = tree[level : 2 * level] + np.repeat(above, 2)
        level *= 2
    return above[:m]


def _add(tree: NDArray[Any], nodes: NDArray[Any], weight: NDArray[Any]) -> None:
    if len(nodes):
        found = np.bincount(nodes, weights=weight)
        tree[: len(found)] += found
