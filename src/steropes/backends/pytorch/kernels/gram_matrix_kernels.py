"""Weighted Gram matrices X'VX on a GPU, from dense panels of rows (kernel 4 of the backend).

A panel Z holds some rows of X as a dense array, and diag(v) Z beside it; matrix products of the
two run on tensor cores. With 0/1 columns and bfloat16, Z is exact and only v is rounded, so that
the result differs by at most 2⁻⁸ of the true term plus the rounding of sums in 32 bits.
"""

from __future__ import annotations

import torch

from .segment_sum_kernels import ranges
from .triton_or_pytorch_choice import jit, launch, tl

__all__ = ["panel_twin", "panel_with_triton", "product_of_panels"]


@jit
def _store(place, value, mask, NARROW: tl.constexpr):
    """Store values in the precision of the panel, rounded to 32 bits first if that is narrower."""
    if NARROW:
        value = value.to(tl.float32)
    tl.store(place, value.to(place.dtype.element_ty), mask=mask)


@jit
def _densify(
    starts, ends, indices, data, v, Z, weighted, width,
    STEP: tl.constexpr, VALUED: tl.constexpr, WEIGHTED: tl.constexpr, NARROW: tl.constexpr,
):  # fmt: skip
    """Write the entries of line a to row a of Z, and times v[a] to row a of ``weighted``."""
    a = tl.program_id(0)
    first = tl.load(starts + a)
    last = tl.load(ends + a)
    row = a.to(tl.int64) * width
    for k in range(first, last, STEP):
        at = k + tl.arange(0, STEP)
        inside = at < last
        place = row + tl.load(indices + at, mask=inside, other=0).to(tl.int64)
        if VALUED:
            value = tl.load(data + at, mask=inside, other=0.0)
        else:
            value = tl.full((STEP,), 1.0, tl.float64)
        _store(Z + place, value, inside, NARROW)
        if WEIGHTED:
            _store(weighted + place, value * tl.load(v + a), inside, NARROW)


def panel_with_triton(
    starts: torch.Tensor, ends: torch.Tensor, indices: torch.Tensor, data: torch.Tensor,
    width: int, v: torch.Tensor | None, dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Write sparse lines as a dense panel Z (lines, width), and diag(v) Z (or Z without v)."""
    Z = torch.zeros((len(starts), width), dtype=dtype, device=starts.device)
    weighted = Z if v is None else torch.zeros_like(Z)
    valued = len(data) > 0
    launch(
        _densify, (len(starts),), starts, ends, indices, data if valued else Z,
        Z if v is None else v.contiguous(), Z, weighted, width,
        STEP=32, VALUED=valued, WEIGHTED=v is not None, NARROW=Z.element_size() < 4,
        num_warps=1,
    )  # fmt: skip
    return Z, weighted


def panel_twin(
    starts: torch.Tensor, ends: torch.Tensor, indices: torch.Tensor, data: torch.Tensor,
    width: int, v: torch.Tensor | None, dtype: torch.dtype,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Compute the results of `panel_with_triton` by assignment to all entries."""
    at = ranges(starts, ends - starts)
    line = torch.repeat_interleave(torch.arange(len(starts), device=at.device), ends - starts)
    if indices.dtype == torch.uint16:
        column = indices.view(torch.int16)[at].to(torch.int64) & 0xFFFF
    else:
        column = indices[at].to(torch.int64)
    value = data[at] if len(data) else torch.ones(len(at), dtype=torch.float64, device=at.device)
    Z = torch.zeros((len(starts), width), dtype=dtype, device=at.device)
    Z[line, column] = value.float().to(dtype) if Z.element_size() < 4 else value.to(dtype)
    if v is None:
        return Z, Z
    weighted = torch.zeros_like(Z)
    value = value * v[line]
    weighted[line, column] = value.float().to(dtype) if Z.element_size() < 4 else value.to(dtype)
    return Z, weighted


def product_of_panels(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Multiply left' with right, with sums in 32 bits for bfloat16."""
    if left.dtype != torch.bfloat16:
        return left.T @ right
    if left.is_cuda:
        return torch.mm(left.T, right, out_dtype=torch.float32)
    return left.T.float() @ right.float()  # the same products, which are exact in 32 bits
