"""Coarsened exact matching and strata of scores: people who fall into the same cells."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["coarsened", "score_cells", "sets_of_cells", "sturges"]


def sturges(n: int) -> int:
    """Return Sturges' number of classes, ⌈log₂ n⌉ + 1 rounded up as R's nclass.Sturges does."""
    return int(np.ceil(np.log2(n) + 1))


def coarsened(columns: Mapping[str, NDArray], bins: Mapping[str, int], default: int) -> NDArray:
    """Return the cell of each person, (n,), by intervals of equal width of numeric columns.

    Parameters
    ----------
    columns : mapping of str to ndarray
        Numbers are coarsened, and all other labels are compared as they are.
    bins : mapping of str to int
        Numbers of intervals of some columns; 0 compares the values themselves.
    default : int
        Number of intervals of the others.
    """
    codes = []
    for name, values in columns.items():
        number = bins.get(name, default)
        if np.issubdtype(values.dtype, np.number) and number > 0 and np.ptp(values) > 0:
            inner = np.linspace(values.min(), values.max(), number + 1)[1:-1]
            codes.append(np.searchsorted(inner, values, side="right"))
        else:
            codes.append(pd.factorize(values, sort=True)[0])
    together = np.zeros(len(codes[0]), dtype=np.int64)
    for code in codes:
        together = pd.factorize(together * (int(code.max()) + 1) + code)[0].astype(np.int64)
    return together


def score_cells(score: NDArray, counted: NDArray, cells: int) -> NDArray:
    """Return the stratum of each person, (n,), by quantiles of the scores of the people counted."""
    inner = np.quantile(score[counted], np.linspace(0, 1, cells + 1)[1:-1])
    return np.searchsorted(inner, score, side="right")


def sets_of_cells(cells: NDArray, target: NDArray) -> NDArray:
    """Number the cells in which both groups are present, (n,); −1 for people in others."""
    sets, labels = pd.factorize(cells)
    size = len(labels)
    both = (np.bincount(sets[target], minlength=size) > 0) & (
        np.bincount(sets[~target], minlength=size) > 0
    )
    number = np.where(both, np.cumsum(both) - 1, -1)
    return np.asarray(number[sets], dtype=np.int64)
