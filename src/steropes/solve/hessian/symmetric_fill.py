"""A symmetric matrix of which only the rows from some place on are known."""

from __future__ import annotations

from ...backends.face import Array

__all__ = ["mirrored"]


def mirrored(H: Array, first: int) -> Array:
    """The same matrix, with its columns from ``first`` on made of its rows from there on."""
    if first:
        H[:first, first:] = H[first:, :first].T
    return H
