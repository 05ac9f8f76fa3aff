"""A sparse matrix by lines on the device, and ranges cut into pieces of fixed length."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

from ..protocols import Array

__all__ = ["DeviceLines", "Pieces", "cut"]


class Pieces(NamedTuple):
    """Ranges cut into pieces: those of range a are pointers[a] … pointers[a + 1]."""

    starts: Array
    ends: Array
    line: Array
    pointers: Array

    def __len__(self) -> int:
        return len(self.starts)


def cut(xp: ModuleType, starts: Array, ends: Array, size: int) -> Pieces:
    """Cut the ranges starts[a] … ends[a] into pieces of at most ``size``; none for an empty one."""
    count = (ends - starts + (size - 1)) // size
    stop = xp.cumsum(count)
    total = int(stop[-1]) if len(starts) else 0
    piece = xp.arange(total)
    line = xp.searchsorted(stop, piece, side="right")
    first = starts[line] + size * (piece - (stop - count)[line])
    pointers = xp.concatenate([xp.zeros(1, stop.dtype), stop])
    return Pieces(first, xp.minimum(first + size, ends[line]), line, pointers)


class DeviceLines:
    """The same as `steropes.backends.cpu.Lines`, with arrays on the device.

    Keeps its pieces and its transpose once they have been asked for.
    """

    def __init__(self, starts: Array, ends: Array, indices: Array, data: Array, width: int) -> None:
        self.starts, self.ends = starts, ends
        self.indices, self.data, self.width = indices, data, width
        self.pieces: Pieces | None = None
        self.transpose: DeviceLines | None = None

    @property
    def nnz(self) -> int:
        """Number of entries."""
        return int((self.ends - self.starts).sum())

    def take(self, lines: Array) -> DeviceLines:
        """Return some lines, sharing the entries."""
        return DeviceLines(
            self.starts[lines], self.ends[lines], self.indices, self.data, self.width
        )

    def _replace(self, data: Array) -> DeviceLines:
        """Return the same places with other values."""
        return DeviceLines(self.starts, self.ends, self.indices, data, self.width)
