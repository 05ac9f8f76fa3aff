"""Some rows of a model whose risk sets have rows elsewhere too: what they add, and get back.

With r_i = w_i exp(η_i − s) of the rows here, these are N_g and E_g, their sums over the risk set of
event time g (tied events apart), and the derivative of the loss in η_i,

    r_i Σ_{g: i at risk} h_g − w_i δ_i,

for hazards h_g that the sums over all rows make (`sharded_partial_likelihood`). Groups g are those
of all rows, so that two vectors as long as the distinct event times are all that goes to and fro.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends.protocols import Array, Backend
from .risk_sets import RiskGroups, RiskSets, RunSums

__all__ = ["FineGrayPart", "Hazards", "PartWeights", "RiskPart", "RiskRows"]


@dataclass(frozen=True)
class Hazards:
    """Steps of the hazard at the event times, from all rows.

    Attributes
    ----------
    rest : (m, B) array
        For those at risk.
    own : (m, B) array or None
        For the tied events; None where it is the same.
    shift : (S, B) array or None
        What is taken from η of each stratum before exp; None is zero.
    """

    rest: np.ndarray
    own: np.ndarray | None
    shift: np.ndarray | None


@dataclass(frozen=True)
class RiskRows:
    """Rows of the model that a block of X has.

    Attributes
    ----------
    row : (n,) int array
        The block's row of X for each.
    time, event : (n,) arrays
        In the model's order: by stratum, then from late to early, events last.
    entry : (n,) array or None
    stratum : (n,) int array
        0 … S−1, ascending; not every stratum has rows here.
    strata : int
        S.
    groups : RiskGroups
        Of all rows.
    apart : bool
        Whether tied events have sums of their own (Efron's method).
    interval : (S,) int array or None
        Where effects change with time: the interval that each stratum is of, ascending. A row of
        X then has a row in each interval that it is at risk in. None: it has one.
    """

    row: np.ndarray
    time: np.ndarray
    event: np.ndarray
    entry: np.ndarray | None
    stratum: np.ndarray
    strata: int
    groups: RiskGroups
    apart: bool
    interval: np.ndarray | None = None

    def intervals(self, count: int) -> np.ndarray:
        """Where each interval's rows begin and end, (count + 1,)."""
        assert self.interval is not None
        return np.searchsorted(self.interval[self.stratum], np.arange(count + 1))


@dataclass(frozen=True)
class PartWeights:
    """Row weights of the replicates, and what of all rows' weights matters here.

    Attributes
    ----------
    w : (n, B) array
    common : mapping of arrays
        See `FineGrayPart`.
    """

    w: Any
    common: Mapping[str, np.ndarray]

    def of_lane(self, lane: int) -> PartWeights:
        """Those of one replicate."""
        one = slice(lane, lane + 1)
        return PartWeights(self.w[:, one], {k: x[:, one] for k, x in self.common.items()})


class RiskPart:
    """Rows of one block; of a Cox model.

    Parameters
    ----------
    rows : RiskRows
    backend : Backend
    """

    def __init__(self, rows: RiskRows, backend: Backend) -> None:
        self.rows, self.backend = rows, backend
        self.row = rows.row
        self.order = rows.row if rows.interval is None else None
        self.n = self.n_eta = len(rows.row)
        self.start = np.searchsorted(rows.stratum, np.arange(rows.strata + 1))
        self.risk = RiskSets(rows.time, rows.event, rows.entry, self.start, backend, rows.groups)
        self.delta = backend.asarray(np.asarray(rows.event, np.float64)[:, None])

    def weigh(self, w: Array, common: Mapping[str, np.ndarray]) -> PartWeights:
        """Bind row weights (n, B)."""
        return PartWeights(w, common)

    @property
    def _ever(self) -> np.ndarray:
        return self.risk.ever

    # -- to all ------------------------------------------------------------------------------

    def tops(self, eta: Array, weights: PartWeights) -> np.ndarray:
        """The largest η of each stratum's rows that matter, (S, B); −∞ where there are none."""
        counted = (weights.w > 0) & self.backend.asarray(self._ever[:, None])
        top = self.backend.segment_max(np.where(counted, eta, -np.inf), self.start)
        return np.asarray(self.backend.to_host(top))

    def rates(
        self, eta: Array, weights: PartWeights, shift: np.ndarray | None
    ) -> tuple[Array, np.ndarray]:
        """r, (n, B), and the events' part of the loss, −Σ w δ (η − s), (B,)."""
        e = eta if shift is None else np.minimum(eta - shift[self.risk.stratum], 0.0)
        events = weights.w * self.delta
        return weights.w * np.exp(e), -np.asarray(self.backend.column_sum(events * e))

    def sums(self, r: Array, weights: PartWeights) -> dict[str, np.ndarray]:
        """``at_risk`` and, where tied events are apart, ``tied``, (m, B) each."""
        N, E = self.risk.over_rows(r), self.risk.over_events(r)
        if not self.rows.apart:
            return {"at_risk": N + E}
        return {"at_risk": N, "tied": E}

    def squares(self, r: Array, weights: PartWeights) -> np.ndarray:
        """Sums of r² over the risk sets with the tied events whole, (m, B)."""
        square = r * r
        return self.risk.over_rows(square) + self.risk.over_events(square)

    # -- from all ----------------------------------------------------------------------------

    def exposure(self, weights: PartWeights, hazards: Hazards) -> Array:
        """Cumulative hazard while at risk, (n, B)."""
        own = hazards.rest if hazards.own is None else hazards.own
        table, at = self.risk.over_groups(hazards.rest, own)
        return table[at]

    def gradient(self, r: Array, weights: PartWeights, hazards: Hazards) -> Array:
        """Derivative of the loss in η, (n, B)."""
        return r * self.exposure(weights, hazards) - weights.w * self.delta

    def moments(
        self, sums: RunSums, k: int, u: Array, weights: PartWeights, chosen: np.ndarray,
        at: slice = slice(None),
    ) -> tuple[Array, Array | None]:  # fmt: skip
        """Sums of r x over the risk sets of some groups: of those at risk, and of tied events.

        The second is None where it is in the first.

        Parameters
        ----------
        sums : RunSums
            Of the k numbers x of each row.
        u : (·,) array
            r.
        chosen : (F,) int array
            Groups, ascending.
        at : slice
            The rows that u and the sums are of; those of the groups are among them.
        """
        risk = self._risk_at(chosen, at)
        E = sums(u[risk.event_rows], risk.event_start, risk.event_rows)
        return risk.moments_over_rows(sums, u, k), E

    def _risk_at(self, chosen: np.ndarray, at: slice = slice(None)) -> RiskSets:
        rows = self.rows
        entry = None if rows.entry is None else rows.entry[at]
        a, b, _ = at.indices(self.n)
        return RiskSets(
            rows.time[at], rows.event[at], entry, np.clip(self.start, a, b) - a, self.backend,
            rows.groups.only(chosen),
        )  # fmt: skip


class FineGrayPart(RiskPart):
    """Rows whose risk sets those with a competing event do not leave.

    What of all rows' weights matters is ``G`` (m, B), the censoring distribution before the event
    times, and ``inverse`` (c, B), one over that before the times of the competing events here.

    Parameters
    ----------
    rows, backend
        As in `RiskPart`.
    competing : (c,) int array
        Rows with a competing event, ascending.
    """

    def __init__(self, rows: RiskRows, competing: np.ndarray, backend: Backend) -> None:
        super().__init__(rows, backend)
        self.competing = competing

    @property
    def _ever(self) -> np.ndarray:
        ever = self.risk.ever
        ever[self.competing] = True
        return ever

    def _stayed(self, x: Array, risk: RiskSets, sums: Any) -> Array:
        """Sums of x (c, ·) over those with a competing event before each group's time."""
        ends = np.append(risk.tied_end[1:], self.n)
        final = risk.groups_start[1:][np.diff(risk.groups_start) > 0] - 1
        ends[final] = self.start[risk.group_stratum[final] + 1]
        between = np.append(np.stack([risk.tied_end, ends], 1).ravel(), ends[-1:])
        pointers = np.searchsorted(self.competing, between)
        return self.backend.scan(sums(x, pointers)[::2], risk.groups_start, True)

    def sums(self, r: Array, weights: PartWeights) -> dict[str, np.ndarray]:
        """See `RiskPart.sums`; weighted."""
        x = r[self.competing] * weights.common["inverse"]
        late = self._stayed(x, self.risk, self.backend.segment_sum)
        N = self.risk.over_rows(r) + self.risk.over_events(r)
        return {"at_risk": N + weights.common["G"] * late}

    def squares(self, r: Array, weights: PartWeights) -> np.ndarray:
        """See `RiskPart.squares`."""
        x = (r[self.competing] * weights.common["inverse"]) ** 2
        late = self._stayed(x, self.risk, self.backend.segment_sum)
        return super().squares(r, weights) + weights.common["G"] ** 2 * late

    def exposure(self, weights: PartWeights, hazards: Hazards) -> Array:
        """See `RiskPart.exposure`."""
        total, risk = super().exposure(weights, hazards), self.risk
        later = self.backend.scan(hazards.rest * weights.common["G"], risk.groups_start)
        at = np.searchsorted(risk.tied_end, self.competing, side="right") - 1
        there = (at >= 0) & (risk.group_stratum[at] == risk.stratum[self.competing])
        total[self.competing] += np.where(
            there[:, None], weights.common["inverse"] * later[at], 0.0
        )
        return total

    def moments(
        self, sums: RunSums, k: int, u: Array, weights: PartWeights, chosen: np.ndarray,
        at: slice = slice(None),
    ) -> tuple[Array, Array | None]:  # fmt: skip
        """See `RiskPart.moments`; weighted. Of all rows: effects do not change with time here."""
        x = u[self.competing, None] * weights.common["inverse"]
        late = self._stayed(
            x[:, 0], self._risk_at(chosen), lambda own, ends: sums(own, ends, self.competing)
        )
        N, E = super().moments(sums, k, u, weights, chosen)
        return N + E + weights.common["G"][chosen] * late, None
