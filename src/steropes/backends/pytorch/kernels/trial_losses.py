"""Losses at several step lengths in one pass over the rows, as kernel 6 of the backend.

A line search needs the losses of B replicates at η + t d for a few t each. The kernel reads η, d,
the weights and the outcomes once for all of them, and writes one sum for each chunk of rows.
"""

from __future__ import annotations

from typing import Literal

import torch

from .triton_language import jit, launch, next_power_of_two, tl, use_triton

__all__ = ["Family", "evaluate", "trial_losses", "trial_losses_twin", "trial_losses_with_triton"]

Family = Literal["linear", "logistic", "poisson"]

# The number of rows of a chunk.
ROWS = 256
# The numbers of the families in the kernels.
NUMBERS: dict[Family, int] = {"linear": 0, "logistic": 1, "poisson": 2}


@jit
def _loss(eta, y, FAMILY: tl.constexpr):
    """Compute the loss of each row up to a constant."""
    if FAMILY == 0:
        return 0.5 * (y - eta) * (y - eta)
    if FAMILY == 2:
        return tl.exp(eta) - y * eta
    e = tl.exp(-tl.abs(eta))
    one = 1.0 + e
    # Kahan's log(1 + e), which keeps the relative accuracy of small e.
    log1p = tl.where(one == 1.0, e, tl.log(one) * (e / tl.where(one == 1.0, 1.0, one - 1.0)))
    return log1p + tl.maximum(eta, 0.0) - y * eta


@jit
def _trial_losses(
    eta, direction, w, y, steps, partial, n, B, Y,
    FAMILY: tl.constexpr, STEPS: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Sum the losses of a chunk of rows at each step length."""
    c = tl.program_id(0)
    b = tl.program_id(1) * LANES + tl.arange(0, LANES)
    row = c.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    mask = (row < n)[:, None] & (b < B)[None, :]
    at = row[:, None] * B + b[None, :]
    start = tl.load(eta + at, mask=mask, other=0.0)
    change = tl.load(direction + at, mask=mask, other=0.0)
    weight = tl.load(w + at, mask=mask, other=0.0)
    # The outcomes have one column (Y = 1) or B of them.
    outcome = tl.load(y + row[:, None] * Y + (b % Y)[None, :], mask=mask, other=0.0)
    for t in tl.static_range(STEPS):
        step = tl.load(steps + t * B + b, mask=b < B, other=0.0)
        loss = weight * _loss(start + step[None, :] * change, outcome, FAMILY)
        total = tl.sum(tl.where(mask & (weight > 0), loss, 0.0), 0)
        tl.store(partial + (c.to(tl.int64) * STEPS + t) * B + b, total, mask=b < B)


def trial_losses_with_triton(
    family: Family, eta: torch.Tensor, direction: torch.Tensor, w: torch.Tensor, y: torch.Tensor,
    steps: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Compute the results of `trial_losses` by the kernel."""
    (n, B), T = eta.shape, len(steps)
    lanes = min(next_power_of_two(B), 16)
    chunks = -(-n // ROWS)
    partial = torch.empty((chunks, T, B), dtype=torch.float64, device=eta.device)
    launch(
        _trial_losses, (chunks, -(-B // lanes)), eta.contiguous(), direction.contiguous(),
        w.expand_as(eta).contiguous(), y.contiguous(), steps.contiguous(), partial, n, B,
        y.shape[1],
        FAMILY=NUMBERS[family], STEPS=T, ROWS=ROWS, LANES=lanes,
    )  # fmt: skip
    return partial.sum(0)


def trial_losses_twin(
    family: Family, eta: torch.Tensor, direction: torch.Tensor, w: torch.Tensor, y: torch.Tensor,
    steps: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Compute the results of `trial_losses`, one step length after the other."""
    return torch.stack([evaluate(family, eta + t * direction, w, y)[0] for t in steps])


def trial_losses(
    family: Family, eta: torch.Tensor, direction: torch.Tensor, w: torch.Tensor, y: torch.Tensor,
    steps: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Compute the losses at η + t d, (T, B), up to a constant.

    Parameters
    ----------
    family : {"linear", "logistic", "poisson"}
    eta, direction, w : (n, B) tensors
        Linear predictor, direction d and row weights; rows of weight zero are absent.
    y : (n, 1) or (n, B) tensor
    steps : (T, B) tensor
    """
    compute = trial_losses_with_triton if use_triton(eta) else trial_losses_twin
    return compute(family, eta, direction, w, y, steps)


def evaluate(
    family: Family, eta: torch.Tensor, w: torch.Tensor, y: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the losses (B,) up to a constant, and the slopes in η, (n, B)."""
    if family == "linear":
        mean, loss = eta, 0.5 * (y - eta) ** 2
    elif family == "poisson":
        mean = torch.exp(eta)
        loss = mean - y * eta
    else:
        e = torch.exp(-eta.abs())
        mean = torch.where(eta >= 0, 1.0, e) / (1.0 + e)
        loss = torch.log1p(e) + eta.clamp_min(0.0) - y * eta
    there = w > 0
    return torch.where(there, w * loss, 0.0).sum(0), torch.where(there, w * (mean - y), 0.0)
