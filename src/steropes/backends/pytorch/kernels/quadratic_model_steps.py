"""Steps that minimise quadratic models with ℓ1 terms on a GPU (kernel 8 of the backend).

A step would be some 30 small operations of PyTorch after its product. One kernel takes their place,
with one program for each replicate or a few of them, as in `conjugate_gradient_updates`.
"""

from __future__ import annotations

import torch

from .conjugate_gradient_updates import blocks_of, fused, model_product, product_of_block
from .triton_or_pytorch_choice import jit, launch, tl

__all__ = ["move", "move_twin", "move_with_triton"]


@jit
def _move(
    raw, size, low, l2, keep, d, to, l1, h, y, s, inverse, k, B,
    MASKED: tl.constexpr, LOW: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Find the lengths of steps, and take them."""
    b = tl.program_id(0) * LANES + tl.arange(0, LANES)
    scale = tl.load(size + b, mask=b < B, other=0.0)
    bends = tl.zeros((ROWS, LANES), tl.float64)
    slopes = tl.zeros((ROWS, LANES), tl.float64)
    sizes = tl.zeros((ROWS, LANES), tl.float64)
    for first in range(0, k, ROWS):
        row = first + tl.arange(0, ROWS).to(tl.int64)
        x, product, at, mask = product_of_block(
            raw, low, l2, keep, d, scale, row, b, k, B, MASKED, LOW
        )
        bends += x * product
        slopes += x * tl.load(s + at, mask=mask, other=0.0)
        longer = tl.abs(tl.load(to + at, mask=mask, other=0.0))
        longer -= tl.abs(tl.load(y + at, mask=mask, other=0.0))
        slopes += tl.load(l1 + at, mask=mask, other=0.0) * longer
        sizes += x * x * tl.load(h + at, mask=mask, other=0.0)
    curvature, slope = tl.sum(bends, 0), tl.sum(slopes, 0)
    curved = curvature > 0
    positive = tl.where(curved, curvature, 1.0)
    t = tl.where(curved, -slope / positive, tl.where(slope < 0, 1.0, 0.0))
    t = tl.minimum(tl.maximum(t, 0.0), 1.0)
    tl.store(inverse + b, tl.where(curved, tl.sum(sizes, 0) / positive, 0.0), mask=b < B)
    # Other threads of the program may still read the points that are written now.
    tl.debug_barrier()
    for first in range(0, k, ROWS):
        row = first + tl.arange(0, ROWS).to(tl.int64)
        x, product, at, mask = product_of_block(
            raw, low, l2, keep, d, scale, row, b, k, B, MASKED, LOW
        )
        part = tl.load(y + at, mask=mask, other=0.0) + t[None, :] * x
        whole = tl.load(to + at, mask=mask, other=0.0)
        tl.store(y + at, tl.where(t[None, :] == 1, whole, part), mask=mask)
        tl.store(s + at, tl.load(s + at, mask=mask, other=0.0) + t[None, :] * product, mask=mask)


def move_with_triton(
    raw: torch.Tensor, size: torch.Tensor, low: torch.Tensor | None, l2: torch.Tensor,
    keep: torch.Tensor | None, d: torch.Tensor, to: torch.Tensor, l1: torch.Tensor,
    h: torch.Tensor, y: torch.Tensor, s: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Compute the results of `move` by the kernel."""
    k, B = raw.shape
    blocks, inverse = blocks_of(B), size.new_empty(B)
    launch(
        _move, (-(-B // blocks["LANES"]),), raw.contiguous(), size,
        raw if low is None else low.contiguous(), l2.contiguous(),
        raw if keep is None else keep.view(torch.uint8), d.contiguous(), to.contiguous(),
        l1.contiguous(), h.contiguous(), y, s, inverse, k, B,
        MASKED=keep is not None, LOW=low is not None, **blocks,
    )  # fmt: skip
    return inverse


def move_twin(
    raw: torch.Tensor, size: torch.Tensor, low: torch.Tensor | None, l2: torch.Tensor,
    keep: torch.Tensor | None, d: torch.Tensor, to: torch.Tensor, l1: torch.Tensor,
    h: torch.Tensor, y: torch.Tensor, s: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Compute the results of `move` in torch operations."""
    product = model_product(raw, size, low, l2, keep, d)
    curvature = (d * product).sum(0)
    slope = torch.addcmul(s * d, l1, to.abs() - y.abs()).sum(0)
    curved = curvature > 0
    positive = torch.where(curved, curvature, 1.0)
    t = torch.where(curved, -slope / positive, torch.where(slope < 0, 1.0, 0.0)).clamp(0.0, 1.0)
    y.copy_(torch.where(t == 1, to, torch.addcmul(y, d, t)))
    s.addcmul_(product, t)
    return torch.where(curved, (d * d * h).sum(0) / positive, 0.0)


def move(
    raw: torch.Tensor, size: torch.Tensor, low: torch.Tensor | None, l2: torch.Tensor,
    keep: torch.Tensor | None, d: torch.Tensor, to: torch.Tensor, l1: torch.Tensor,
    h: torch.Tensor, y: torch.Tensor, s: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Move points towards others in place as far as the models decrease, at most to them.

    The ℓ1 terms, which are convex, are bounded by their chords.

    Parameters
    ----------
    raw, size, low, l2, keep
        Products with d; see `conjugate_gradient_updates.update`.
    d, to : (k, B) tensors
        Directions and ends.
    l1, h : (k, B) tensors
        Penalties, and the diagonals of the models' matrices.
    y, s : (k, B) contiguous tensors
        Points and slopes without the ℓ1 terms, which change.

    Returns
    -------
    (B,) tensor
        Inverse curvature along the directions, relative to the diagonals; zero if there is none.
    """
    if not (y.is_contiguous() and s.is_contiguous()):  # Checked without Triton's kernels too.
        raise ValueError("Points and slopes must be contiguous, as they change in place.")
    compute = move_with_triton if fused(raw, raw.dtype) else move_twin
    return compute(raw, size, low, l2, keep, d, to, l1, h, y, s)
