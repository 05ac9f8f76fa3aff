"""Validation of columns, shared by all conversions to a `Design`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from ..data.vector_checks import LARGEST_SQUARABLE
from ..errors import DataError

__all__ = ["column_word", "refuse_empty", "refuse_extreme", "refuse_twice"]


def column_word(names: Sequence[str] | None, j: int) -> str:
    """Format a column for messages, by its name or its number."""
    return repr(names[j]) if names is not None else f"{j} (counted from 0)"


def refuse_empty(shape: tuple[int, int]) -> None:
    """Raise if a matrix has no rows or columns, with the message that scikit-learn expects."""
    if shape[0] == 0:
        raise DataError(f"Found array with 0 sample(s) (shape={shape}): X has no rows.")
    if shape[1] == 0:
        raise DataError(
            f"0 feature(s) (shape={shape}) while a minimum of 1 is required: X has no columns."
        )


def refuse_twice(names: Sequence[Hashable]) -> None:
    """Raise if column names are not unique."""
    seen = set()
    for name in names:
        if name in seen:
            raise DataError(f"X has more than one column named {name!r}; rename one.")
        seen.add(name)


def refuse_extreme(scale: np.ndarray, names: Sequence[str] | None) -> None:
    """Raise if a column's unit makes variances of coefficients overflow or underflow."""
    bad = ~((scale >= 1 / LARGEST_SQUARABLE) & (scale <= LARGEST_SQUARABLE))
    if bad.any():
        j = int(bad.argmax())
        raise DataError(
            f"X's column {column_word(names, j)} holds numbers of about {scale[j]:.1g}, whose "
            "squares no float can hold. Give it in another unit."
        )
