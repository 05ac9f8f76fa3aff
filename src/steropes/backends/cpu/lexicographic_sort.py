"""Stable sorts by several keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["lexsort"]


def lexsort(keys: Sequence[np.ndarray]) -> np.ndarray:
    """Sort rows as `numpy.lexsort`, with NumPy's radix sort where keys fit into 16 bits."""
    last = keys[-1]
    if len(keys) == 2 and not _few(last):
        order = np.argsort(last)
        in_order = last[order]
        if (in_order[1:] != in_order[:-1]).all():  # then one sort is enough
            return order
    order = np.argsort(keys[0], kind="stable")
    for key in keys[1:]:
        order = order[np.argsort(_short(key[order]), kind="stable")]
    return order


def _few(x: np.ndarray) -> bool:
    """Return whether x are integers, such as days, whose range fits into 16 bits."""
    if not len(x):
        return False
    low, high = x.min(), x.max()
    return bool(high - low < 1 << 16) and bool((x == np.floor(x)).all())


def _short(x: np.ndarray) -> np.ndarray:
    """Convert x to 16-bit integers in the same order if possible, for NumPy's radix sort."""
    return (x - x.min()).astype(np.uint16) if _few(x) else x
