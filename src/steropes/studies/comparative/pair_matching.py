"""One-to-one greedy matching on a score, within a caliper: nearest pair first."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.errors import DataError

__all__ = ["match_pairs"]

UNMATCHED = -1


def _refuse_missing(score: NDArray) -> None:
    """Raise if a score is missing or infinite."""
    if not np.isfinite(score).all():
        row = int(np.argmin(np.isfinite(score)))
        raise DataError(f"matching: the score of row {row} is missing or infinite")


def match_pairs(score: ArrayLike, treated: ArrayLike, width: float) -> NDArray:
    """Match 1:1, taking the closest pair that is left until none is within ``width``.

    Of pairs equally close, the one with the smaller treated row goes first, then the one with the
    smaller comparator row. Where the order of rows means nothing, put them into a random one
    first, as :func:`~steropes.studies.match_scores` does.

    Parameters
    ----------
    score : array_like, shape (n,)
        Scores.
    treated : array_like, shape (n,)
        1 or 0.
    width : float
        Largest difference of scores allowed within a pair, inclusive.

    Returns
    -------
    ndarray of int, shape (n,)
        As for :func:`~steropes.studies.match_scores`.

    Raises
    ------
    DataError
        Scores that are missing or infinite, or arrays of different lengths.

    Notes
    -----
    On a line, the closest treated-comparator pair is always a pair of neighbours: a third person
    between the two would make a closer pair with one of them. So a linked list of the scores in
    order and a heap of its treated-comparator neighbours suffice, O(n log n) in all.

    Examples
    --------
    >>> from steropes.studies import match_pairs
    >>> match_pairs([0.1, 0.5, 0.12, 0.9], [1, 1, 0, 0], width=0.1).tolist()
    [0, -1, 0, -1]
    """
    score = np.asarray(score, dtype=float)
    arm = np.asarray(treated).astype(np.int8)
    if score.ndim != 1 or score.shape != arm.shape:
        raise DataError(
            f"matching: score has shape {score.shape} and treated {arm.shape}; "
            "they must be one value a person"
        )
    _refuse_missing(score)
    if not width >= 0:
        raise DataError(f"matching: the caliper must be 0 or more, not {width}")

    order = np.lexsort((np.arange(len(score)), arm, score))
    exact = _match_equal_scores(score[order], arm[order])
    pairs = [order[exact]]
    rest = np.ones(len(score), dtype=bool)
    rest[exact.ravel()] = False
    left = order[rest]
    pairs.append(left[_match_neighbours(score[left], arm[left], left, width)])
    both = np.concatenate(pairs)  # (treated, comparator)

    matched = np.full(len(score), UNMATCHED, dtype=np.int64)
    both = both[np.argsort(both[:, 0])]
    matched[both] = np.arange(len(both))[:, None]
    return matched


def _match_equal_scores(score: NDArray, arm: NDArray) -> NDArray:
    """Match equal scores, the k-th person of one arm with the k-th of the other.

    The input is sorted by score, arm and row; the pairs are (treated, comparator) positions. Scores
    made of 0/1 covariates have many ties. After these pairs are removed, each distinct score has
    people of one arm only.
    """
    opens = _changes(score, arm)
    rank = np.arange(len(score)) - np.flatnonzero(opens)[np.cumsum(opens) - 1]
    group = np.cumsum(_changes(score))
    # sorted by (group, rank, arm), an exact pair is a comparator followed by a treated person
    by_rank = np.lexsort((arm, rank, group))
    a, b = by_rank[:-1], by_rank[1:]
    pair = (group[a] == group[b]) & (rank[a] == rank[b]) & (arm[a] != arm[b])
    return np.column_stack((b[pair], a[pair]))


def _changes(*keys: NDArray) -> NDArray:
    """Mark rows that differ from the one before in any of the keys, and the first row."""
    changed = np.zeros(len(keys[0]), dtype=bool)
    changed[:1] = True
    for key in keys:
        changed[1:] |= key[1:] != key[:-1]
    return changed


def _match_neighbours(score: NDArray, arm: NDArray, row: NDArray, width: float) -> NDArray:
    """Match neighbours; each distinct score has one arm only. Returns (treated, comparator)."""
    if len(score) == 0:
        return np.zeros((0, 2), dtype=np.int64)
    first = np.flatnonzero(_changes(score))
    # Plain lists: this loop touches single elements, which NumPy is slow at.
    where = first.tolist()  # the next unmatched position of each group of equal scores
    stop = [*where[1:], len(score)]
    at, side, rows = score[first].tolist(), arm[first].tolist(), row.tolist()
    m = len(where)
    before, after = list(range(-1, m - 1)), [*range(1, m), -1]
    heap: list[tuple[float, int, int, int, int]] = []

    def candidate(g: int, h: int) -> tuple[float, int, int, int, int] | None:
        """(distance, treated row, comparator row, groups), ordered as pairs are to be taken."""
        if g < 0 or h < 0 or side[g] == side[h]:
            return None
        distance = at[h] - at[g]
        if distance > width:
            return None
        t, c = (g, h) if side[g] else (h, g)
        return distance, rows[where[t]], rows[where[c]], t, c

    heap = [x for g in range(m - 1) if (x := candidate(g, g + 1)) is not None]
    heapq.heapify(heap)
    pairs = []
    while heap:
        _, treated_row, comparator_row, t, c = heapq.heappop(heap)
        if where[t] == stop[t] or where[c] == stop[c]:
            continue
        i, j = where[t], where[c]
        if rows[i] == treated_row and rows[j] == comparator_row:
            pairs.append((i, j))
            where[t] += 1
            where[c] += 1
            used_up = [g for g in (t, c) if where[g] == stop[g]]
            for g in used_up:
                p, q = before[g], after[g]
                if p >= 0:
                    after[p] = q
                if q >= 0:
                    before[q] = p
            # the neighbours of what was used up meet
            if used_up and (x := candidate(p, q)) is not None:
                heapq.heappush(heap, x)
            if used_up:
                continue
        # both groups still hold people (the heads may be others than when this was pushed)
        g, h = (t, c) if at[t] < at[c] else (c, t)
        if after[g] == h and (x := candidate(g, h)) is not None:
            heapq.heappush(heap, x)
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)
