"""Offsets of models in which what is common to a stratum cancels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DataError
from .vector_checks import MAX_OFFSET_RANGE, check_strata

__all__ = ["offsets_within_strata"]

FAR = 30.0  # offsets below leave all but two of a float's digits to what is added to them


def offsets_within_strata(offset: np.ndarray, strata: Any, weights: np.ndarray) -> np.ndarray:
    """Offsets against the largest of their stratum, where there are any so far from zero.

    Of 10⁶ + η only ten digits of η are left, and strata may be further apart than exp can hold:
    neither matters to a likelihood in which a stratum's constant cancels.

    Parameters
    ----------
    offset : (n,) array
    strata : (n,) labels
    weights : (n,) array

    Raises
    ------
    DataError
        Where offsets of one stratum are further apart than exp can hold.
    """
    if np.abs(offset).max(initial=0.0) < FAR:
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
