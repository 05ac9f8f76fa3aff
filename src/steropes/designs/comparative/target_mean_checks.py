"""Target means of entropy balancing that the values of a group can reach."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.errors import DataError, listed

__all__ = ["NAMED", "base_within_ranges", "group_name"]

# Names of columns that a message lists.
NAMED = 5
# Means that differ from an end of the range by at most this share of it are at that end.
AT_END = 1e-12


def group_name(code: int) -> str:
    """Return the name of a group in messages."""
    return f"{'target' if code == 1 else 'comparator'} group (treatment {code})"


def base_within_ranges(
    columns: CovariateColumns, base: NDArray, goal: NDArray, delta: NDArray, code: int
) -> NDArray:
    """Refuse target means outside the range of a column; return the base weights.

    A mean at the end of the range of a column that is balanced exactly needs a weight of zero for
    all rows with other values, which no finite coefficient gives.
    """
    while True:
        low, high = columns.extremes(base > 0)
        near = AT_END * np.maximum(np.abs(low), np.abs(high))
        outside = (goal < low - delta - near) | (goal > high + delta + near)
        if outside.any():
            names = [columns.names[j] for j in np.flatnonzero(outside)]
            raise DataError(
                f"No weights of the {group_name(code)} give the target mean of "
                f"{listed(names, NAMED)}: "
                "it lies outside the range of its values. Raise tolerance, or leave these columns "
                "out."
            )
        exact = (delta == 0) & (low < high)
        at_low, at_high = exact & (goal <= low + near), exact & (goal >= high - near)
        ends = np.flatnonzero(at_low | at_high)
        if not len(ends):
            return base
        base = base.copy()
        for j in ends:
            end = low[j] if at_low[j] else high[j]
            base[np.abs(columns.column(int(j)) - end) > near[j]] = 0.0
        if not base.any():
            raise DataError(
                f"No weights of the {group_name(code)} give the target means of "
                f"{listed([columns.names[j] for j in ends], NAMED)} together. Raise tolerance, or "
                "leave some of these columns out."
            )
