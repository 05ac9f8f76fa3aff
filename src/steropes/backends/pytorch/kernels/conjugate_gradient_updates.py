"""Conjugate gradients for B replicates at once, by two Triton kernels or PyTorch operations.

An iteration of a dense system would be some 30 small operations of PyTorch and one product. Two
kernels take their place, one before and one after the product, each with one program for each
replicate or a few of them, which reads the coefficients in blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from .triton_or_pytorch_choice import jit, launch, tl, use_triton

__all__ = [
    "Iterate",
    "model_product",
    "scaled",
    "scaled_twin",
    "scaled_with_triton",
    "update",
    "update_twin",
    "update_with_triton",
]

# The number of entries of a block, over all replicates of a program.
ENTRIES = 2048

# The least largest entry of a vector, which is not zero so that vectors can be divided by it.
LEAST: float = 1e-300


class Iterate(NamedTuple):
    """State of the iterations, which `update` changes in place.

    Attributes
    ----------
    p, q, residual : (k, B) tensors
        Solutions, directions and residuals.
    rz, aim : (B,) tensors
        Squared norms of the residuals in the metric of the preconditioner, which are zero from the
        end of a system's iterations on, and the norms at which they end.
    """

    p: torch.Tensor
    q: torch.Tensor
    residual: torch.Tensor
    rz: torch.Tensor
    aim: torch.Tensor


def fused(x: torch.Tensor, dtype: torch.dtype) -> bool:
    """Return whether the kernels run, which is for products in single precision."""
    return use_triton(x) and dtype == torch.float32


def blocks_of(B: int) -> dict[str, int]:
    """Return the sizes of blocks; four neighbouring replicates share a sector of memory."""
    lanes = 1 if B <= 32 else 4
    return {"ROWS": ENTRIES // lanes, "LANES": lanes, "num_warps": 8}


@jit
def _scaled(
    x, keep, size, z, k, B,
    LEAST: tl.constexpr, MASKED: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Find the largest entries of vectors and divide the vectors by them."""
    b = tl.program_id(0) * LANES + tl.arange(0, LANES)
    best = tl.zeros((ROWS, LANES), tl.float64)
    for first in range(0, k, ROWS):
        row = first + tl.arange(0, ROWS).to(tl.int64)
        kept = row < k
        if MASKED:
            kept = kept & (tl.load(keep + row, mask=kept, other=0) != 0)
        mask = kept[:, None] & (b < B)[None, :]
        value = tl.load(x + row[:, None] * B + b[None, :], mask=mask, other=0.0)
        best = tl.maximum(best, tl.abs(value))
    largest = tl.maximum(tl.max(best, 0), LEAST)
    tl.store(size + b, largest, mask=b < B)
    for first in range(0, k, ROWS):
        row = first + tl.arange(0, ROWS).to(tl.int64)
        kept = row < k
        if MASKED:
            kept = kept & (tl.load(keep + row, mask=kept, other=0) != 0)
        at = row[:, None] * B + b[None, :]
        value = tl.load(x + at, mask=kept[:, None] & (b < B)[None, :], other=0.0)
        share = (value / largest[None, :]).to(tl.float32)
        tl.store(z + at, share, mask=(row < k)[:, None] & (b < B)[None, :])


def scaled_with_triton(
    x: torch.Tensor, keep: torch.Tensor | None, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the results of `scaled` by the kernel, in single precision."""
    k, B = x.shape
    x, blocks = x.contiguous(), blocks_of(B)
    size, z = x.new_empty(B), torch.empty((k, B), dtype=dtype, device=x.device)
    launch(
        _scaled, (-(-B // blocks["LANES"]),), x, x if keep is None else keep.view(torch.uint8),
        size, z, k, B, LEAST=LEAST, MASKED=keep is not None, **blocks,
    )  # fmt: skip
    return size, z


def scaled_twin(
    x: torch.Tensor, keep: torch.Tensor | None, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the results of `scaled` in torch operations."""
    if keep is not None:
        x = torch.where(keep[:, None], x, 0.0)
    size = x.abs().amax(0).clamp_min(LEAST)
    return size, (x / size).to(dtype)


def scaled(
    x: torch.Tensor, keep: torch.Tensor | None, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale vectors x (k, B) to largest entries of one, in a given precision.

    Returns the largest absolute entries, (B,), and the scaled vectors, (k, B). Entries where
    ``keep`` (k,) is false are zero in both.
    """
    return (scaled_with_triton if fused(x, dtype) else scaled_twin)(x, keep, dtype)


@jit
def product_of_block(
    raw, low, l2, keep, q, scale, row, b, k, B, MASKED: tl.constexpr, LOW: tl.constexpr,
):  # fmt: skip
    """Load directions q of a block, and compute their products with the models' matrices."""
    mask = (row < k)[:, None] & (b < B)[None, :]
    at = row[:, None] * B + b[None, :]
    x = tl.load(q + at, mask=mask, other=0.0)
    product = tl.load(raw + at, mask=mask, other=0.0).to(tl.float64) * scale[None, :]
    if MASKED:
        kept = tl.load(keep + row, mask=row < k, other=0) != 0
        product = tl.where(kept[:, None], product, x)
    if LOW:
        product += tl.load(low + at, mask=mask, other=0.0)
    product += tl.load(l2 + at, mask=mask, other=0.0) * x
    return x, product, at, mask


@jit
def _update(
    raw, size, low, l2, keep, support, inverse, p, q, residual, rz, aim, k, B,
    MASKED: tl.constexpr, LOW: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Take a step along q, and find the next q."""
    b = tl.program_id(0) * LANES + tl.arange(0, LANES)
    scale = tl.load(size + b, mask=b < B, other=0.0)
    last = tl.load(rz + b, mask=b < B, other=0.0)
    end = tl.load(aim + b, mask=b < B, other=0.0)
    total = tl.zeros((ROWS, LANES), tl.float64)
    for first in range(0, k, ROWS):
        row = first + tl.arange(0, ROWS).to(tl.int64)
        x, product, at, mask = product_of_block(
            raw, low, l2, keep, q, scale, row, b, k, B, MASKED, LOW
        )
        total += x * product
    curvature = tl.sum(total, 0)
    on = (curvature > 0) & (last > end)
    length = tl.where(on, last / tl.where(on, curvature, 1.0), 0.0)
    total = tl.zeros((ROWS, LANES), tl.float64)
    for first in range(0, k, ROWS):
        row = first + tl.arange(0, ROWS).to(tl.int64)
        x, product, at, mask = product_of_block(
            raw, low, l2, keep, q, scale, row, b, k, B, MASKED, LOW
        )
        step = tl.load(p + at, mask=mask, other=0.0) + length[None, :] * x
        tl.store(p + at, step, mask=mask)
        inside = tl.load(support + at, mask=mask, other=0) != 0
        left = tl.load(residual + at, mask=mask, other=0.0)
        left -= tl.where(inside, length[None, :] * product, 0.0)
        tl.store(residual + at, left, mask=mask)
        total += left * (tl.load(inverse + at, mask=mask, other=0.0) * left)
    norm = tl.sum(total, 0)
    ratio = norm / tl.where(last > 0, last, 1.0)
    tl.store(rz + b, tl.where(on, norm, 0.0), mask=b < B)
    # Other threads of the program may have written the residuals that are read now.
    tl.debug_barrier()
    for first in range(0, k, ROWS):
        row = first + tl.arange(0, ROWS).to(tl.int64)
        mask = (row < k)[:, None] & (b < B)[None, :]
        at = row[:, None] * B + b[None, :]
        z = tl.load(inverse + at, mask=mask, other=0.0) * tl.load(
            residual + at, mask=mask, other=0.0
        )
        x = tl.load(q + at, mask=mask, other=0.0)
        tl.store(q + at, tl.where(on[None, :], z + ratio[None, :] * x, 0.0), mask=mask)


def update_with_triton(
    raw: torch.Tensor, size: torch.Tensor, low: torch.Tensor | None, l2: torch.Tensor,
    keep: torch.Tensor | None, support: torch.Tensor, inverse: torch.Tensor, state: Iterate,
) -> None:  # fmt: skip
    """Compute the results of `update` by the kernel."""
    k, B = raw.shape
    blocks = blocks_of(B)
    launch(
        _update, (-(-B // blocks["LANES"]),), raw.contiguous(), size,
        raw if low is None else low.contiguous(), l2.contiguous(),
        raw if keep is None else keep.view(torch.uint8), support.contiguous().view(torch.uint8),
        inverse.contiguous(), *state, k, B, MASKED=keep is not None, LOW=low is not None, **blocks,
    )  # fmt: skip


def model_product(
    raw: torch.Tensor, size: torch.Tensor, low: torch.Tensor | None, l2: torch.Tensor,
    keep: torch.Tensor | None, x: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Compute the products of the models' matrices with x (k, B) from those of G; see `update`."""
    product = raw * size
    if keep is not None:
        product = torch.where(keep[:, None], product, x)
    if low is not None:
        product += low
    return torch.addcmul(product, l2, x)


def update_twin(
    raw: torch.Tensor, size: torch.Tensor, low: torch.Tensor | None, l2: torch.Tensor,
    keep: torch.Tensor | None, support: torch.Tensor, inverse: torch.Tensor, state: Iterate,
) -> None:  # fmt: skip
    """Compute the results of `update` in torch operations."""
    p, q, residual, rz, aim = state
    product = model_product(raw, size, low, l2, keep, q)
    curvature = (q * product).sum(0)
    on = (curvature > 0) & (rz > aim)
    length = torch.where(on, rz / torch.where(on, curvature, 1.0), 0.0)
    p.addcmul_(q, length)
    residual -= torch.where(support, length * product, 0.0)
    z = inverse * residual
    norm = (residual * z).sum(0)
    ratio = norm / torch.where(rz > 0, rz, 1.0)
    q.copy_(torch.where(on, torch.addcmul(z, q, ratio), 0.0))
    rz.copy_(torch.where(on, norm, 0.0))


def update(
    raw: torch.Tensor, size: torch.Tensor, low: torch.Tensor | None, l2: torch.Tensor,
    keep: torch.Tensor | None, support: torch.Tensor, inverse: torch.Tensor, state: Iterate,
) -> None:  # fmt: skip
    """Take an iteration of conjugate gradients in place.

    A system that has reached its aim, or whose direction has no positive curvature, gets the
    direction zero, so that further iterations do not change it.

    Parameters
    ----------
    raw : (k, B) tensor
        Products of G with the directions as `scaled` returns them.
    size : (B,) tensor
        Their scales.
    low : (k, B) tensor, optional
        Products of low-rank terms with the directions.
    l2 : (k, B) tensor
    keep : (k,) bool tensor, optional
        False where the identity takes the place of G.
    support : (k, B) bool tensor
        Coordinates of the systems; residuals are zero at others.
    inverse : (k, B) tensor
        The preconditioner, a diagonal.
    state : Iterate
        Contiguous tensors.
    """
    if not all(x.is_contiguous() for x in state):  # Checked without Triton's kernels too.
        raise ValueError("The tensors of the state must be contiguous, as they change in place.")
    compute = update_with_triton if fused(raw, raw.dtype) else update_twin
    compute(raw, size, low, l2, keep, support, inverse, state)
