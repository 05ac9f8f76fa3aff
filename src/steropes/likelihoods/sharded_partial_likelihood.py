"""A partial likelihood over shards, computed from their sums by event time.

The loss depends on the shards' sums over the risk sets (`shard_risk_sets`), which are added. The
resulting hazard increments determine the derivative of the loss in each shard and the diagonal
r_i H_i of its part of the Hessian

    Σ_i r_i H_i x_i x_i' − Σ_g c_g m_g m_g',    m_g = N_g + f_g E_g of r x.

The second term has few groups, because the event times of a Hessian for steps are merged into
bins. The shards' sums m_g at these groups are added too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from ..backends.backend_interface import Array, Backend
from .event_time_bins import merge_hazards
from .likelihood_constants import HAZARD_BINS
from .risk_sets import RiskGroups, RiskSets
from .shard_risk_sets import Hazards, RiskRows, ShardFineGrayRiskSets, ShardRiskSets
from .small_risk_set_scaling import scale_small_risk_sets

__all__ = ["RiskHessian", "RiskModel", "ShardedPartialLikelihood"]

# The row weights that a likelihood has bound.
W = TypeVar("W")


class RiskModel(Protocol[W]):
    """The methods required of the likelihood of all rows; see `CoxLikelihood`."""

    backend: Backend
    n: int
    time: np.ndarray
    event: np.ndarray
    entry: np.ndarray | None
    stratum: np.ndarray
    risk: RiskSets
    by_event: bool

    def weigh(self, w: Array) -> W:
        """Bind row weights."""

    def shares_of(self, N: Array, E: Array | None, weights: W) -> tuple[Array, Array, Array]:
        """Compute the log terms of the loss, S and h from sums over the risk sets."""

    def steps_of(self, h: Array, weights: W) -> tuple[Array, Array]:
        """Sum hazards by event time."""

    def nodes(self, S: Array, h: Array, weights: W) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the terms of the exact Hessian."""

    def over_shares(self, x: Array) -> Array:
        """Sum over the shares of each event time."""

    def whole_of(self, S: Array) -> Array:
        """Select the sums over whole risk sets."""

    def common(self, weights: W) -> dict[str, np.ndarray]:
        """Return quantities of all rows' weights that each shard needs, by group."""

    def own(self, weights: W) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return quantities by row: ascending rows of the model, and an array with their values."""


@dataclass(frozen=True)
class RiskHessian:
    """The quantities from which a Hessian is computed, apart from the shards' sums.

    Attributes
    ----------
    hazards : Hazards
        Hazards of one replicate, for the diagonal over the linear predictors.
    groups : (F,) int array
        Groups at which sums of r x are needed.
    nodes : list of ((F,) array, (F,) array)
        Pairs (f, c).
    apart : bool
        Whether sums over tied events are needed separately.
    factor : float
        Scale of the sums to which c refers; see `scale_small_risk_sets`.
    """

    hazards: Hazards
    groups: np.ndarray
    nodes: list[tuple[np.ndarray, np.ndarray]]
    apart: bool
    factor: float

    def moments(self, sums: dict[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Compute pairs of moments m (F, k) and weights c (F,) from the shards' sums."""
        N = sums["at_risk"] * self.factor
        if not self.apart:
            return [(N, c) for _, c in self.nodes]
        E = sums["tied"] * self.factor
        return [(N + f[:, None] * E, c) for f, c in self.nodes]


class ShardedPartialLikelihood(Generic[W]):
    """A likelihood with risk sets and the distribution of its rows over shards.

    Parameters
    ----------
    likelihood : CoxLikelihood
        The likelihood of all rows.
    row : (rows of the model,) int array
        The row of X for each row of the model.
    cuts : (K + 1,) int array
        Boundaries of the shards among the rows of X.
    interval : (S,) int array, optional
        Interval of time of each stratum; see `RiskRows`.
    competing : int array, optional
        Rows of the model that remain in risk sets after a competing event (Fine and Gray).
    """

    def __init__(
        self, likelihood: RiskModel[W], row: np.ndarray, cuts: np.ndarray,
        competing: np.ndarray | None = None, interval: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        self.likelihood, self.competing, self.interval = likelihood, competing, interval
        block = np.searchsorted(cuts, row, side="right") - 1
        by = np.argsort(block, kind="stable")
        at = np.searchsorted(block[by], np.arange(len(cuts)))
        self.rows = [by[a:b] for a, b in pairwise(at)]  # ascending, so in the model's order
        self._first, self._row = cuts[:-1], row

    @property
    def apart(self) -> bool:
        """Whether tied events have separate sums."""
        return self.likelihood.by_event

    def parts(self) -> list[Any]:
        """Return factories of the shards' `ShardRiskSets`; see `Likelihood.parts`."""
        whole, risk = self.likelihood, self.likelihood.risk
        groups = RiskGroups(np.asarray(risk.group_time), np.array(risk.group_stratum))
        out = []
        for rows, first in zip(self.rows, self._first, strict=True):
            entry = None if whole.entry is None else whole.entry[rows]
            own = RiskRows(
                self._row[rows] - first, whole.time[rows], whole.event[rows], entry,
                np.array(whole.stratum[rows]), len(risk.strata_start) - 1, groups, self.apart,
                self.interval,
            )  # fmt: skip
            late = None
            if self.competing is not None:
                late = np.flatnonzero(np.isin(rows, self.competing, assume_unique=True))
            out.append(partial(_part, own, late))
        return out

    def shard_contexts(self, weights: W, offset: np.ndarray | None) -> list[dict[str, np.ndarray]]:
        """Collect the data of bound weights and offsets that each shard receives.

        See `ShardWeights.common`. The offsets are those of the rows of η in the model's order.
        """
        common, own = self.likelihood.common(weights), self.likelihood.own(weights)
        out = []
        for rows in self.rows:
            context = dict(common)
            for name, (whose, x) in own.items():
                context[name] = x[np.isin(whose, rows, assume_unique=True)]
            if offset is not None:
                context["offset"] = offset[rows]
            out.append(context)
        return out

    def loss(
        self, sums: dict[str, np.ndarray], weights: W, shift: np.ndarray | None
    ) -> tuple[np.ndarray, Hazards]:
        """Compute losses, (B,), and hazards from the shards' sums."""
        logs, _, h = self._shares(sums, weights)
        rest, own = self.likelihood.steps_of(h, weights)
        return sums["linear"] + logs, Hazards(rest, own if self.apart else None, shift)

    def _shares(self, sums: dict[str, np.ndarray], weights: W) -> tuple[Array, Array, Array]:
        """Compute the log terms of the loss, S and h from the shards' sums."""
        tied = sums["tied"] if self.apart else None
        return self.likelihood.shares_of(sums["at_risk"], tied, weights)

    def hessian(
        self, sums: dict[str, np.ndarray], w: np.ndarray, shift: np.ndarray | None
    ) -> RiskHessian:
        """Compute the quantities from which the Hessian of one replicate is built, for steps.

        Event times are merged as in `CoxLikelihood.curvature`. Row weights w (n, 1) are in the
        model's order. The sums contain ``squares`` in addition to those of `loss`.
        """
        whole = self.likelihood
        weights = whole.weigh(w)
        _, S, h = self._shares(sums, weights)
        factor, S, h = scale_small_risk_sets(S, h)
        if whole.risk.m <= 1.5 * HAZARD_BINS.min_bins:
            rest, own = whole.steps_of(h, weights)
            nodes = whole.nodes(S, h, weights)
        else:
            total = whole.whole_of(S)
            squares = sums["squares"] * factor**2
            merged = merge_hazards(
                whole.over_shares(h), total, squares, whole.risk.groups_start, whole.n
            )
            rest = own = merged[:, None]
            c = np.divide(merged, total[:, 0], out=np.zeros_like(merged), where=merged > 0)
            nodes = [(np.ones(len(c)), c)]
        at = np.flatnonzero(np.any([c != 0 for _, c in nodes], axis=0))
        apart = any((f[at] != 1.0).any() for f, _ in nodes)
        # The shards multiply by their unscaled rates.
        hazards = Hazards(rest * factor, own * factor if own is not rest else None, shift)
        return RiskHessian(
            hazards, at, [(f[at], c[at]) for f, c in nodes], apart, factor
        )  # fmt: skip


def _part(rows: RiskRows, competing: np.ndarray | None, backend: Backend) -> ShardRiskSets | None:
    """Build the rows of one shard; None if it has no row of the model."""
    if len(rows.row) == 0:
        return None
    if competing is None:
        return ShardRiskSets(rows, backend)
    return ShardFineGrayRiskSets(rows, competing, backend)
