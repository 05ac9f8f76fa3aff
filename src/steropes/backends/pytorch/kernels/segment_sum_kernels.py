"""Sums, maxima and softmax of consecutive rows on a GPU (kernel 3 of the backend).

The caller reduces long segments in pieces, and then the results of the pieces in their order.
"""

from __future__ import annotations

import torch

from .triton_or_pytorch_choice import jit, launch, next_power_of_two, tl

__all__ = ["lane_tile", "ranges", "reduce_twin", "reduce_with_triton", "softmax_with_triton"]


def ranges(starts: torch.Tensor, sizes: torch.Tensor, total: int | None = None) -> torch.Tensor:
    """Concatenate the integers starts[a] … starts[a] + sizes[a] − 1.

    Without their number, ``total``, the host waits for the device.
    """
    begin = torch.cumsum(sizes, 0) - sizes
    shift = torch.repeat_interleave(starts - begin, sizes, output_size=total)
    return shift + torch.arange(len(shift), device=starts.device)


def lane_tile(B: int) -> tuple[int, int]:
    """Choose how many rows and replicates one program of a kernel handles, for B replicates."""
    lanes = min(next_power_of_two(B), 128)
    return max(1, 32 // lanes), lanes


@jit
def _reduce(
    x, starts, ends, out, n, B,
    LINES: tl.constexpr, UNROLL: tl.constexpr, LANES: tl.constexpr, MAX: tl.constexpr,
):  # fmt: skip
    """Sum the rows starts[a] … ends[a] − 1 of x (·, B), or find their maxima; NaN is passed on."""
    a = tl.program_id(0).to(tl.int64) * LINES + tl.arange(0, LINES)
    b = tl.program_id(1) * LANES + tl.arange(0, LANES)
    here, lane = a < n, b < B
    first = tl.load(starts + a, mask=here, other=0).to(tl.int64)
    size = tl.load(ends + a, mask=here, other=0) - first
    initial = float("-inf") if MAX else 0.0
    total = tl.full((LINES, UNROLL, LANES), initial, tl.float64)
    for k in range(0, tl.max(size, 0), UNROLL):
        u = k + tl.arange(0, UNROLL)
        row = first[:, None] + u[None, :]
        inside = (u[None, :] < size[:, None])[:, :, None] & lane[None, None, :]
        value = tl.load(x + row[:, :, None] * B + b[None, None, :], mask=inside, other=initial)
        if MAX:
            total = tl.where((value > total) | (value != value), value, total)
        else:
            total += value
    if MAX:
        wrong = tl.max((total != total).to(tl.int32), 1) > 0
        best = tl.max(tl.where(total != total, float("-inf"), total), 1)
        result = tl.where(wrong, float("nan"), best)
    else:
        result = tl.sum(total, 1)
    tl.store(out + a[:, None] * B + b[None, :], result, mask=here[:, None] & lane[None, :])


def reduce_with_triton(
    x: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor, largest: bool = False
) -> torch.Tensor:
    """Sum the rows starts[a] … ends[a] − 1 of x (·, B), or find their maxima, by the kernel."""
    n, B = len(starts), x.shape[1]
    lines, lanes = lane_tile(B)
    out = torch.empty((n, B), dtype=torch.float64, device=x.device)
    grid = (-(-n // lines), -(-B // lanes))
    launch(
        _reduce, grid, x.contiguous(), starts, ends, out, n, B,
        LINES=lines, UNROLL=8, LANES=lanes, MAX=largest,
    )  # fmt: skip
    return out


def reduce_twin(
    x: torch.Tensor, starts: torch.Tensor, ends: torch.Tensor, largest: bool = False
) -> torch.Tensor:
    """Compute the same as `reduce_with_triton` in torch operations."""
    rows = x[ranges(starts, ends - starts)]
    kind, none = ("max", -torch.inf) if largest else ("sum", 0.0)
    return torch.segment_reduce(
        rows, kind, lengths=ends - starts, axis=0, unsafe=True, initial=none
    )


@jit
def _softmax(
    eta, w, starts, ends, scale, log_sums, shares, n, B,
    LINES: tl.constexpr, UNROLL: tl.constexpr, LANES: tl.constexpr, SHARES: tl.constexpr,
):  # fmt: skip
    """Compute log Σ w e^η of each segment and, with SHARES, scale × the share of each row."""
    a = tl.program_id(0).to(tl.int64) * LINES + tl.arange(0, LINES)
    b = tl.program_id(1) * LANES + tl.arange(0, LANES)
    here, lane = a < n, b < B
    first = tl.load(starts + a, mask=here, other=0).to(tl.int64)
    size = tl.load(ends + a, mask=here, other=0) - first
    longest = tl.max(size, 0)
    top = tl.full((LINES, UNROLL, LANES), float("-inf"), tl.float64)
    for k in range(0, longest, UNROLL):
        u = k + tl.arange(0, UNROLL)
        at = (first[:, None] + u[None, :])[:, :, None] * B + b[None, None, :]
        inside = (u[None, :] < size[:, None])[:, :, None] & lane[None, None, :]
        weight = tl.load(w + at, mask=inside, other=0.0)
        value = tl.load(eta + at, mask=inside & (weight > 0), other=float("-inf"))
        top = tl.maximum(top, value)
    best = tl.max(top, 1)
    both = here[:, None] & lane[None, :]
    factor = tl.load(scale + a[:, None] * B + b[None, :], mask=both, other=0.0)
    used = (factor != 0) & (best > float("-inf"))
    best = tl.where(used, best, 0.0)
    total = tl.zeros((LINES, UNROLL, LANES), tl.float64)
    for k in range(0, longest, UNROLL):
        u = k + tl.arange(0, UNROLL)
        at = (first[:, None] + u[None, :])[:, :, None] * B + b[None, None, :]
        inside = (u[None, :] < size[:, None])[:, :, None] & lane[None, None, :]
        weight = tl.load(w + at, mask=inside, other=0.0)
        counted = (weight > 0) & used[:, None, :]
        value = tl.load(eta + at, mask=inside & counted, other=0.0)
        total += tl.where(counted, weight * tl.exp(value - best[:, None, :]), 0.0)
    whole = tl.where(used, tl.sum(total, 1), 1.0)
    nothing = tl.where(factor != 0, float("-inf"), 0.0)
    log_sum = tl.where(used, best + tl.log(whole), nothing)
    tl.store(log_sums + a[:, None] * B + b[None, :], log_sum, mask=both)
    if SHARES:
        rate = tl.where(used, factor / whole, 0.0)
        for k in range(0, longest, UNROLL):
            u = k + tl.arange(0, UNROLL)
            at = (first[:, None] + u[None, :])[:, :, None] * B + b[None, None, :]
            inside = (u[None, :] < size[:, None])[:, :, None] & lane[None, None, :]
            weight = tl.load(w + at, mask=inside, other=0.0)
            counted = (weight > 0) & used[:, None, :]
            value = tl.load(eta + at, mask=inside & counted, other=0.0)
            r = tl.where(counted, weight * tl.exp(value - best[:, None, :]), 0.0)
            tl.store(shares + at, r * rate[:, None, :], mask=inside)


def softmax_with_triton(
    eta: torch.Tensor, w: torch.Tensor, pointers: torch.Tensor, scale: torch.Tensor,
    shares: bool = True,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Compute the results of `device_segment_sums.segment_softmax` by the kernel."""
    n, B = len(pointers) - 1, eta.shape[1]
    lines, lanes = lane_tile(B)
    log_sums = torch.empty((n, B), dtype=torch.float64, device=eta.device)
    out = torch.zeros((len(eta) if shares else 0, B), dtype=torch.float64, device=eta.device)
    starts, ends = pointers[:-1].contiguous(), pointers[1:].contiguous()
    w, scale = w.expand_as(eta).contiguous(), scale.expand(n, B).contiguous()
    launch(
        _softmax, (-(-n // lines), -(-B // lanes)), eta.contiguous(), w, starts,
        ends, scale, log_sums, out, n, B,
        LINES=lines, UNROLL=8, LANES=lanes, SHARES=shares,
    )  # fmt: skip
    return log_sums, out
