"""Sums of weights over ranges of positions, without subtractions."""

from __future__ import annotations

import numpy as np

__all__ = ["sums_over_ranges"]


def sums_over_ranges(first: np.ndarray, end: np.ndarray, weight: np.ndarray, m: int) -> np.ndarray:
    """Compute at each of m positions the sum of the weights of the rows that cover it.

    Differences of cumulative sums would lose small weights that remain after large ones have
    left. Each range is therefore cut into aligned pieces with power-of-two lengths, at most
    two of each length (the nodes of a segment tree), and each position adds up the pieces that
    contain it. Nonnegative weights are only added, so that the relative error is that of rounding.

    Parameters
    ----------
    first, end : (n,) int arrays
        Row i covers the positions ``first[i] <= k < end[i]``.
    weight : (n,) array
    m : int
        Number of positions.

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
        _add_to_nodes(tree, low[alone], weight[alone])
        low = low + odd
        odd = (high & 1) == 1
        alone = odd & (low < high)
        _add_to_nodes(tree, high[alone] - 1, weight[alone])
        high = high - odd
        more = low < high
        low, high, weight = low[more] >> 1, high[more] >> 1, weight[more]
    above = tree[1:2]
    level = 2
    while level <= size:
        above = tree[level : 2 * level] + np.repeat(above, 2)
        level *= 2
    return above[:m]


def _add_to_nodes(tree: np.ndarray, nodes: np.ndarray, weight: np.ndarray) -> None:
    """Add weights to nodes of the tree."""
    if len(nodes):
        found = np.bincount(nodes, weights=weight)
        tree[: len(found)] += found
