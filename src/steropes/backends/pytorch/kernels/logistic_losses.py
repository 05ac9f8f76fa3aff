"""Losses and slopes of logistic models on a GPU, in one pass (kernel 6 of the backend).

The kernel reads linear predictors, weights and outcomes once, writes the slopes, and writes one sum
of losses for each chunk of rows.
"""

from __future__ import annotations

import torch

from .triton_or_pytorch_choice import jit, launch, next_power_of_two, tl, use_triton

__all__ = ["logistic_losses", "logistic_losses_twin", "logistic_losses_with_triton"]

# The number of rows of a chunk.
ROWS = 256


@jit
def _logistic_losses(
    eta, w, y, partial, slopes, n, B, W, Y, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Sum the losses of a chunk of rows and write its slopes."""
    c = tl.program_id(0)
    b = tl.program_id(1) * LANES + tl.arange(0, LANES)
    row = c.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    mask = (row < n)[:, None] & (b < B)[None, :]
    at = row[:, None] * B + b[None, :]
    x = tl.load(eta + at, mask=mask, other=0.0)
    # Weights and outcomes have one column (W = 1, Y = 1) or B of them.
    weight = tl.load(w + row[:, None] * W + (b % W)[None, :], mask=mask, other=0.0)
    outcome = tl.load(y + row[:, None] * Y + (b % Y)[None, :], mask=mask, other=0.0)
    e = tl.exp(-tl.abs(x))
    one = 1.0 + e
    # Kahan's log(1 + e), which keeps the relative accuracy of small e.
    log1p = tl.where(one == 1.0, e, tl.log(one) * (e / tl.where(one == 1.0, 1.0, one - 1.0)))
    loss = weight * (log1p + tl.maximum(x, 0.0) - outcome * x)
    tl.store(partial + c.to(tl.int64) * B + b, tl.sum(tl.where(mask, loss, 0.0), 0), mask=b < B)
    near, far = 1.0 / one, e / one
    p, q = tl.where(x >= 0, near, far), tl.where(x >= 0, far, near)
    tl.store(slopes + at, weight * ((1.0 - outcome) * p - outcome * q), mask=mask)


def logistic_losses_with_triton(
    eta: torch.Tensor, w: torch.Tensor, y: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the results of `logistic_losses` by the kernel."""
    n, B = eta.shape
    lanes, chunks = min(next_power_of_two(B), 16), -(-n // ROWS)
    partial = torch.empty((chunks, B), dtype=torch.float64, device=eta.device)
    slopes = torch.empty((n, B), dtype=torch.float64, device=eta.device)
    launch(
        _logistic_losses, (chunks, -(-B // lanes)), eta.contiguous(), w.contiguous(),
        y.contiguous(), partial, slopes, n, B, w.shape[1], y.shape[1], ROWS=ROWS, LANES=lanes,
    )  # fmt: skip
    return partial.sum(0), slopes


def logistic_losses_twin(
    eta: torch.Tensor, w: torch.Tensor, y: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the results of `logistic_losses` in torch operations."""
    e = torch.exp(-eta.abs())  # never overflows
    loss = w * (torch.log1p(e) + eta.clamp_min(0.0) - y * eta)
    p, q = (torch.where(side, 1.0, e) / (1.0 + e) for side in (eta >= 0, eta < 0))
    return loss.sum(0), w * ((1.0 - y) * p - y * q)  # without p − 1, where p is close to one


def logistic_losses(
    eta: torch.Tensor, w: torch.Tensor, y: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the sums of w (log(1 + e^η) − y η), (B,), and the slopes w (p − y), (n, B).

    ``eta`` is (n, B); ``w`` and ``y`` are (n, B) or (n, 1). If an η is not finite, the sum is not
    finite either.
    """
    compute = logistic_losses_with_triton if use_triton(eta) else logistic_losses_twin
    return compute(eta, w, y)
