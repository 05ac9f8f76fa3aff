"""Products of sparse rows or columns with several vectors on a GPU (kernel 1 of the backend).

Lines are those of `steropes.backends.backend_interface.SparseLines`, cut into pieces. Each program
multiplies a few pieces: 32 with one replicate, two with ten, and one with a hundred.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .segment_sum_kernels import lane_tile, ranges
from .triton_or_pytorch_choice import jit, launch, tl

__all__ = ["gather_twin", "gather_with_triton"]


@jit
def _gather(
    starts, ends, indices, data, D, out, n, B,
    LINES: tl.constexpr, UNROLL: tl.constexpr, LANES: tl.constexpr, VALUED: tl.constexpr,
):  # fmt: skip
    """out[a] = Σ_k data[k] D[indices[k]] over the entries k = starts[a] … ends[a] − 1."""
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
        entry = inside[:, :, None] & lane[None, None, :]
        value = tl.load(D + row[:, :, None] * B + b[None, None, :], mask=entry, other=0.0)
        if VALUED:
            value *= tl.load(data + at, mask=inside, other=0.0)[:, :, None]
        total += value
    sums = tl.sum(total, 1)
    tl.store(out + a[:, None] * B + b[None, :], sums, mask=here[:, None] & lane[None, :])


def gather_with_triton(
    starts: torch.Tensor, ends: torch.Tensor, indices: torch.Tensor, data: torch.Tensor,
    D: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Multiply each of some pieces of lines with D (width, B) by the kernel, (pieces, B).

    Parameters
    ----------
    starts, ends : (pieces,) int tensors
        Entries of each piece.
    indices : (entries,) int tensor
        Of 16 (unsigned), 32 or 64 bits.
    data : (entries,) float64 tensor
        Empty if all entries are one.
    D : (width, B) float64 tensor
    """
    n, B = len(starts), D.shape[1]
    lines, lanes = lane_tile(B)
    out = torch.empty((n, B), dtype=torch.float64, device=D.device)
    D, valued = D.contiguous(), len(data) > 0
    launch(
        _gather, (-(-n // lines), -(-B // lanes)), starts, ends, indices, data if valued else D, D,
        out, n, B, LINES=lines, UNROLL=8, LANES=lanes, VALUED=valued,
    )  # fmt: skip
    return out


def gather_twin(
    starts: torch.Tensor, ends: torch.Tensor, indices: torch.Tensor, data: torch.Tensor,
    D: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Compute the same as `gather_with_triton` as sums of the rows of D in bags."""
    sizes = ends - starts
    at = ranges(starts, sizes)
    if indices.dtype == torch.uint16:  # torch indexes no tensors of this type
        row = indices.view(torch.int16)[at].to(torch.int64) & 0xFFFF
    else:
        row = indices[at].to(torch.int64)
    offsets = F.pad(torch.cumsum(sizes, 0), (1, 0))
    weights = data[at] if len(data) else None
    return F.embedding_bag(
        row, D.contiguous(), offsets, mode="sum", per_sample_weights=weights,
        include_last_offset=True,
    )  # fmt: skip
