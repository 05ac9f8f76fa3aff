"""A partial likelihood of all rows from sums by event time, which blocks of rows add up.

The loss needs of the rows their sums over the risk sets (`shard_risk_sets`), added up; what comes
of these are the hazard's steps, with which each block knows the derivative of its own rows, and the
diagonal of its part of the Hessian

    Σ_i r_i H_i x_i x_i' − Σ_g c_g m_g m_g',    m_g = N_g + f_g E_g of r x.

Its second term is of few groups, as the event times of a Hessian for steps are merged into bins:
the blocks' sums m_g at these are added up too.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np

from ..backends.protocols import Array, Backend
from .event_time_bins import BINS, merge_hazards
from .risk_set_scaling import lifted
from .risk_sets import RiskGroups, RiskSets
from .shard_risk_sets import FineGrayPart, Hazards, RiskPart, RiskRows

__all__ = ["RiskExchange", "RiskHessian", "RiskModel"]


class RiskModel(Protocol):
    """What is asked of the likelihood of all rows; see `CoxLikelihood`."""

    backend: Backend
    n: int
    time: np.ndarray
    event: np.ndarray
    entry: np.ndarray | None
    stratum: np.ndarray
    risk: RiskSets
    by_event: bool

    def weigh(self, w: Array) -> Any:
        """Bind row weights."""

    def shares_of(self, N: Array, E: Array | None, weights: Any) -> tuple[Array, Array, Array]:
        """The loss's logarithms, S and h from sums over the risk sets."""

    def steps_of(self, h: Array, weights: Any) -> tuple[Array, Array]:
        """Hazards by event time."""

    def nodes(self, S: Array, h: Array, weights: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        """Terms of the exact Hessian."""

    def over_shares(self, x: Array) -> Array:
        """Sums over the shares of an event time."""

    def whole_of(self, S: Array) -> Array:
        """Sums over whole risk sets."""

    def common(self, weights: Any) -> dict[str, np.ndarray]:
        """What of all rows' weights matters to each, by groups."""

    def own(self, weights: Any) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The same by rows of the model: these, ascending, and an array of as many rows."""


@dataclass(frozen=True)
class RiskHessian:
    """What a Hessian is made of beside the blocks' sums.

    Attributes
    ----------
    hazards : Hazards
        With which the diagonal of the linear predictors is made; of one replicate.
    groups : (F,) int array
        At which sums of r x are wanted.
    nodes : list of ((F,) array, (F,) array)
        Pairs (f, c).
    apart : bool
        Whether tied events' sums are wanted apart.
    factor : float
        By which sums are multiplied for these c; see `lifted`.
    """

    hazards: Hazards
    groups: np.ndarray
    nodes: list[tuple[np.ndarray, np.ndarray]]
    apart: bool
    factor: float

    def moments(self, sums: dict[str, np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
        """Pairs (m (F, k), c (F,)) from the blocks' sums."""
        N = sums["at_risk"] * self.factor
        if not self.apart:
            return [(N, c) for _, c in self.nodes]
        E = sums["tied"] * self.factor
        return [(N + f[:, None] * E, c) for f, c in self.nodes]


class RiskExchange:
    """A likelihood with risk sets, and how its rows are spread over blocks.

    Parameters
    ----------
    likelihood : CoxLikelihood
    row : (rows of the model,) int array
        The row of X of each.
    cuts : (K + 1,) int array
        Where blocks of rows of X begin and end.
    interval : (S,) int array, optional
        The interval of time of each stratum; see `RiskRows`.
    competing : int array, optional
        Rows of the model that stay in risk sets for a competing event (Fine and Gray).
    """

    def __init__(
        self, likelihood: RiskModel, row: np.ndarray, cuts: np.ndarray,
        competing: np.ndarray | None = None, interval: np.ndarray | None = None,
    ) -> None:  # fmt: skip
        self.likelihood, self.competing, self.interval = likelihood, competing, interval
        block = np.searchsorted(cuts, row, side="right") - 1
        by = np.argsort(block, kind="stable")
        at = np.searchsorted(block[by], np.arange(len(cuts)))
        self.rows = [by[a:b] for a, b in pairwise(at)]  # each ascending: in the model's order
        self._first, self._row = cuts[:-1], row

    @property
    def apart(self) -> bool:
        """Whether tied events have sums of their own."""
        return self.likelihood.by_event

    def parts(self) -> list[Any]:
        """Makers of the blocks' `RiskPart`; see `Likelihood.parts`."""
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

    def shard_contexts(
        self, weights: Any, offset: np.ndarray | None
    ) -> list[dict[str, np.ndarray]]:
        """What each block is told of bound weights, see `PartWeights.common`, and its offsets.

        These are of the rows of η, in the model's order.
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
        self, sums: dict[str, np.ndarray], weights: Any, shift: np.ndarray | None
    ) -> tuple[np.ndarray, Hazards]:
        """Losses (B,) and hazards, from the blocks' sums."""
        logs, _, h = self._shares(sums, weights)
        rest, own = self.likelihood.steps_of(h, weights)
        return sums["linear"] + logs, Hazards(rest, own if self.apart else None, shift)

    def _shares(self, sums: dict[str, np.ndarray], weights: Any) -> tuple[Array, Array, Array]:
        tied = sums["tied"] if self.apart else None
        return self.likelihood.shares_of(sums["at_risk"], tied, weights)

    def hessian(
        self, sums: dict[str, np.ndarray], w: np.ndarray, shift: np.ndarray | None
    ) -> RiskHessian:
        """What the Hessian of one replicate is made of, for steps.

        Event times are merged as in `CoxLikelihood.curvature`. Row weights w (n, 1) are in the
        model's order; beside `loss`'s the sums have ``squares``.
        """
        whole = self.likelihood
        weights = whole.weigh(w)
        _, S, h = self._shares(sums, weights)
        factor, S, h = lifted(S, h)
        if whole.risk.m <= 1.5 * BINS:
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
        # Blocks multiply their rates, which are in units as before.
        hazards = Hazards(rest * factor, own * factor if own is not rest else None, shift)
        return RiskHessian(
            hazards, at, [(f[at], c[at]) for f, c in nodes], apart, factor
        )  # fmt: skip


def _part(rows: RiskRows, competing: np.ndarray | None, backend: Backend) -> RiskPart | None:
    """A block's rows; None where it has none of the model's."""
    if len(rows.row) == 0:
        return None
    if competing is None:
        return RiskPart(rows, backend)
    return FineGrayPart(rows, competing, backend)
