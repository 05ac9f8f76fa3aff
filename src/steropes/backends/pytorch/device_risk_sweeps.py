"""Cox's partial likelihood on a device, in two sweeps over the rows."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from .device_array import DeviceArray
from .device_segment_sums import Segments, segment_sums
from .host_device_transfers import upload
from .kernels.risk_set_sweeps import HIGHEST, gradient, rate_sums
from .kernels.running_sum_kernels import ScanLayout, scan

__all__ = ["DeviceRiskSweeps"]

# The range of sums within which no significant term underflowed or overflowed.
SMALL, LARGE = 1e-250, 1e250


class DeviceRiskSweeps:
    """The sweeps over the risk sets of one model.

    `steropes.backends.cpu.likelihoods.risk_sweeps` describes them.

    Parameters
    ----------
    n, strata_start, groups_start, tied_start, tied_end, place, share_start
        As of `RiskSweeps` of the CPU backend, on the host.
    """

    def __init__(
        self, n: int, strata_start: NDArray, groups_start: NDArray, tied_start: NDArray,
        tied_end: NDArray, place: NDArray, share_start: NDArray | None, device: torch.device,
    ) -> None:  # fmt: skip
        self.n, self.m, self.device = n, len(tied_start), device
        self.strata = ScanLayout(self._send(strata_start), n)
        self.later = ScanLayout(self._send(groups_start), self.m, reverse=True)
        self.place = self._send(place, np.int32 if 2 * self.m < 2**31 else np.int64)
        # The tied events of a group are contiguous rows.
        change = np.zeros(n + 1, np.int64)
        np.add.at(change, tied_start, 1)
        np.add.at(change, tied_end, -1)
        self.event = self._send(np.cumsum(change)[:n] > 0, np.uint8)
        slot, groups = np.full(n, -1, np.int32), np.arange(self.m, dtype=np.int32)
        filled = np.flatnonzero(np.diff(groups_start) > 0)
        if share_start is None:  # The risk set of a group includes its tied events.
            slot[tied_end - 1] = groups
            self.shares: Segments | None = None
        else:  # Shares include a part of the tied events, which are summed separately.
            first = groups_start[filled]
            alone = np.zeros(self.m, bool)
            alone[first] = tied_start[first] == strata_start[filled]
            slot[tied_start[~alone] - 1] = groups[~alone]
            self._prepare_shares(share_start, groups_start[filled + 1] - 1, tied_end - tied_start)
        self.slot = self._send(slot)

    def _prepare_shares(self, share_start: NDArray, last: NDArray, ties: NDArray) -> None:
        """Prepare sums over shares and ties; ``last`` lists the last group of each stratum."""
        self.shares = Segments(share_start, self.device)
        self.group = self._send(np.repeat(np.arange(self.m), np.diff(share_start)))
        self.event_rows = torch.nonzero(self.event)[:, 0]
        self.tied = Segments(np.concatenate([[0], np.cumsum(ties)]), self.device)
        ends = np.zeros((self.m, 1), bool)
        ends[last] = True
        self.ends = self._send(ends)

    def _send(self, x: NDArray, dtype: type | None = None) -> torch.Tensor:
        """Copy an array to the device."""
        return upload(np.asarray(x, dtype), self.device)

    def evaluate(
        self, eta: DeviceArray, w: DeviceArray, share: DeviceArray, fraction: DeviceArray | None,
        with_gradient: bool = True,
    ) -> tuple[DeviceArray, DeviceArray | None] | None:  # fmt: skip
        """Compute the loss (B,) and its gradient (n, B), or None if sums over- or underflow.

        Parameters
        ----------
        eta, w : (n, B) arrays
            Linear predictor and weights.
        share, fraction : (K, B) arrays
            Weight of each share and the part of the tied events that stays in its risk set;
            None where that is all of them.
        """
        if not self.m:
            return None
        e, weight, shares = eta.tensor, w.tensor, share.tensor
        parts = None if fraction is None else fraction.tensor
        loss, S = rate_sums(e, weight, self.event, self.slot, self.m, self.strata)
        if self.shares is not None:
            assert parts is not None
            at = self.event_rows
            tied = segment_sums(weight[at] * torch.exp(e[at].clamp_max(HIGHEST)), self.tied)
            S = S[self.group] + parts * tied[self.group]
        S = torch.where(shares == 0, 1.0, S)
        if not bool(DeviceArray(((S > SMALL) & (S < LARGE)).all())):
            return None
        loss = loss + (shares * torch.log(S)).sum(0)
        if not with_gradient:
            return DeviceArray(loss), None
        table = self._hazards(shares / S, parts)
        slopes = gradient(e, weight, self.event, table, self.place)
        return DeviceArray(loss), DeviceArray(slopes)

    def _hazards(self, h: torch.Tensor, fraction: torch.Tensor | None) -> torch.Tensor:
        """Compute the distinct cumulative hazards while at risk from those of shares, (K, B)."""
        nothing = h.new_zeros((1, h.shape[1]))
        if self.shares is None:
            return torch.cat([scan(h, self.later), nothing])
        assert fraction is not None
        after = scan(segment_sums(h, self.shares), self.later)
        following = torch.where(self.ends, 0.0, torch.cat([after[1:], nothing]))
        own = following + segment_sums(h * fraction, self.shares)
        return torch.cat([after, nothing, own])
