"""Ranges of entries cut into pieces of bounded length, so that long lines occupy many programs."""

from __future__ import annotations

from functools import cached_property

import torch

__all__ = ["PIECE", "Pieces", "cut_pieces", "offsets_of", "positions_of"]

# The number of entries of a piece.
PIECE = 256


class Pieces:
    """Pieces of lines: line a consists of the pieces pointers[a] … pointers[a + 1] − 1.

    Attributes
    ----------
    starts, ends : (P,) int64 tensors
        Entries of each piece.
    pointers : (lines + 1,) int64 tensor
    base : (P,) int64 tensor or None
        Number to add to the stored indices of a piece, for columns that are stored as the lower 16
        bits of row numbers in bands of 65,536 rows.
    """

    def __init__(
        self,
        starts: torch.Tensor,
        ends: torch.Tensor,
        pointers: torch.Tensor,
        base: torch.Tensor | None = None,
    ) -> None:
        self.starts, self.ends, self.pointers, self.base = starts, ends, pointers, base

    def __len__(self) -> int:
        """Return the number of pieces."""
        return len(self.starts)

    @cached_property
    def whole_lines(self) -> bool:
        """Whether each line consists of exactly one piece."""
        return len(self) == len(self.pointers) - 1 and bool((self.pointers.diff() == 1).all())

    @cached_property
    def offsets(self) -> torch.Tensor:
        """Position of each piece when all are stored without gaps, (P + 1,)."""
        return offsets_of(self.ends - self.starts)

    @cached_property
    def positions(self) -> torch.Tensor | None:
        """Position of every entry, or None if the pieces are stored without gaps from zero."""
        starts, offsets = self.starts, self.offsets
        return None if torch.equal(starts, offsets[:-1]) else positions_of(starts, self.ends)


def offsets_of(size: torch.Tensor) -> torch.Tensor:
    """Return the boundaries of consecutive ranges with the given sizes, (ranges + 1,)."""
    out = torch.zeros(len(size) + 1, dtype=torch.int64, device=size.device)
    torch.cumsum(size, 0, out=out[1:])
    return out


def positions_of(starts: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """List the positions starts[a] … ends[a] − 1 of all ranges, in their order."""
    size = ends - starts
    offsets = offsets_of(size)
    shift = torch.repeat_interleave(starts - offsets[:-1], size)
    return torch.arange(len(shift), device=starts.device) + shift


def cut_pieces(
    starts: torch.Tensor, ends: torch.Tensor, size: int = PIECE, base: torch.Tensor | None = None
) -> Pieces:
    """Cut the ranges starts[a] … ends[a] − 1 into pieces of at most ``size`` entries.

    An empty range has no piece. ``base`` (ranges,) is passed on to the pieces.
    """
    count = torch.div(ends - starts + (size - 1), size, rounding_mode="floor").clamp_min(0)
    pointers = offsets_of(count)
    line = torch.repeat_interleave(torch.arange(len(count), device=starts.device), count)
    first = starts[line] + size * (
        torch.arange(len(line), device=starts.device) - pointers[:-1][line]
    )
    own = None if base is None else base[line]
    return Pieces(first, torch.minimum(first + size, ends[line]), pointers, own)
