"""The number of people with equal weights who would be as informative as weighted people."""

from __future__ import annotations

from collections.abc import Sequence

from numpy.typing import NDArray

__all__ = ["effective_sample_sizes"]


def effective_sample_sizes(
    weights: NDArray, group: NDArray, names: Sequence[str]
) -> dict[str, float]:
    """Compute Kish's (Σw)² / Σw² of each group.

    Parameters
    ----------
    weights : ndarray, shape (n,)
    group : ndarray of int, shape (n,)
        Position of each person's group in ``names``.
    """
    found = {}
    for k, name in enumerate(names):
        w = weights[group == k]
        square = float(w @ w)
        found[name] = float(w.sum()) ** 2 / square if square > 0 else 0.0
    return found
