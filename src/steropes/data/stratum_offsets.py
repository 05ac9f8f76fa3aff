"""Subtraction of large offsets within strata, where a constant per stratum cancels."""

from __future__ import annotations

import numpy as np

from ..errors import DataError
from .input_types import LabelsLike
from .vector_checks import MAX_OFFSET_RANGE, check_strata

__all__ = ["offsets_within_strata"]

# Smaller offsets cost at most two of a float's digits and are left unchanged.
LARGE = 30.0


def offsets_within_strata(
    offset: np.ndarray, strata: LabelsLike, weights: np.ndarray
) -> np.ndarray:
    """Subtract the largest offset of each stratum if some offsets are far from zero.

    A sum such as 10⁶ + η keeps only ten digits of η, and the offsets of different strata may
    differ by more than exp can represent. Neither matters to a likelihood in which a constant
    per stratum cancels.

    Parameters
    ----------
    offset : (n,) array
    strata : (n,) labels
    weights : (n,) array

    Returns
    -------
    (n,) array

    Raises
    ------
    DataError
        If offsets within a stratum differ by more than exp can represent.
    """
    if np.abs(offset).max(initial=0.0) < LARGE:
        return offset
    codes = check_strata(strata, len(offset))
    assert codes is not None
    counted = weights > 0
    low, top = np.full((2, int(codes.max()) + 1), 0.0)
    low[codes[counted]], top[codes[counted]] = np.inf, -np.inf
    np.minimum.at(low, codes[counted], offset[counted])
    np.maximum.at(top, codes[counted], offset[counted])
    apart = top - low > MAX_OFFSET_RANGE
    if apart.any():
        own = np.flatnonzero(counted & (codes == int(apart.argmax())))
        a, b = (int(own[k]) for k in (offset[own].argmin(), offset[own].argmax()))
        raise DataError(
            "The offsets of a stratum are further apart than exp can hold: "
            f"{offset[a]:g} in row {a} and {offset[b]:g} in row {b}. Check their unit: an offset "
            "is added to a logarithm."
        )
    return offset - top[codes]
