"""Optimal full matching: sets of one person and several of the other group, of least distance.

Without limits of the sizes of sets, a full matching is a set of edges that covers everybody, and
the optimal one is a minimum edge cover, whose components are stars (Hansen and Klopfer 2006, §2).
With μ_v the distance of v to the nearest person of the other group, the cover of least total
distance consists of a matching that maximises Σ (μ_u + μ_v − d_uv) and of the edge to the nearest
person for everybody else. Only the few edges shorter than μ_u + μ_v can be in that matching.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components, min_weight_full_bipartite_matching
from scipy.spatial import cKDTree

__all__ = ["full_matching"]


def full_matching(x: NDArray, target: NDArray, width: float = np.inf) -> NDArray:
    """Return the set of each person, (n,), −1 for those without a person within the calliper.

    Parameters
    ----------
    x : ndarray, shape (n, d)
        Points whose Euclidean distances are the distances of people.
    target : ndarray of bool, shape (n,)
    width : float
        Largest distance of an edge.
    """
    rows = (np.flatnonzero(target), np.flatnonzero(~target))
    if not (len(rows[0]) and len(rows[1])):
        return np.full(len(x), -1, dtype=np.int64)
    points = [x[r] for r in rows]
    trees = [cKDTree(p) for p in points]
    near, nearest = zip(
        *(trees[1 - k].query(points[k], distance_upper_bound=width * (1 + 1e-12))
          for k in (0, 1)), strict=True,
    )  # fmt: skip
    # People without a possible partner within the calliper are left unmatched.
    taking = [np.isfinite(near[k]) for k in (0, 1)]
    u, v, gain = _useful_edges(points, trees, near, taking)
    chosen = _best_matching(u, v, gain, len(rows[0]), len(rows[1]))
    edges = [(u[chosen], v[chosen])]
    for k, used in enumerate((u[chosen], v[chosen])):
        alone = np.flatnonzero(taking[k])
        alone = alone[~np.isin(alone, used)]
        ends = alone, nearest[k][alone]
        edges.append(ends if k == 0 else ends[::-1])
    first, second = (np.concatenate([e[i] for e in edges]) for i in (0, 1))
    kept = _irredundant(first, second, len(rows[0]), len(rows[1]))
    return _components(rows[0][first[kept]], rows[1][second[kept]], len(x))


def _useful_edges(
    points: list[NDArray], trees: list[cKDTree], near: tuple[NDArray, ...], taking: list[NDArray]
) -> tuple[NDArray, NDArray, NDArray]:
    """Return the edges with d_uv < μ_u + μ_v, and the differences."""
    found = []
    for k in (0, 1):  # The person with the larger μ, and so d_uv < 2 μ, is of group k.
        own = np.flatnonzero(taking[k] & (near[k] > 0))
        most = float(near[1 - k][taking[1 - k]].max(initial=0.0))
        radius = np.minimum(2 * near[k][own], near[k][own] + most)
        lists = trees[1 - k].query_ball_point(points[k][own], radius)
        sizes = np.array([len(each) for each in lists], dtype=np.int64)
        a = np.repeat(own, sizes)
        b = np.concatenate([np.empty(0, np.int64), *(np.asarray(e, np.int64) for e in lists)])
        found.append((a, b) if k == 0 else (b, a))
    pairs = np.unique(
        np.column_stack([np.concatenate([f[i] for f in found]) for i in (0, 1)]), axis=0
    )
    u, v = pairs.T
    distance = np.sqrt(((points[0][u] - points[1][v]) ** 2).sum(axis=1))
    with np.errstate(invalid="ignore"):  # of two people who take no part
        gain = near[0][u] + near[1][v] - distance
    useful = taking[0][u] & taking[1][v] & (gain > 0)
    return u[useful], v[useful], gain[useful]


def _best_matching(u: NDArray, v: NDArray, gain: NDArray, n: int, m: int) -> NDArray:
    """Return which edges are in the matching of the largest total gain, (edges,) bool."""
    if not len(u):
        return np.zeros(0, dtype=bool)
    present, row = np.unique(u, return_inverse=True)
    # A row that is matched to its own further column stays alone.
    most = 2 * float(gain.max())
    k = len(present)
    weights = np.concatenate([most - gain, np.full(k, most)])
    rows = np.concatenate([row, np.arange(k)])
    columns = np.concatenate([v, m + np.arange(k)])
    graph = sp.csr_array((weights, (rows, columns)), shape=(k, m + k))
    matched_row, matched_column = min_weight_full_bipartite_matching(graph)
    partner = np.full(k, -1)
    partner[matched_row] = matched_column
    return np.asarray(partner[row] == v)


def _irredundant(first: NDArray, second: NDArray, n: int, m: int) -> NDArray:
    """Return which edges to keep so that no edge joins two people who have others."""
    degrees = np.bincount(first, minlength=n), np.bincount(second, minlength=m)
    kept = np.ones(len(first), dtype=bool)
    for e in np.flatnonzero((degrees[0][first] > 1) & (degrees[1][second] > 1)):
        a, b = first[e], second[e]
        if degrees[0][a] > 1 and degrees[1][b] > 1:
            kept[e] = False
            degrees[0][a] -= 1
            degrees[1][b] -= 1
    return kept


def _components(a: NDArray, b: NDArray, n: int) -> NDArray:
    """Number the connected components with edges in the order of their first rows, (n,)."""
    graph = sp.coo_array((np.ones(len(a)), (a, b)), shape=(n, n))
    _, label = connected_components(graph, directed=False)
    inside = np.zeros(n, dtype=bool)
    inside[a] = inside[b] = True
    sets = np.full(n, -1, dtype=np.int64)
    labels, start, code = np.unique(label[inside], return_index=True, return_inverse=True)
    order = np.empty(len(labels), dtype=np.int64)
    order[np.argsort(start, kind="stable")] = np.arange(len(labels))
    sets[inside] = order[code]
    return sets
