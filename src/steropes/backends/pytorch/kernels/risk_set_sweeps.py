"""Sums over the risk sets of Cox's likelihood on a GPU (kernel 2 of the backend).

Rows are those of `likelihoods.risk_sets.RiskSets` without entry times: sorted by stratum and from
late to early. One sweep computes r = w e^η, its running sums at the event times and the event term
of the loss; a second one multiplies r by the cumulative hazard while at risk. Between them only
arrays with a row for each event time are needed. r is computed twice rather than stored, so that
the sweeps read η and w three times and write the gradient once.
"""

from __future__ import annotations

import torch

from .running_sum_kernels import CHUNK, ScanLayout, add_within, carry, scan
from .triton_or_pytorch_choice import jit, launch, next_power_of_two, tl, use_triton

__all__ = [
    "HIGHEST",
    "gradient",
    "gradient_twin",
    "gradient_with_triton",
    "rate_sums",
    "rate_sums_twin",
    "rate_sums_with_triton",
]

# The largest η that is not replaced, so that no e^η is infinite.
HIGHEST: float = 700.0


@jit
def _rates(eta, w, row, b, mask, B, HIGHEST: tl.constexpr):
    """Load η and w of some rows and compute w e^η."""
    at = row[:, None] * B + b[None, :]
    e = tl.load(eta + at, mask=mask, other=0.0)
    weight = tl.load(w + at, mask=mask, other=0.0)
    return e, weight, weight * tl.exp(tl.minimum(e, HIGHEST))


@jit
def _chunk_rates(
    eta, w, event, last, totals, losses, n, B,
    HIGHEST: tl.constexpr, CHUNK: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Sum w e^η over each chunk from its last stratum on, and −w η over its events."""
    c = tl.program_id(0)
    b = tl.program_id(1) * LANES + tl.arange(0, LANES)
    i = tl.arange(0, CHUNK)
    row = c.to(tl.int64) * CHUNK + i
    mask = (row < n)[:, None] & (b < B)[None, :]
    e, weight, r = _rates(eta, w, row, b, mask, B, HIGHEST)
    r = tl.where((i >= tl.load(last + c))[:, None], r, 0.0)
    tl.store(totals + c.to(tl.int64) * B + b, tl.sum(r, 0), mask=b < B)
    happened = tl.load(event + row, mask=row < n, other=0) > 0
    loss = tl.sum(tl.where(happened[:, None], -weight * e, 0.0), 0)
    tl.store(losses + c.to(tl.int64) * B + b, loss, mask=b < B)


@jit
def _sums_at_events(
    eta, w, begins, first, before, slot, sums, n, B,
    HIGHEST: tl.constexpr, CHUNK: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Write the running sums of w e^η at the rows that have a slot."""
    c = tl.program_id(0)
    b = tl.program_id(1) * LANES + tl.arange(0, LANES)
    i = tl.arange(0, CHUNK)
    row = c.to(tl.int64) * CHUNK + i
    mask = (row < n)[:, None] & (b < B)[None, :]
    _, _, r = _rates(eta, w, row, b, mask, B, HIGHEST)
    begin = tl.load(begins + row, mask=row < n, other=0).to(tl.int32)
    running = add_within(r, tl.broadcast_to(begin[:, None], (CHUNK, LANES)))
    carried = tl.load(before + c.to(tl.int64) * B + b, mask=b < B, other=0.0)
    running += tl.where((i < tl.load(first + c))[:, None], carried[None, :], 0.0)
    place = tl.load(slot + row, mask=row < n, other=-1).to(tl.int64)
    wanted = mask & (place >= 0)[:, None]
    tl.store(sums + place[:, None] * B + b[None, :], running, mask=wanted)


def rate_sums_with_triton(
    eta: torch.Tensor, w: torch.Tensor, event: torch.Tensor, slot: torch.Tensor, m: int,
    strata: ScanLayout,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Compute the results of `rate_sums` by the kernels."""
    n, B = eta.shape
    w = w.expand_as(eta).contiguous()
    eta, lanes = eta.contiguous(), min(next_power_of_two(B), 16)
    grid = (strata.chunks, -(-B // lanes))
    sizes = {"HIGHEST": HIGHEST, "CHUNK": CHUNK, "LANES": lanes}
    totals, losses = torch.empty((2, strata.chunks, B), dtype=torch.float64, device=eta.device)
    launch(_chunk_rates, grid, eta, w, event, strata.last, totals, losses, n, B, **sizes)
    before = carry(strata, totals)
    sums = torch.zeros((m, B), dtype=torch.float64, device=eta.device)
    launch(
        _sums_at_events, grid, eta, w, strata.begins, strata.first, before, slot, sums, n, B,
        **sizes,
    )  # fmt: skip
    return losses.sum(0), sums


def rate_sums_twin(
    eta: torch.Tensor, w: torch.Tensor, event: torch.Tensor, slot: torch.Tensor, m: int,
    strata: ScanLayout,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Compute the results of `rate_sums` from running sums over all rows."""
    running = scan(w * torch.exp(eta.clamp_max(HIGHEST)), strata)
    sums = torch.zeros((m, eta.shape[1]), dtype=torch.float64, device=eta.device)
    at = torch.nonzero(slot >= 0)[:, 0]
    sums[slot[at].long()] = running[at]
    cases = torch.nonzero(event)[:, 0]
    return -(w[cases] * eta[cases]).sum(0), sums


def rate_sums(
    eta: torch.Tensor, w: torch.Tensor, event: torch.Tensor, slot: torch.Tensor, m: int,
    strata: ScanLayout,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Compute −Σ w η over events, (B,), and running sums of w e^η at chosen rows, (m, B).

    Parameters
    ----------
    eta, w : (n, B) tensors
    event : (n,) uint8 tensor
    slot : (n,) int32 tensor
        Position of each row's running sum in the result; −1 for rows whose sum is not needed.
        Positions without a row are zero.
    m : int
        Number of positions.
    strata : ScanLayout
        Strata, in the direction of the rows.
    """
    compute = rate_sums_with_triton if use_triton(eta) else rate_sums_twin
    return compute(eta, w, event, slot, m, strata)


@jit
def _gradient(
    eta, w, event, table, place, out, n, B,
    HIGHEST: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Compute w e^η × (cumulative hazard while at risk) − w δ of each row."""
    c = tl.program_id(0)
    b = tl.program_id(1) * LANES + tl.arange(0, LANES)
    row = c.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    mask = (row < n)[:, None] & (b < B)[None, :]
    _, weight, r = _rates(eta, w, row, b, mask, B, HIGHEST)
    at = tl.load(place + row, mask=row < n, other=0).to(tl.int64)
    hazard = tl.load(table + at[:, None] * B + b[None, :], mask=mask, other=0.0)
    happened = tl.load(event + row, mask=row < n, other=0) > 0
    slope = r * hazard - tl.where(happened[:, None], weight, 0.0)
    tl.store(out + row[:, None] * B + b[None, :], slope, mask=mask)


def gradient_with_triton(
    eta: torch.Tensor, w: torch.Tensor, event: torch.Tensor, table: torch.Tensor,
    place: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Compute the result of `gradient` by the kernel."""
    n, B = eta.shape
    lanes = min(next_power_of_two(B), 16)
    out = torch.empty((n, B), dtype=torch.float64, device=eta.device)
    launch(
        _gradient, (-(-n // CHUNK), -(-B // lanes)), eta.contiguous(),
        w.expand_as(eta).contiguous(), event, table.contiguous(), place, out, n, B,
        HIGHEST=HIGHEST, ROWS=CHUNK, LANES=lanes,
    )  # fmt: skip
    return out


def gradient_twin(
    eta: torch.Tensor, w: torch.Tensor, event: torch.Tensor, table: torch.Tensor,
    place: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Compute the result of `gradient` in torch operations."""
    hazard = table[place.long()]
    events = torch.where(event[:, None] > 0, w, 0.0)
    return w * torch.exp(eta.clamp_max(HIGHEST)) * hazard - events


def gradient(
    eta: torch.Tensor, w: torch.Tensor, event: torch.Tensor, table: torch.Tensor,
    place: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Compute the gradient in η, w e^η × (cumulative hazard while at risk) − w δ, (n, B).

    Parameters
    ----------
    eta, w : (n, B) tensors
    event : (n,) uint8 tensor
    table : (·, B) tensor
        Distinct cumulative hazards.
    place : (n,) int tensor
        Row of the table for each row.
    """
    compute = gradient_with_triton if use_triton(eta) else gradient_twin
    return compute(eta, w, event, table, place)
