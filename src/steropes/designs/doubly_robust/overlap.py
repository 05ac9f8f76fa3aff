"""Overlap of the scores of two groups, and the changes that a bound of scores makes."""

from __future__ import annotations

import pandas as pd
from numpy.typing import NDArray

__all__ = ["overlap_table"]


def overlap_table(scores: NDArray, target: NDArray, bound: float, weights: NDArray) -> pd.DataFrame:
    """Describe scores and weights by group.

    Parameters
    ----------
    scores : ndarray, shape (n, repeats)
        Before the bound.
    target : ndarray of bool, shape (n,)
    bound : float
    weights : ndarray, shape (n,)

    Returns
    -------
    DataFrame
        Rows "target" and "comparator": ``people``, ``smallest_score`` and ``largest_score`` (of
        the target group), ``bounded`` (people whose score the bound changes in any repeat),
        ``largest_weight``, ``mean_weight`` and ``effective_sample_size``.
    """
    rows = {}
    for name, group in (("target", target), ("comparator", ~target)):
        own, w = scores[group], weights[group]
        square = float(w @ w)
        rows[name] = {
            "people": int(group.sum()),
            "smallest_score": float(own.min()),
            "largest_score": float(own.max()),
            "bounded": int(((own < bound) | (own > 1 - bound)).any(axis=1).sum()),
            "largest_weight": float(w.max()),
            "mean_weight": float(w.mean()),
            "effective_sample_size": float(w.sum()) ** 2 / square if square > 0 else 0.0,
        }
    return pd.DataFrame.from_dict(rows, orient="index")
