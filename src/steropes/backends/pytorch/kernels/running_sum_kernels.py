"""Running sums over rows within segments, in chunks of a fixed number of rows.

A first kernel sums each chunk from its last boundary on, a second carries the sums from chunk to
chunk, and a third adds the carried sums to the running sums of each chunk. The order of additions
depends on the rows and boundaries only. Nothing is subtracted, so that segments do not share
rounding errors.
"""

from __future__ import annotations

from functools import cached_property

import torch

from .triton_or_pytorch_choice import jit, launch, next_power_of_two, tl, use_triton

__all__ = [
    "CHUNK",
    "ScanLayout",
    "add_within",
    "carry",
    "scan",
    "scan_twin",
    "scan_with_triton",
    "sums_of_equal_segments",
]

# The number of rows of a chunk, which one program sums; a power of two, as Triton requires.
CHUNK = 128
# The number of chunks that one step of the carrying kernel combines; a power of two.
CARRIED = 256
# The largest number of replicates that one program sums; a power of two.
MAX_LANES = 16


class ScanLayout:
    """Boundaries of segments for scans in one direction.

    Positions count from the end if ``reverse``.

    Parameters
    ----------
    pointers : (S + 1,) int64 tensor
        Boundaries of the segments among the n rows.
    n : int
        Number of rows.

    Attributes
    ----------
    begins : (n,) uint8 tensor
        Whether each position begins a segment.
    first, last : (chunks,) int32 tensors
        First and last beginning in each chunk; `CHUNK` and −1 without any.
    longest : int
        Length of the longest segment.
    """

    def __init__(self, pointers: torch.Tensor, n: int, reverse: bool = False) -> None:
        self.n, self.reverse = n, reverse
        self.chunks = -(-n // CHUNK)
        at = n - pointers[1:] if reverse else pointers[:-1]
        begins = torch.zeros(self.chunks * CHUNK, dtype=torch.uint8, device=pointers.device)
        if n:
            begins[at[pointers.diff() > 0]] = 1
            begins[0] = 1  # Rows before the first segment form one as well.
        place = torch.arange(CHUNK, dtype=torch.int32, device=pointers.device)
        here = begins.reshape(-1, CHUNK) > 0
        self.first = torch.where(here, place, CHUNK).amin(1) if n else place[:0]
        self.last = torch.where(here, place, -1).amax(1) if n else place[:0]
        self.begins = begins[:n]
        edges = torch.nonzero(self.begins)[:, 0]
        ends = torch.cat([edges, edges.new_tensor([n])])
        self.longest = int(ends.diff().amax()) if n else 0

    @cached_property
    def passes(self) -> list[torch.Tensor]:
        """For steps of 1, 2, 4, … rows, whether a segment begins among the last ``step`` rows.

        Each is for the rows from the step on, (n − step, 1).
        """
        begun, step = self.begins[:, None] > 0, 1
        out = []
        while step < self.longest:
            out.append(begun[step:])
            begun = torch.cat([begun[:step], begun[step:] | begun[:-step]])
            step *= 2
        return out


@jit
def _add_pairs(reset, value, next_reset, next_value):
    """Combine two stretches of a segmented sum: (any boundary, sum from the last one on)."""
    return reset | next_reset, tl.where(next_reset != 0, next_value, value + next_value)


@jit
def add_within(value, begin):
    """Compute the running sums of a chunk of rows, (CHUNK, LANES), that restart at boundaries."""
    _, sums = tl.associative_scan((begin, value), 0, _add_pairs)
    return sums


@jit
def _chunk_sums(
    x, last, totals, n, B, REVERSE: tl.constexpr, CHUNK: tl.constexpr, LANES: tl.constexpr
):
    """Sum each chunk of x (n, B) from its last boundary on."""
    c = tl.program_id(0)
    b = tl.program_id(1) * LANES + tl.arange(0, LANES)
    i = tl.arange(0, CHUNK)
    at = c.to(tl.int64) * CHUNK + i
    row = n - 1 - at if REVERSE else at
    counted = (at < n) & (i >= tl.load(last + c))
    value = tl.load(
        x + row[:, None] * B + b[None, :], mask=counted[:, None] & (b < B)[None, :], other=0.0
    )
    tl.store(totals + c.to(tl.int64) * B + b, tl.sum(value, 0), mask=b < B)


@jit
def _carry(last, totals, before, chunks, B, CARRIED: tl.constexpr, LANES: tl.constexpr):
    """Compute the sum that each chunk continues: exclusive segmented running sums of totals."""
    b = tl.program_id(0) * LANES + tl.arange(0, LANES)
    i = tl.arange(0, CARRIED)
    running = tl.zeros((LANES,), tl.float64)
    for c in range(0, chunks, CARRIED):
        at = (c + i).to(tl.int64)
        mask = (at < chunks)[:, None] & (b < B)[None, :]
        value = tl.load(totals + at[:, None] * B + b[None, :], mask=mask, other=0.0)
        reset = (tl.load(last + at, mask=at < chunks, other=-1) >= 0).to(tl.int32)
        flags = tl.broadcast_to(reset[:, None], (CARRIED, LANES))
        seen, sums = tl.associative_scan((flags, value), 0, _add_pairs)
        sums += tl.where(seen == 0, running[None, :], 0.0)
        tl.store(before + (at + 1)[:, None] * B + b[None, :], sums, mask=mask)
        running = tl.sum(tl.where((i == CARRIED - 1)[:, None], sums, 0.0), 0)


@jit
def _scan_chunks(
    x, begins, first, before, out, n, B,
    REVERSE: tl.constexpr, CHUNK: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Compute the running sums of each chunk, continuing those of the chunk before."""
    c = tl.program_id(0)
    b = tl.program_id(1) * LANES + tl.arange(0, LANES)
    i = tl.arange(0, CHUNK)
    at = c.to(tl.int64) * CHUNK + i
    row = n - 1 - at if REVERSE else at
    mask = (at < n)[:, None] & (b < B)[None, :]
    value = tl.load(x + row[:, None] * B + b[None, :], mask=mask, other=0.0)
    begin = tl.load(begins + at, mask=at < n, other=0).to(tl.int32)
    sums = add_within(value, tl.broadcast_to(begin[:, None], (CHUNK, LANES)))
    carried = tl.load(before + c.to(tl.int64) * B + b, mask=b < B, other=0.0)
    sums += tl.where((i < tl.load(first + c))[:, None], carried[None, :], 0.0)
    tl.store(out + row[:, None] * B + b[None, :], sums, mask=mask)


def carry(layout: ScanLayout, totals: torch.Tensor) -> torch.Tensor:
    """Compute the sum that each chunk continues from the totals (chunks, B), by the kernel."""
    B = totals.shape[1]
    lanes = min(next_power_of_two(B), MAX_LANES)
    before = torch.zeros((layout.chunks + 1, B), dtype=torch.float64, device=totals.device)
    launch(
        _carry, (-(-B // lanes),), layout.last, totals, before, layout.chunks, B,
        CARRIED=CARRIED, LANES=lanes,
    )  # fmt: skip
    return before


def scan_with_triton(x: torch.Tensor, layout: ScanLayout) -> torch.Tensor:
    """Compute inclusive running sums of x (n, B) within segments by the kernels."""
    n, B = x.shape
    x, lanes = x.contiguous(), min(next_power_of_two(B), MAX_LANES)
    grid = (layout.chunks, -(-B // lanes))
    sizes = {"REVERSE": layout.reverse, "CHUNK": CHUNK, "LANES": lanes}
    totals = torch.empty((layout.chunks, B), dtype=torch.float64, device=x.device)
    launch(_chunk_sums, grid, x, layout.last, totals, n, B, **sizes)
    before = carry(layout, totals)
    out = torch.empty_like(x)
    launch(_scan_chunks, grid, x, layout.begins, layout.first, before, out, n, B, **sizes)
    return out


def sums_of_equal_segments(x: torch.Tensor) -> torch.Tensor:
    """Compute running sums along the second axis of x (S, rows, B), in blocks of `CHUNK` rows."""
    S, n, B = x.shape
    if n <= CHUNK:
        return torch.cumsum(x, 1)
    blocks = -(-n // CHUNK)
    out = torch.nn.functional.pad(x, (0, 0, 0, blocks * CHUNK - n))
    out = torch.cumsum(out.reshape(S, blocks, CHUNK, B), 2)
    out[:, 1:].add_(sums_of_equal_segments(out[:, :, -1])[:, :-1, None])
    return out.reshape(S, blocks * CHUNK, B)[:, :n]


def scan_twin(x: torch.Tensor, layout: ScanLayout) -> torch.Tensor:
    """Compute `scan_with_triton` by PyTorch, doubling the number of summed rows in each pass."""
    sums, step = (x.flip(0) if layout.reverse else x).clone(), 1
    for begun in layout.passes:
        sums[step:].add_(torch.where(begun, 0.0, sums[:-step]))
        step *= 2
    return sums.flip(0) if layout.reverse else sums


def scan(x: torch.Tensor, layout: ScanLayout) -> torch.Tensor:
    """Compute inclusive running sums of x (n, B) within segments, in the layout's direction."""
    return scan_with_triton(x, layout) if use_triton(x) else scan_twin(x, layout)
