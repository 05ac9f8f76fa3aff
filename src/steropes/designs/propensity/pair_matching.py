"""One-to-one greedy matching on a score, within a caliper: nearest pair first."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steropes.designs.values.input_checks import require_arms
from steropes.errors import DataError

__all__ = ["match_pairs", "match_sorted"]


def _refuse_missing(score: NDArray) -> None:
    """Raise if a score is missing or infinite."""
    if not np.isfinite(score).all():
        row = int(np.argmin(np.isfinite(score)))
        raise DataError(f"matching: the score of row {row} is missing or infinite")


def match_pairs(score: ArrayLike, treated: ArrayLike, width: float) -> NDArray:
    """Match 1:1, taking the closest pair that is left until none is within ``width``.

    Of pairs equally close, the one with the smaller treated row goes first, then the one with the
    smaller comparator row. Where the order of rows means nothing, put them into a random one
    first, as :func:`~steropes.designs.propensity.match_scores` does.

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
        As for :func:`~steropes.designs.propensity.match_scores`.

    Raises
    ------
    DataError
        Scores that are missing or infinite, arms other than 0 and 1, or arrays of different
        lengths.

    Notes
    -----
    On a line, the closest treated-comparator pair is always a pair of neighbours: a third person
    between the two would make a closer pair with one of them. A pair that is closer than both
    neighbouring ones is matched whatever happens elsewhere, so that one pass over the sorted
    scores suffices.

    Examples
    --------
    >>> from steropes.designs.propensity import match_pairs
    >>> match_pairs([0.1, 0.5, 0.12, 0.9], [1, 1, 0, 0], width=0.1).tolist()
    [0, -1, 0, -1]
    """
    score = np.asarray(score, dtype=float)
    arm = require_arms(treated)
    if score.ndim != 1 or score.shape != arm.shape:
        raise DataError(
            f"matching: score has shape {score.shape} and treated {arm.shape}; "
            "they must be one value a person"
        )
    _refuse_missing(score)
    if not width >= 0:
        raise DataError(f"matching: the caliper must be 0 or more, not {width}")

    order = np.lexsort((arm, score))
    rank = np.arange(len(score), dtype=np.uint64)
    both = match_sorted(score, arm, rank, order, float(width))
    matched = np.full(len(score), -1, dtype=np.int64)
    both = both[np.argsort(both[:, 0])]
    matched[both] = np.arange(len(both))[:, None]
    return matched


def match_sorted(
    score: NDArray, arm: NDArray, rank: NDArray, order: NDArray, width: float
) -> NDArray:
    """Match people; their positions are sorted by score, then by arm.

    Parameters
    ----------
    score, arm, rank : ndarray, shape (n,)
        Scores, arms, and distinct numbers that decide among equal distances, of type ``uint64``.
    order : ndarray of int, shape (m,)
        Positions of the people to be matched.
    width : float
        Largest difference of scores allowed within a pair, inclusive.

    Returns
    -------
    ndarray of int, shape (k, 2)
        Positions of the treated and of the comparator person of each pair.
    """
    from steropes.backends.cpu.nearest_pair_matching import match_nearest, sort_equal

    rows = sort_equal(order, score, arm, rank)
    return rows[match_nearest(score[rows], arm[rows], rank[rows], width)]
