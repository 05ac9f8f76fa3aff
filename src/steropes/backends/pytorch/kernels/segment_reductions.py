"""Sums, maxima and softmax of consecutive rows, as kernel 3 of the backend.

Long segments are reduced in pieces, whose results are reduced again in their order.
"""

from __future__ import annotations

import torch

from .sparse_line_pieces import Pieces, cut_pieces, positions_of
from .triton_or_twin import jit, launch, next_power_of_two, tl, use_triton

__all__ = [
    "lane_tile",
    "reduce_twin",
    "reduce_with_triton",
    "segment_max",
    "segment_softmax",
    "segment_sum",
    "softmax_twin",
    "softmax_with_triton",
]

# The length of a segment from which its softmax is composed of reductions in pieces.
LONG = 4096


def lane_tile(B: int) -> tuple[int, int]:
    """Return the lines and the lanes of one program for B replicates."""
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
    rows = x[positions_of(starts, ends)]
    kind, none = ("max", -torch.inf) if largest else ("sum", 0.0)
    return torch.segment_reduce(
        rows, kind, lengths=ends - starts, axis=0, unsafe=True, initial=none
    )


def _reduce_pieces(x: torch.Tensor, pieces: Pieces, largest: bool) -> torch.Tensor:
    """Reduce each piece, and the pieces of each range."""
    reduce = reduce_with_triton if use_triton(x) else reduce_twin
    parts = reduce(x, pieces.starts, pieces.ends, largest)
    if pieces.whole_lines:
        return parts
    p = pieces.pointers
    return reduce(parts, p[:-1], p[1:], largest)


def segment_sum(x: torch.Tensor, pieces: Pieces) -> torch.Tensor:
    """Sum x (n, B) over ranges of rows, (ranges, B); an empty range gives zero."""
    return _reduce_pieces(x, pieces, False)


def segment_max(x: torch.Tensor, pieces: Pieces) -> torch.Tensor:
    """Find the maxima of x (n, B) over ranges of rows, (ranges, B); −∞ for an empty range."""
    return _reduce_pieces(x, pieces, True)


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
    """Compute the results of `segment_softmax` by the kernel."""
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


def softmax_twin(
    eta: torch.Tensor, w: torch.Tensor, pointers: torch.Tensor, scale: torch.Tensor,
    shares: bool = True, pieces: Pieces | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Compute the results of `segment_softmax` from maxima and sums of segments."""
    if pieces is None:
        pieces = cut_pieces(pointers[:-1], pointers[1:])
    there = w > 0
    top = segment_max(torch.where(there, eta, -torch.inf), pieces)
    used = (scale != 0) & (top > -torch.inf)
    top = torch.where(used, top, 0.0)
    size = pointers.diff()
    segment = torch.repeat_interleave(torch.arange(len(size), device=eta.device), size)
    a, b = int(pointers[0]), int(pointers[-1])
    r = torch.zeros_like(eta)
    change = torch.where(there[a:b], eta[a:b] - top[segment], 0.0)
    counted = there[a:b] & used[segment]
    r[a:b] = torch.where(counted, w[a:b] * torch.exp(torch.where(counted, change, 0.0)), 0.0)
    total = torch.where(used, segment_sum(r, pieces), 1.0)
    log_sums = torch.where(used, top + torch.log(total), torch.where(scale != 0, -torch.inf, 0.0))
    if not shares:
        return log_sums, r[:0]
    r[a:b] *= torch.where(used, scale / total, 0.0)[segment]
    return log_sums, r


def segment_softmax(
    eta: torch.Tensor, w: torch.Tensor, pointers: torch.Tensor, scale: torch.Tensor,
    shares: bool = True, longest: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Compute log Σ w e^η of each segment, (S, B), and scale × each row's share, (n, B).

    Rows of weight zero are absent, and a segment with ``scale`` (S, B) zero gives zeros. Other
    segments without rows give −∞. Without ``shares`` the second result has no rows. ``longest`` is
    the length of the longest segment, if the caller knows it.
    """
    if use_triton(eta):
        if longest is None:
            longest = int(pointers.diff().amax()) if len(pointers) > 1 else 0
        if longest <= LONG:
            return softmax_with_triton(eta, w, pointers, scale, shares)
    return softmax_twin(eta, w, pointers, scale, shares)
