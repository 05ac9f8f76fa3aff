"""Checks of the shapes of arguments, which kernels read without checks of their own."""

from __future__ import annotations

from .backend_interface import Array, Lines

__all__ = ["require_rows", "require_square", "require_weights"]


def require_rows(x: Array, rows: int) -> None:
    """Raise `ValueError` unless a factor of a product with lines has the given number of rows."""
    if x.shape[0] != rows:
        raise ValueError(f"This product needs an array of {rows} rows, not {x.shape[0]}.")


def require_weights(lines: Lines, v: Array, last: int | None = None) -> None:
    """Raise `ValueError` unless v has one number for each line, and ``last`` is within them."""
    n = len(lines.starts)
    if tuple(v.shape) != (n,):
        raise ValueError(f"Sums over {n} lines need {n} weights, not an array of {v.shape}.")
    if last is not None and last > n:
        raise ValueError(f"Sums over {n} lines cannot end at line {last}.")


def require_square(lines: Lines, G: Array) -> None:
    """Raise `ValueError` unless G has a row and a column for each position of the lines."""
    if tuple(G.shape) != (lines.width, lines.width):
        raise ValueError(
            f"A Gram matrix of lines of {lines.width} numbers cannot be added to one of {G.shape}."
        )
