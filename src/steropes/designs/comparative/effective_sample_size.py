"""The number of people with equal weights who would be as informative as weighted people."""

from __future__ import annotations

from numpy.typing import NDArray

__all__ = ["effective_sample_size"]


def effective_sample_size(weights: NDArray, target: NDArray) -> dict[str, float]:
    """Compute Kish's (Σw)² / Σw² of the target and of the comparator.

    Parameters
    ----------
    weights : ndarray, shape (n,)
    target : ndarray of bool, shape (n,)
    """
    found = {}
    for name, group in (("target", target), ("comparator", ~target)):
        w = weights[group]
        square = float(w @ w)
        found[name] = float(w.sum()) ** 2 / square if square > 0 else 0.0
    return found
