"""One-to-one greedy matching on a score, within a caliper: nearest pair first."""

from __future__ import annotations

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

    from steropes.backends.cpu.nearest_pairs import match_neighbours

    order = np.lexsort((arm, score))  # People of a score and arm keep the order of their rows.
    exact = _match_equal_scores(score[order], arm[order])
    pairs = [order[exact]]
    rest = np.ones(len(score), dtype=bool)
    rest[exact.ravel()] = False
    left = order[rest]
    if len(left):
        values, arms = score[left], arm[left]
        first = np.flatnonzero(_changes(values))
        pairs.append(left[match_neighbours(values, arms, left, first, float(width))])
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
    first = np.flatnonzero(_changes(score))
    if not len(first):
        return np.zeros((0, 2), dtype=np.int64)
    treated = np.add.reduceat(arm, first, dtype=np.int64)
    comparators = np.diff(first, append=len(score)) - treated
    number = np.minimum(treated, comparators)
    k = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
    at = np.repeat(first, number) + k  # The comparators of a score come first.
    return np.column_stack((at + np.repeat(comparators, number), at))


def _changes(values: NDArray) -> NDArray:
    """Mark the first of each run of equal values."""
    changed = np.ones(len(values), dtype=bool)
    changed[1:] = values[1:] != values[:-1]
    return changed
