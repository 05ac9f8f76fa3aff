"""Sweeps of the Cox and Fine–Gray likelihoods over the rows, as kernel 2 of the backend.

Rows are those of `likelihoods.risk_sets.RiskSets` without entry times: sorted by stratum and from
late to early. One sweep computes r = w e^η, its running sums at the event times and the event term
of the loss; a second one multiplies r by the cumulative hazard while at risk. Between them only
arrays with a row for each event time are needed. r is computed twice rather than stored, so that
the sweeps read η and w three times and write the gradient once.
"""

from __future__ import annotations

import numpy as np
import torch

from .chunked_scans import CHUNK, ScanLayout, add_within, carry, scan
from .line_pieces import cut_pieces
from .segment_reductions import segment_sum
from .triton_language import jit, launch, next_power_of_two, tl, use_triton

__all__ = [
    "HIGHEST",
    "DeviceRiskSweeps",
    "gradient",
    "gradient_twin",
    "gradient_with_triton",
    "rate_sums",
    "rate_sums_twin",
    "rate_sums_with_triton",
]

# The largest η that is not replaced, so that no e^η is infinite.
HIGHEST: float = 700.0
# The range of sums within which no significant term underflowed or overflowed.
SMALL, LARGE = 1e-250, 1e250


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
    eta, w, lanes = eta.contiguous(), w.contiguous(), min(next_power_of_two(B), 16)
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
    eta, w, event, table, place, competing, inverse, later, late_place, out, n, B,
    HIGHEST: tl.constexpr, COMPETING: tl.constexpr, ROWS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Compute w e^η × (cumulative hazard while at risk) − w δ of each row."""
    c = tl.program_id(0)
    b = tl.program_id(1) * LANES + tl.arange(0, LANES)
    row = c.to(tl.int64) * ROWS + tl.arange(0, ROWS)
    mask = (row < n)[:, None] & (b < B)[None, :]
    _, weight, r = _rates(eta, w, row, b, mask, B, HIGHEST)
    at = tl.load(place + row, mask=row < n, other=0).to(tl.int64)
    hazard = tl.load(table + at[:, None] * B + b[None, :], mask=mask, other=0.0)
    if COMPETING:
        own = tl.load(competing + row, mask=row < n, other=-1).to(tl.int64)
        stays = mask & (own >= 0)[:, None]
        since = tl.load(late_place + own, mask=own >= 0, other=0).to(tl.int64)
        rate = tl.load(inverse + own[:, None] * B + b[None, :], mask=stays, other=0.0)
        hazard += rate * tl.load(later + since[:, None] * B + b[None, :], mask=stays, other=0.0)
    happened = tl.load(event + row, mask=row < n, other=0) > 0
    slope = r * hazard - tl.where(happened[:, None], weight, 0.0)
    tl.store(out + row[:, None] * B + b[None, :], slope, mask=mask)


def gradient_with_triton(
    eta: torch.Tensor, w: torch.Tensor, event: torch.Tensor, table: torch.Tensor,
    place: torch.Tensor, competing: tuple[torch.Tensor, ...] | None = None,
) -> torch.Tensor:  # fmt: skip
    """Compute the result of `gradient` by the kernel."""
    n, B = eta.shape
    lanes, out = min(next_power_of_two(B), 16), torch.empty_like(eta, dtype=torch.float64)
    rest = (place, table, table, place) if competing is None else competing
    launch(
        _gradient, (-(-n // CHUNK), -(-B // lanes)), eta.contiguous(), w.contiguous(), event,
        table.contiguous(), place, *(x.contiguous() for x in rest), out, n, B,
        HIGHEST=HIGHEST, COMPETING=competing is not None, ROWS=CHUNK, LANES=lanes,
    )  # fmt: skip
    return out


def gradient_twin(
    eta: torch.Tensor, w: torch.Tensor, event: torch.Tensor, table: torch.Tensor,
    place: torch.Tensor, competing: tuple[torch.Tensor, ...] | None = None,
) -> torch.Tensor:  # fmt: skip
    """Compute the result of `gradient` in torch operations."""
    hazard = table[place.long()]
    if competing is not None:
        own, inverse, later, late_place = competing
        at = torch.nonzero(own >= 0)[:, 0]
        mine = own[at].long()
        hazard[at] += inverse[mine] * later[late_place[mine].long()]
    events = torch.where(event[:, None] > 0, w, 0.0)
    return w * torch.exp(eta.clamp_max(HIGHEST)) * hazard - events


def gradient(
    eta: torch.Tensor, w: torch.Tensor, event: torch.Tensor, table: torch.Tensor,
    place: torch.Tensor, competing: tuple[torch.Tensor, ...] | None = None,
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
    competing : tuple of tensors, optional
        For Fine–Gray models: the number of each row among those with a competing event, or −1,
        (n,); 1 / G(T−) of these, (c, B); the sums of G dΛ over later event times, (·, B); and their
        rows in it, (c,).
    """
    compute = gradient_with_triton if use_triton(eta) else gradient_twin
    return compute(eta, w, event, table, place, competing)


class DeviceRiskSweeps:
    """The sweeps over the risk sets of one Cox model, with its arrays on the device.

    Parameters are those of `steropes.backends.cpu.risk_sweeps.RiskSweeps`, and a device.
    """

    def __init__(
        self, n: int, strata_start: np.ndarray, groups_start: np.ndarray, tied_start: np.ndarray,
        tied_end: np.ndarray, place: np.ndarray, share_start: np.ndarray | None,
        device: torch.device,
    ) -> None:  # fmt: skip
        self.n, self.m, self.device = n, len(tied_start), device
        self.strata = ScanLayout(self._send(strata_start), n)
        self.later = ScanLayout(self._send(groups_start), self.m, reverse=True)
        self.place = self._send(place, np.int32 if 2 * self.m < 2**31 else np.int64)
        event = np.zeros(n, np.uint8)
        # Ties are contiguous rows, so their rows are marked by the changes at their boundaries.
        change = np.zeros(n + 1, np.int64)
        np.add.at(change, tied_start, 1)
        np.add.at(change, tied_end, -1)
        event[np.cumsum(change)[:n] > 0] = 1
        self.event = self._send(event)
        # The running sum that a group needs includes its ties with one share for each group, and
        # ends before them with a share for each event.
        slot, groups = np.full(n, -1, np.int32), np.arange(self.m, dtype=np.int32)
        filled = np.diff(groups_start) > 0
        if share_start is None:
            slot[tied_end - 1] = groups
            self.shares = None
        else:
            alone = np.zeros(self.m, bool)
            alone[groups_start[:-1][filled]] = (
                tied_start[groups_start[:-1][filled]] == strata_start[:-1][filled]
            )
            before = ~alone
            slot[tied_start[before] - 1] = groups[before]
            size = np.diff(share_start)
            self.shares = cut_pieces(self._send(share_start[:-1]), self._send(share_start[1:]))
            self.group = self._send(np.repeat(np.arange(self.m), size))
            self.event_rows = torch.nonzero(self.event)[:, 0]
            tied = np.concatenate([[0], np.cumsum(tied_end - tied_start)])
            self.tied = cut_pieces(self._send(tied[:-1]), self._send(tied[1:]))
            ends = np.zeros((self.m, 1))
            ends[groups_start[1:][filled] - 1] = 1.0
            self.ends = self._send(ends) > 0
        self.slot = self._send(slot)

    def _send(self, x: np.ndarray, dtype: type | None = None) -> torch.Tensor:
        """Copy an array to the device."""
        return torch.from_numpy(np.array(x, dtype)).to(self.device)

    def evaluate(
        self, eta: torch.Tensor, w: torch.Tensor, share: torch.Tensor,
        fraction: torch.Tensor | None, gradient: bool = True,
    ) -> tuple[torch.Tensor, torch.Tensor | None] | None:  # fmt: skip
        """Compute the loss (B,) and its gradient (n, B), or None if sums over- or underflow.

        ``share`` and ``fraction`` are (K, B): the weight of each share, and the part of the tied
        events that stays in its risk set; None where that is all of them.
        """
        if not self.m:
            return None
        loss, S = rate_sums(eta, w, self.event, self.slot, self.m, self.strata)
        if self.shares is not None:
            assert fraction is not None
            cases = self.event_rows
            rates = w[cases] * torch.exp(eta[cases].clamp_max(HIGHEST))
            tied = segment_sum(rates, self.tied)
            S = S[self.group] + fraction * tied[self.group]
        S = torch.where(share == 0, 1.0, S)
        if not bool(((S > SMALL) & (S < LARGE)).all()):
            return None
        loss = loss + (share * torch.log(S)).sum(0)
        if not gradient:
            return loss, None
        return loss, self._gradient(eta, w, share / S, fraction)

    def _gradient(
        self, eta: torch.Tensor, w: torch.Tensor, h: torch.Tensor, fraction: torch.Tensor | None
    ) -> torch.Tensor:
        """Compute the gradient from the hazards of the shares, (K, B)."""
        nothing = h.new_zeros((1, h.shape[1]))
        if self.shares is None:
            table = torch.cat([scan(h, self.later), nothing])
        else:
            assert fraction is not None
            after = scan(segment_sum(h, self.shares), self.later)
            following = torch.where(self.ends, 0.0, torch.cat([after[1:], nothing]))
            own = following + segment_sum(h * fraction, self.shares)
            table = torch.cat([after, nothing, own])
        return gradient(eta, w, self.event, table, self.place)
