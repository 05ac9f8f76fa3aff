"""Days on which each covariate of a case series, such as an exposure window, applies."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import NDArray

__all__ = ["Spans"]


@dataclass(frozen=True)
class Spans:
    """Spans of the cases a … b − 1, sorted by case, column and day.

    Attributes
    ----------
    case, column, first, last : (m,) int64 arrays
    """

    a: int
    b: int
    case: NDArray
    column: NDArray
    first: NDArray
    last: NDArray
