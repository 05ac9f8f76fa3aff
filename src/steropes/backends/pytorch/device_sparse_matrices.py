"""Sparse matrices on a device, stored by rows or by columns."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .device_array import DeviceArray
from .device_segment_sums import PIECE, Bags, cut
from .host_device_transfers import download, upload
from .kernels.segment_sum_kernels import ranges
from .kernels.triton_or_pytorch_choice import use_triton

__all__ = ["DeviceLines", "index_type"]


def index_type(width: int) -> torch.dtype:
    """Return the narrowest type of positions in lines of a length."""
    if width <= 1 << 16:
        return torch.uint16
    return torch.int32 if width <= 1 << 31 else torch.int64


def _at(indices: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Select indices; PyTorch cannot select from unsigned integers of 16 bits."""
    if indices.dtype == torch.uint16:
        return indices.view(torch.int16)[at].view(torch.uint16)
    return indices[at]


def _together(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Concatenate indices; PyTorch cannot join unsigned integers of 16 bits."""
    if a.dtype == torch.uint16:
        return torch.cat([a.view(torch.int16), b.view(torch.int16)]).view(torch.uint16)
    return torch.cat([a, b])


class DeviceLines:
    """A sparse matrix by lines with its entries on a device; see `SparseLines`.

    The number of entries of each line is known on the host, so that no length has to be read
    from the device.

    Parameters
    ----------
    starts, sizes : (lines,) int arrays of the host
        Start and number of entries of each line.
    indices, data : tensors
        As in `SparseLines`, shared by all lines that `take` selects.
    width : int
        Length of a line.
    transpose : DeviceLines, optional
        The same entries by columns.
    on_device : (tensor, tensor), optional
        ``starts`` and ``sizes`` on the device, if they are there.
    """

    def __init__(
        self,
        starts: NDArray[np.int64],
        sizes: NDArray[np.int64],
        indices: torch.Tensor,
        data: torch.Tensor,
        width: int,
        transpose: DeviceLines | None = None,
        on_device: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        self._starts, self._sizes = starts, sizes
        self._indices, self._data, self.width = indices, data, width
        self._transpose = transpose
        self._bags: Bags | None = None
        self._sent = on_device
        self._offsets = np.concatenate([[0], np.cumsum(sizes)])

    # -- the interface of SparseLines -------------------------------------------------------------

    @property
    def starts(self) -> DeviceArray:
        """Start of each line's entries, (lines,)."""
        return DeviceArray(self._on_device[0])

    @property
    def ends(self) -> DeviceArray:
        """End of each line's entries, (lines,)."""
        return DeviceArray(self._on_device[0] + self._on_device[1])

    @property
    def indices(self) -> DeviceArray:
        """Positions of the entries within their lines."""
        return DeviceArray(self._indices)

    @property
    def data(self) -> DeviceArray:
        """Values of the entries, or empty."""
        return DeviceArray(self._data)

    @cached_property
    def _on_device(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Starts and numbers of entries of the lines, on the device."""
        device = self._indices.device
        return self._sent or (upload(self._starts, device), upload(self._sizes, device))

    @property
    def nnz(self) -> int:
        """Total number of entries."""
        return int(self._offsets[-1])

    def __len__(self) -> int:
        return len(self._starts)

    def take(self, lines: NDArray) -> DeviceLines:
        """Select lines, in any order, which share the entries."""
        lines = np.asarray(lines)
        starts, sizes = (DeviceArray(x)[lines].tensor for x in self._on_device)
        return DeviceLines(
            self._starts[lines], self._sizes[lines], self._indices, self._data, self.width, None,
            (starts, sizes),
        )  # fmt: skip

    def _replace(self, **changes: Any) -> DeviceLines:
        """Return the same positions with other values or another width."""
        data, width = changes.get("data"), changes.get("width", self.width)
        tensor = self._data if data is None else data.tensor
        out = DeviceLines(self._starts, self._sizes, self._indices, tensor, width)
        if data is None or len(tensor) == 0:
            out._bags = self._bags
        return out

    # -- for the backend --------------------------------------------------------------------------

    @property
    def valued(self) -> bool:
        """Whether entries have values other than one."""
        return len(self._data) > 0

    @property
    def offsets(self) -> NDArray[np.int64]:
        """Boundaries of the lines among their own entries, (lines + 1,)."""
        return self._offsets

    def entries(
        self, first: int = 0, last: int | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Return lines, indices and values of the entries of the lines first … last − 1."""
        last = len(self) if last is None else last
        device = self._indices.device
        total = int(self._offsets[last] - self._offsets[first])
        lengths = self._on_device[1][first:last]
        line = torch.repeat_interleave(
            torch.arange(last - first, device=device), lengths, output_size=total
        )
        begin, end = self._run(first, last)
        if begin is not None:
            return line, self._indices[begin:end], self._data[begin:end] if self.valued else None
        at = ranges(self._on_device[0][first:last], lengths, total)
        return line, _at(self._indices, at), self._data[at] if self.valued else None

    def _run(self, first: int, last: int) -> tuple[int | None, int | None]:
        """Return the range of consecutive entries of some lines; None if there are gaps."""
        starts, sizes = self._starts[first:last], self._sizes[first:last]
        if not len(starts):
            return 0, 0
        if (starts[1:] == starts[:-1] + sizes[:-1]).all():
            return int(starts[0]), int(starts[-1] + sizes[-1])
        return None, None

    def bags(self) -> Bags:
        """Return the entries of each line as a set of rows to be summed."""
        if self._bags is None:
            device = self._indices.device
            begin, end = self._run(0, len(self))
            if begin is not None:
                index, data = self._indices[begin:end], self._data[begin:end]
            else:
                at = ranges(*self._on_device, self.nnz)
                data = self._data[at] if self.valued else self._data
                index = _at(self._indices, at)
            wide = self.nnz > np.iinfo(np.int32).max
            dtype = torch.int64 if wide else torch.int32
            if not (index.dtype == torch.uint16 and use_triton(index)):  # The kernel reads them.
                index = index.to(dtype)
            pieces, of_line = cut(self._sizes, PIECE)
            count, outer, reordered = len(pieces) - 1, None, None
            edges = upload(pieces, device).to(dtype)
            if count != len(self) or (self._sizes == 0).any():
                place = torch.arange(count, device=device)
                if count > len(self) and use_triton(index):
                    # Pieces of long lines that are summed at a time read rows near each other,
                    # which the cache then holds.
                    order = torch.argsort(_at(index, edges[:-1]).long(), stable=True)
                    reordered = edges[:-1][order], edges[1:][order]
                    place = torch.empty_like(order).scatter_(0, order, place)
                outer = Bags(place, None, upload(of_line, device), None)
            self._bags = Bags(index, data if self.valued else None, edges, outer, reordered)
        return self._bags

    def transpose(self) -> DeviceLines:
        """Return the same entries by columns, (width lines), sorted once."""
        if self._transpose is None:
            line, index, data = self.entries()
            by = torch.argsort(index.long(), stable=True)
            sizes = download(torch.bincount(index.long(), minlength=self.width))
            self._transpose = DeviceLines(
                np.cumsum(sizes) - sizes, sizes, line[by].to(index_type(len(self))),
                self._data if data is None else data[by], len(self),
            )  # fmt: skip
        return self._transpose

    def with_columns(self, new: DeviceLines, first: int, width: int) -> DeviceLines:
        """Append the entries of other columns, numbered from ``first``, to each line.

        Both matrices have all their entries in order without gaps. Entries keep their order within
        a line, and the columns of the transpose follow those that are there.
        """
        device, sizes = self._indices.device, self._sizes + new._sizes
        starts = np.cumsum(sizes) - sizes
        total, valued = self.nnz + new.nnz, self.valued or new.valued
        index = torch.empty(
            total, dtype=torch.int32 if width <= 1 << 31 else torch.int64, device=device
        )
        data = torch.ones(total if valued else 0, dtype=torch.float64, device=device)
        lengths = self._on_device[1] + new._on_device[1]
        begin = torch.cumsum(lengths, 0) - lengths
        parts = ((self, begin - self._on_device[0], 0), (new, begin + self._on_device[1], first))
        for part, shift, number in parts:
            line, own, values = part.entries()
            if part is new:
                shift = shift - new._on_device[0]
            at = torch.arange(part.nnz, device=device) + shift[line]
            index[at] = own.to(index.dtype) + number
            if values is not None:
                data[at] = values
        mine, other = self.transpose(), new.transpose()
        entries = [
            x._data if x.valued or not valued else torch.ones_like(x._indices, dtype=torch.float64)
            for x in (mine, other)
        ]
        columns = DeviceLines(
            np.concatenate([mine._starts[:first], other._starts + len(mine._indices)]),
            np.concatenate([mine._sizes[:first], other._sizes]),
            _together(mine._indices, other._indices), torch.cat(entries), len(self),
        )  # fmt: skip
        index = index.to(index_type(width))
        return DeviceLines(starts, sizes, index, data, width, columns, (begin, lengths))
