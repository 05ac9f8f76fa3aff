"""Products of sparse lines with B vectors, as kernel 1 of the backend.

Lines are those of `steropes.backends.protocols.SparseLines`, cut into `Pieces`. Each program
multiplies a few pieces: 32 with one replicate, two with ten, and one with a hundred.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .segment_reductions import lane_tile, reduce_twin, reduce_with_triton
from .sparse_line_pieces import Pieces
from .triton_or_twin import jit, launch, tl, use_triton

__all__ = ["gather", "gather_twin", "gather_with_triton"]


@jit
def _gather(
    starts, ends, base, indices, data, D, out, n, B,
    LINES: tl.constexpr, UNROLL: tl.constexpr, LANES: tl.constexpr,
    VALUED: tl.constexpr, BANDED: tl.constexpr,
):  # fmt: skip
    """out[a] = Σ_k data[k] D[base[a] + indices[k]] over the entries k of piece a."""
    a = tl.program_id(0).to(tl.int64) * LINES + tl.arange(0, LINES)
    b = tl.program_id(1) * LANES + tl.arange(0, LANES)
    here, lane = a < n, b < B
    first = tl.load(starts + a, mask=here, other=0).to(tl.int64)
    size = tl.load(ends + a, mask=here, other=0) - first
    total = tl.zeros((LINES, UNROLL, LANES), tl.float64)
    for k in range(0, tl.max(size, 0), UNROLL):
        u = k + tl.arange(0, UNROLL)
        inside = u[None, :] < size[:, None]
        at = first[:, None] + u[None, :]
        row = tl.load(indices + at, mask=inside, other=0).to(tl.int64)
        if BANDED:
            row += tl.load(base + a, mask=here, other=0)[:, None]
        entry = inside[:, :, None] & lane[None, None, :]
        value = tl.load(D + row[:, :, None] * B + b[None, None, :], mask=entry, other=0.0)
        if VALUED:
            value *= tl.load(data + at, mask=inside, other=0.0)[:, :, None]
        total += value
    sums = tl.sum(total, 1)
    tl.store(out + a[:, None] * B + b[None, :], sums, mask=here[:, None] & lane[None, :])


def gather_with_triton(
    pieces: Pieces, indices: torch.Tensor, data: torch.Tensor, D: torch.Tensor
) -> torch.Tensor:
    """Multiply each piece with D (width, B) by the kernel, (pieces, B)."""
    n, B = len(pieces), D.shape[1]
    lines, lanes = lane_tile(B)
    out = torch.empty((n, B), dtype=torch.float64, device=D.device)
    D = D.contiguous()
    valued, banded = len(data) > 0, pieces.base is not None
    launch(
        _gather, (-(-n // lines), -(-B // lanes)), pieces.starts, pieces.ends,
        pieces.base if banded else pieces.starts, indices, data if valued else D, D, out, n, B,
        LINES=lines, UNROLL=8, LANES=lanes, VALUED=valued, BANDED=banded,
    )  # fmt: skip
    return out


def gather_twin(
    pieces: Pieces, indices: torch.Tensor, data: torch.Tensor, D: torch.Tensor
) -> torch.Tensor:
    """Compute the same as `gather_with_triton` as sums of the rows of D in bags."""
    if len(pieces) == 0:
        return D.new_zeros((0, D.shape[1]))
    offsets, at = pieces.offsets, pieces.positions
    entries = slice(0, int(offsets[-1])) if at is None else at
    if indices.dtype == torch.uint16:  # torch indexes no tensors of this type
        indices = indices.view(torch.int16)
    row = indices[entries].to(torch.int64)
    if indices.dtype == torch.int16:
        row &= 0xFFFF
    if pieces.base is not None:
        row += torch.repeat_interleave(pieces.base, offsets.diff())
    weights = data[entries] if len(data) else None
    return F.embedding_bag(
        row, D.contiguous(), offsets, mode="sum", per_sample_weights=weights,
        include_last_offset=True,
    )  # fmt: skip


def gather(
    pieces: Pieces, indices: torch.Tensor, data: torch.Tensor, D: torch.Tensor
) -> torch.Tensor:
    """Multiply each line with D (width, B), (lines, B).

    Parameters
    ----------
    pieces : Pieces
    indices : (entries,) int tensor
        Of 16 (unsigned), 32 or 64 bits.
    data : (entries,) float64 tensor
        Empty if all entries are one.
    D : (width, B) float64 tensor
    """
    kernel = use_triton(D)
    parts = (gather_with_triton if kernel else gather_twin)(pieces, indices, data, D)
    if pieces.whole_lines:
        return parts
    p = pieces.pointers
    return (reduce_with_triton if kernel else reduce_twin)(parts, p[:-1], p[1:])
