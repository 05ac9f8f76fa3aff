"""Sums, maxima and running sums over segments of rows, without atomic additions.

Every sum has an order that the segments alone determine: long segments are cut into pieces of at
most `PIECE` rows, each piece is summed in order, and then the pieces. PyTorch's `index_add` and
`scatter_add` would add in an order that changes between runs on a GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import embedding_bag

from .host_device_transfers import upload
from .kernels.running_sum_kernels import ScanLayout, scan_with_triton, sums_of_equal_segments
from .kernels.segment_sum_kernels import reduce_with_triton, softmax_with_triton
from .kernels.sparse_product_kernels import gather_with_triton
from .kernels.triton_or_pytorch_choice import use_triton

__all__ = ["PIECE", "Bags", "Segments", "bag_sums", "cut", "running_sums", "segment_max",
           "segment_softmax", "segment_sums", "softmax_twin"]  # fmt: skip

# The largest number of rows that one thread adds in order.
PIECE = 256
# The length of a segment from which its softmax is composed of reductions in pieces.
LONG = 4096


def cut(sizes: NDArray, piece: int) -> tuple[NDArray, NDArray]:
    """Cut consecutive segments into pieces of at most ``piece`` rows.

    Returns the boundaries of the pieces, (pieces + 1,), and of each segment's pieces among them,
    (S + 1,). An empty segment has no piece.
    """
    counts = -(-sizes // piece)
    of_segment = np.concatenate([[0], np.cumsum(counts)])
    starts = np.cumsum(sizes) - sizes
    line = np.repeat(np.arange(len(sizes)), counts)
    first = starts[line] + piece * (np.arange(of_segment[-1]) - of_segment[line])
    return np.append(first, sizes.sum()), of_segment


class Segments:
    """Consecutive segments of rows, prepared for a device.

    Parameters
    ----------
    pointers : (S + 1,) int array
        Boundaries, which may begin after row 0.
    """

    def __init__(self, pointers: NDArray, device: torch.device) -> None:
        pointers = np.asarray(pointers, np.int64)
        self.first, self.last, self.count = int(pointers[0]), int(pointers[-1]), len(pointers) - 1
        sizes = np.diff(pointers)
        self.longest = int(sizes.max(initial=0))
        # Whether all segments but a shorter last one have the same length.
        self.equal = self.count > 0 and bool((sizes[:-1] == self.longest).all())
        pieces, of_segment = cut(sizes, PIECE)
        self.n_pieces = len(pieces) - 1
        self.pieces = upload(pieces, device)
        self.of_segment = upload(of_segment, device)
        self._sizes, self._pieces, self._of_segment, self._device = (
            sizes, pieces, of_segment, device,
        )  # fmt: skip
        self._line: torch.Tensor | None = None
        self._place: torch.Tensor | None = None
        self._outer: Segments | None = None
        self._continues: torch.Tensor | None = None
        self._piece_of_row: torch.Tensor | None = None
        self._layouts: dict[bool, ScanLayout] = {}
        self._on_host = pointers.copy()  # The cache of segments must not keep the original.
        self._pointers: torch.Tensor | None = None

    @property
    def pointers(self) -> torch.Tensor:
        """Boundaries of the segments, (S + 1,)."""
        if self._pointers is None:
            self._pointers = upload(self._on_host, self._device)
        return self._pointers

    def layout(self, reverse: bool) -> ScanLayout:
        """Return the boundaries for the kernel of running sums."""
        if reverse not in self._layouts:
            rows = self.last - self.first
            self._layouts[reverse] = ScanLayout(self.pointers - self.first, rows, reverse)
        return self._layouts[reverse]

    @property
    def line(self) -> torch.Tensor:
        """The segment of each row, counted from row ``first``, (n,)."""
        if self._line is None:
            line = np.repeat(np.arange(self.count, dtype=np.int32), self._sizes)
            self._line = upload(line, self._device)
        return self._line

    @property
    def place(self) -> torch.Tensor:
        """The place of each row within its piece, (n, 1)."""
        if self._place is None:
            sizes = np.diff(self._pieces)
            rows = np.arange(self.last - self.first) - np.repeat(self._pieces[:-1], sizes)
            self._place = upload(rows.astype(np.int16)[:, None], self._device)
        return self._place

    @property
    def piece_of_row(self) -> torch.Tensor:
        """The piece of each row, (n,)."""
        if self._piece_of_row is None:
            sizes = np.diff(self._pieces)
            rows = np.repeat(np.arange(self.n_pieces, dtype=np.int32), sizes)
            self._piece_of_row = upload(rows, self._device)
        return self._piece_of_row

    @property
    def continues(self) -> torch.Tensor:
        """Whether each row but the first is in the segment of the previous row, (n − 1, 1)."""
        if self._continues is None:
            line = np.repeat(np.arange(self.count), self._sizes)
            self._continues = upload((line[1:] == line[:-1])[:, None], self._device)
        return self._continues

    @property
    def outer(self) -> Segments:
        """The segments with pieces in place of rows."""
        if self._outer is None:
            self._outer = Segments(self._of_segment, self._device)
        return self._outer


@dataclass
class Bags:
    """Sets of rows to be summed, in pieces.

    Attributes
    ----------
    indices : (entries,) int tensor
        The rows.
    values : (entries,) tensor or None
        Factors; None for one.
    pieces : (pieces + 1,) int tensor
        Boundaries among the entries.
    outer : Bags or None
        The pieces of each set; None if each set is one piece.
    reordered : (tensor, tensor) or None
        Starts and ends of the pieces in the order in which kernels sum them, if it is another.
    """

    indices: torch.Tensor
    values: torch.Tensor | None
    pieces: torch.Tensor
    outer: Bags | None
    reordered: tuple[torch.Tensor, torch.Tensor] | None = None


def kernels_apply(x: torch.Tensor) -> bool:
    """Return whether Triton kernels, which sum in double precision, serve an array."""
    return x.dtype == torch.float64 and use_triton(x)


def bag_sums(bags: Bags, x: torch.Tensor) -> torch.Tensor:
    """Sum rows of x (n, B) over sets of rows, (sets, B)."""
    sets = len(bags.pieces) - 1
    if sets == 0 or len(bags.indices) == 0 or x.shape[1] == 0:
        out = x.new_zeros((sets, x.shape[1]))
    else:
        values = bags.values
        if values is not None and values.dtype != x.dtype:
            values = values.to(x.dtype)
        if kernels_apply(x):
            pieces = bags.reordered or (bags.pieces[:-1], bags.pieces[1:])
            data = x[:0, 0] if values is None else values
            out = gather_with_triton(*pieces, bags.indices, data, x)
        else:
            narrow = bags.indices.dtype == torch.uint16  # which PyTorch does not accept
            index = bags.indices.to(bags.pieces.dtype) if narrow else bags.indices
            out = embedding_bag(
                index, x.contiguous(), bags.pieces, mode="sum", per_sample_weights=values,
                include_last_offset=True,
            )  # fmt: skip
    return out if bags.outer is None else bag_sums(bags.outer, out)


def segment_sums(x: torch.Tensor, segments: Segments) -> torch.Tensor:
    """Sum x (n, B) over segments, (S, B); an empty segment gives zero."""
    return _reduced(x, segments, "sum", 0.0)


def segment_max(x: torch.Tensor, segments: Segments) -> torch.Tensor:
    """Find the maxima of x (n, B) over segments, (S, B); −∞ for an empty segment."""
    return _reduced(x, segments, "max", -torch.inf)


def _reduced(x: torch.Tensor, segments: Segments, kind: str, empty: float) -> torch.Tensor:
    """Reduce pieces, and then the pieces of each segment."""
    if segments.n_pieces == 0 or x.shape[1] == 0:
        return x.new_full((segments.count, x.shape[1]), empty)
    rows = x[segments.first : segments.last].contiguous()
    parts = _reduced_rows(rows, segments.pieces, kind, empty)
    if segments.longest <= PIECE and segments.n_pieces == segments.count:
        return parts
    return _reduced_rows(parts, segments.of_segment, kind, empty)


def _reduced_rows(x: torch.Tensor, edges: torch.Tensor, kind: str, empty: float) -> torch.Tensor:
    """Reduce the rows between consecutive edges, each range by one thread."""
    if kernels_apply(x):
        return reduce_with_triton(x, edges[:-1], edges[1:], kind == "max")
    return torch.segment_reduce(x, kind, offsets=edges, axis=0, unsafe=True, initial=empty)


def segment_softmax(
    eta: torch.Tensor, w: torch.Tensor, segments: Segments, scale: torch.Tensor,
    shares: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Compute log Σ w e^η of each segment, (S, B), and scale × each row's share, (n, B).

    The segments cover all rows. See `Backend.segment_softmax`.
    """
    if kernels_apply(eta) and segments.longest <= LONG:
        return softmax_with_triton(eta, w, segments.pointers, scale, shares)
    return softmax_twin(eta, w, segments, scale, shares)


def softmax_twin(
    eta: torch.Tensor, w: torch.Tensor, segments: Segments, scale: torch.Tensor,
    shares: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Compute `segment_softmax` from maxima and sums of segments, of any length."""
    there = w > 0
    top = segment_max(torch.where(there, eta, -torch.inf), segments)
    used = (scale != 0) & (top > -torch.inf)
    top = torch.where(used, top, 0.0)
    line = segments.line
    rates = w * torch.exp(torch.where(there, eta - top[line], 0.0))
    rates = torch.where(there, rates, 0.0)
    total = torch.where(used, segment_sums(rates, segments), 1.0)
    empty = torch.where(scale != 0, -torch.inf, 0.0)
    logs = torch.where(used, top + torch.log(total), empty)
    if not shares:
        return logs, rates[:0]
    return logs, rates * torch.where(used, scale / total, 0.0)[line]


def running_sums(x: torch.Tensor, segments: Segments, reverse: bool = False) -> torch.Tensor:
    """Compute inclusive running sums of x (n, B) within segments.

    Segments of equal length are summed side by side, in blocks of rows. Others are summed by
    doubling: each pass adds the partial sums that end 1, 2, 4, … rows earlier in the same piece.
    Nothing is subtracted, so a small segment does not inherit the rounding of a large one.
    """
    if segments.first != 0 or segments.last != len(x):
        out = torch.zeros_like(x)
        inner = slice(segments.first, segments.last)
        out[inner] = _running(x[inner], segments, reverse)
        return out
    return _running(x, segments, reverse)


def _running(x: torch.Tensor, segments: Segments, reverse: bool) -> torch.Tensor:
    """Compute running sums of exactly the rows of the segments."""
    if len(x) == 0 or segments.longest <= 1:
        return x.clone()
    if kernels_apply(x):
        return scan_with_triton(x, segments.layout(reverse))
    if segments.equal:
        size, count, B = segments.longest, segments.count, x.shape[1]
        wide = torch.nn.functional.pad(x, (0, 0, 0, count * size - len(x)))
        wide = wide.reshape(count, size, B)
        out = sums_of_equal_segments(wide.flip(1) if reverse else wide)
        return (out.flip(1) if reverse else out).reshape(count * size, B)[: len(x)]
    out = x.clone()
    place = segments.place
    if reverse:
        sizes = (segments.pieces[1:] - segments.pieces[:-1])[segments.piece_of_row.long()]
        place = (sizes - 1)[:, None] - place
    step, longest = 1, min(segments.longest, PIECE)
    while step < longest:
        if reverse:
            out[:-step].add_(torch.where(place[:-step] >= step, out[step:], 0.0))
        else:
            out[step:].add_(torch.where(place[step:] >= step, out[:-step], 0.0))
        step *= 2
    if segments.longest <= PIECE:
        return out
    ends = segments.pieces[:-1] if reverse else segments.pieces[1:] - 1
    totals = out[ends]
    before = _running(totals, segments.outer, reverse)
    shifted = torch.zeros_like(before)
    inside = segments.outer.continues
    if reverse:
        shifted[:-1] = torch.where(inside, before[1:], 0.0)
    else:
        shifted[1:] = torch.where(inside, before[:-1], 0.0)
    return out.add_(shifted[segments.piece_of_row.long()])
