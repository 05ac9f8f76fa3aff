"""The rows of one shard in risk sets that extend over several shards.

With r_i = w_i exp(η_i − s), a shard contributes N_g and E_g, the sums of its r_i over the risk set
of event time g without and over the tied events, and computes the derivative of the loss in η_i,

    r_i Σ_{g: i at risk} h_g − w_i δ_i,

for hazards h_g that follow from the sums over all rows (`sharded_partial_likelihood`). The groups g
are those of all rows, so only two vectors with an entry per distinct event time are exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends.backend_interface import Array, Backend
from .risk_sets import RiskGroups, RiskSets, RunSums

__all__ = ["Hazards", "RiskRows", "ShardFineGrayRiskSets", "ShardRiskSets", "ShardWeights"]


@dataclass(frozen=True)
class Hazards:
    """Increments of the hazard at the event times, computed from all rows.

    Attributes
    ----------
    rest : (m, B) array
        Increments for rows at risk.
    own : (m, B) array or None
        Increments for the tied events; None if they are the same.
    shift : (S, B) array or None
        The value subtracted from η in each stratum before exp; None means zero.
    """

    rest: np.ndarray
    own: np.ndarray | None
    shift: np.ndarray | None


@dataclass(frozen=True)
class RiskRows:
    """The rows of the model in one shard.

    Attributes
    ----------
    row : (n,) int array
        Row of X within the shard for each row of the model.
    time, event : (n,) arrays
        In the model's order: by stratum, then from late to early, events last.
    entry : (n,) array or None
    stratum : (n,) int array
        0 … S−1, ascending; some strata may have no row in this shard.
    strata : int
        Number of strata, S.
    apart : bool
        Whether tied events have separate sums (Efron's method).
    interval : (S,) int array or None
        Interval of each stratum, ascending, if effects change with time. A row of X then has a row
        of the model in each interval at which it is at risk. None means one row.
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
        """Return the boundaries of the intervals among the rows, (count + 1,)."""
        assert self.interval is not None
        return np.searchsorted(self.interval[self.stratum], np.arange(count + 1))


@dataclass(frozen=True)
class ShardWeights:
    """Row weights of the replicates and the data of all rows' weights that this shard needs.

    Attributes
    ----------
    w : (n, B) array
        Row weights.
    common : mapping of arrays
        Arrays with a column per replicate; see `ShardFineGrayRiskSets`.
    """

    w: Any
    common: Mapping[str, np.ndarray]

    def of_lane(self, lane: int) -> ShardWeights:
        """Select one replicate."""
        one = slice(lane, lane + 1)
        return ShardWeights(self.w[:, one], {k: x[:, one] for k, x in self.common.items()})


class ShardRiskSets:
    """The rows of a Cox model in one shard."""

    def __init__(self, rows: RiskRows, backend: Backend) -> None:
        self.rows, self.backend = rows, backend
        self.row = rows.row
        self.order = rows.row if rows.interval is None else None
        self.n = self.n_eta = len(rows.row)
        self.start = np.searchsorted(rows.stratum, np.arange(rows.strata + 1))
        self.risk = RiskSets(rows.time, rows.event, rows.entry, self.start, backend, rows.groups)
        self.delta = backend.asarray(np.asarray(rows.event, np.float64)[:, None])

    def weigh(self, w: Array, common: Mapping[str, np.ndarray]) -> ShardWeights:
        """Bind row weights (n, B)."""
        return ShardWeights(w, common)

    @property
    def _ever(self) -> np.ndarray:
        """Whether each row is in some risk set, (n,)."""
        return self.risk.ever

    # -- contributions to the sums over shards -----------------------------------------------

    def tops(self, eta: Array, weights: ShardWeights) -> np.ndarray:
        """Find the largest η of weighted rows at risk in each stratum, (S, B); −∞ if none."""
        counted = (weights.w > 0) & self.backend.asarray(self._ever[:, None])
        top = self.backend.segment_max(np.where(counted, eta, -np.inf), self.start)
        return np.asarray(self.backend.to_host(top))

    def rates(
        self, eta: Array, weights: ShardWeights, shift: np.ndarray | None
    ) -> tuple[Array, np.ndarray]:
        """Compute r, (n, B), and the event term of the loss, −Σ w δ (η − s), (B,)."""
        e = eta if shift is None else np.minimum(eta - shift[self.risk.stratum], 0.0)
        events = weights.w * self.delta
        return weights.w * np.exp(e), -np.asarray(self.backend.column_sum(events * e))

    def sums(self, r: Array, weights: ShardWeights) -> dict[str, np.ndarray]:
        """Compute ``at_risk`` and, if tied events are separate, ``tied``, (m, B) each."""
        N, E = self.risk.over_rows(r), self.risk.over_events(r)
        if not self.rows.apart:
            return {"at_risk": N + E}
        return {"at_risk": N, "tied": E}

    def squares(self, r: Array, weights: ShardWeights) -> np.ndarray:
        """Sum r² over the risk sets including all tied events, (m, B)."""
        square = r * r
        return self.risk.over_rows(square) + self.risk.over_events(square)

    # -- results from the hazards of all rows ------------------------------------------------

    def exposure(self, weights: ShardWeights, hazards: Hazards) -> Array:
        """Compute the cumulative hazard of each row while at risk, (n, B)."""
        own = hazards.rest if hazards.own is None else hazards.own
        table, at = self.risk.over_groups(hazards.rest, own)
        return table[at]

    def gradient(self, r: Array, weights: ShardWeights, hazards: Hazards) -> Array:
        """Compute the derivative of the loss in η, (n, B)."""
        return r * self.exposure(weights, hazards) - weights.w * self.delta

    def moments(
        self, sums: RunSums, k: int, u: Array, weights: ShardWeights, chosen: np.ndarray,
        at: slice = slice(None),
    ) -> tuple[Array, Array | None]:  # fmt: skip
        """Sum r x over the risk sets of some groups, without tied events and over these.

        The second is None if the first includes it.

        Parameters
        ----------
        sums : RunSums
            Sums of the k values x of each row.
        k : int
            Number of values per row.
        u : (·,) array
            The rates r.
        chosen : (F,) int array
            Groups, ascending.
        at : slice
            The rows to which u and ``sums`` refer; they include all rows of the groups.
        """
        risk = self._risk_at(chosen, at)
        E = sums(u[risk.event_rows], risk.event_start, risk.event_rows)
        return risk.moments_over_rows(sums, u, k), E

    def _risk_at(self, chosen: np.ndarray, at: slice = slice(None)) -> RiskSets:
        """Build the risk sets of some rows at some groups."""
        rows = self.rows
        entry = None if rows.entry is None else rows.entry[at]
        a, b, _ = at.indices(self.n)
        return RiskSets(
            rows.time[at], rows.event[at], entry, np.clip(self.start, a, b) - a, self.backend,
            rows.groups.only(chosen),
        )  # fmt: skip


class ShardFineGrayRiskSets(ShardRiskSets):
    """The rows of a Fine–Gray model in one shard.

    Rows with a competing event remain in the risk sets. The ``common`` data are ``G`` (m, B), the
    censoring distribution before the event times, and ``inverse`` (c, B), its reciprocal before
    the times of the competing events in this shard.

    Parameters
    ----------
    rows, backend
        As in `ShardRiskSets`.
    competing : (c,) int array
        Rows with a competing event, ascending.
    """

    def __init__(self, rows: RiskRows, competing: np.ndarray, backend: Backend) -> None:
        super().__init__(rows, backend)
        self.competing = competing

    @property
    def _ever(self) -> np.ndarray:
        """Whether each row is in some risk set, (n,)."""
        ever = self.risk.ever
        ever[self.competing] = True
        return ever

    def _stayed(
        self, x: Array, risk: RiskSets, sums: Callable[[Array, np.ndarray], Array]
    ) -> Array:
        """Sum x (c, ·) over the rows with a competing event before each group's time."""
        ends = np.append(risk.tied_end[1:], self.n)
        final = risk.groups_start[1:][np.diff(risk.groups_start) > 0] - 1
        ends[final] = self.start[risk.group_stratum[final] + 1]
        between = np.append(np.stack([risk.tied_end, ends], 1).ravel(), ends[-1:])
        pointers = np.searchsorted(self.competing, between)
        return self.backend.scan(sums(x, pointers)[::2], risk.groups_start, True)

    def sums(self, r: Array, weights: ShardWeights) -> dict[str, np.ndarray]:
        """See `ShardRiskSets.sums`; weighted by ω."""
        x = r[self.competing] * weights.common["inverse"]
        late = self._stayed(x, self.risk, self.backend.segment_sum)
        N = self.risk.over_rows(r) + self.risk.over_events(r)
        return {"at_risk": N + weights.common["G"] * late}

    def squares(self, r: Array, weights: ShardWeights) -> np.ndarray:
        """See `ShardRiskSets.squares`."""
        x = (r[self.competing] * weights.common["inverse"]) ** 2
        late = self._stayed(x, self.risk, self.backend.segment_sum)
        return super().squares(r, weights) + weights.common["G"] ** 2 * late

    def exposure(self, weights: ShardWeights, hazards: Hazards) -> Array:
        """See `ShardRiskSets.exposure`."""
        total, risk = super().exposure(weights, hazards), self.risk
        later = self.backend.scan(hazards.rest * weights.common["G"], risk.groups_start)
        at = np.searchsorted(risk.tied_end, self.competing, side="right") - 1
        there = (at >= 0) & (risk.group_stratum[at] == risk.stratum[self.competing])
        total[self.competing] += np.where(
            there[:, None], weights.common["inverse"] * later[at], 0.0
        )
        return total

    def moments(
        self, sums: RunSums, k: int, u: Array, weights: ShardWeights, chosen: np.ndarray,
        at: slice = slice(None),
    ) -> tuple[Array, Array | None]:  # fmt: skip
        """See `ShardRiskSets.moments`; weighted by ω, and for all rows, as effects are constant."""
        x = u[self.competing, None] * weights.common["inverse"]
        late = self._stayed(
            x[:, 0], self._risk_at(chosen), lambda own, ends: sums(own, ends, self.competing)
        )
        N, E = super().moments(sums, k, u, weights, chosen)
        return N + E + weights.common["G"][chosen] * late, None
