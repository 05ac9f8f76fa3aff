"""Completion of a symmetric matrix of which only the last rows are known."""

from __future__ import annotations

from ...backends.backend_interface import Array

__all__ = ["fill_symmetric"]


def fill_symmetric(H: Array, first: int) -> Array:
    """Fill the columns from ``first`` on from the rows from ``first`` on, in place."""
    if first:
        H[:first, first:] = H[first:, :first].T
    return H
