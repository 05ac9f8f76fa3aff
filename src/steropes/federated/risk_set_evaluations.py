"""Evaluations of survival models with risk sets that contain rows of all sites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from .answer_layout import Totals
from .falsified_totals import IMPOSSIBLE, refuse_impossible
from .federated_constants import EVALUATION
from .federated_plan import FederatedPlan
from .message_exchange import Exchange
from .pooled_description import PooledDescription
from .pooled_evaluations import Evaluations, KnownPoint
from .pooled_risk_sets import HeldOut, HessianWeights, PooledRiskSets, RiskSums
from .site_sums import unpack_lower

__all__ = ["RiskSetEvaluations", "RiskSetRequest", "StoredRiskSets", "risk_sets_over_sites"]


@dataclass(frozen=True)
class RiskSetRequest:
    """The sums that one fit needs from a round.

    Attributes
    ----------
    points : list of (P,) arrays
        The points, with first moments at the first one, and with a Hessian if shares are given.
    fold : int
        The fold that is left out, −1 for none.
    """

    points: list[np.ndarray]
    shares: HessianWeights | None
    fold: int = -1


def risk_sets_over_sites(
    exchange: Exchange,
    described: PooledDescription,
    columns: np.ndarray,
    asks: Sequence[RiskSetRequest],
) -> list[RiskSums]:
    """Request one round of sums over all sites for several fits.

    Parameters
    ----------
    columns : (k,) int array
        Columns of the Hessians.
    """
    firsts = np.cumsum([0, *(len(a.points) for a in asks)])
    known = [h for h, a in enumerate(asks) if a.shares is not None]
    arrays = {
        "points": np.concatenate([np.array(a.points) for a in asks]),
        "center": described.center, "scale": described.scale, "columns": columns,
        "times": described.times, "firsts": firsts[:-1], "hessians": np.array(known, np.int64),
    }  # fmt: skip
    if known:
        given = [a.shares for a in asks if a.shares is not None]
        arrays |= {"a": np.array([s.a for s in given]), "b": np.array([s.b for s in given])}
    if described.censoring is not None:
        arrays["censoring_times"] = described.censoring.times
        arrays["censoring"] = described.censoring.G
    if exchange.plan.folds:
        arrays["folds"] = np.array([a.fold for a in asks])
    exchange.reached = asks[0].points[0]
    totals = exchange.total("risk_sets", arrays)
    return [
        _of_one_fit(
            totals, described.scale, columns, slice(firsts[h], firsts[h + 1]), h, ask, known
        )
        for h, ask in enumerate(asks)
    ]


def _of_one_fit(
    totals: Totals, scale: np.ndarray, columns: np.ndarray, own: slice, h: int, ask: RiskSetRequest,
    known: list[int],
) -> RiskSums:  # fmt: skip
    """Select the totals of one fit, in the columns' own units."""
    too_far = totals["too_far"][own] > 0
    second = held = None
    if h in known:
        at = scale[columns]
        second = unpack_lower(totals["second"][known.index(h)], len(columns)) * at * at[:, None]
    if ask.fold >= 0:
        held = HeldOut(**{f.name: np.asarray(totals[f"held_{f.name}"][h]) for f in fields(HeldOut)})
    return RiskSums(
        np.where(too_far[:, None], np.inf, totals["S"][own]),
        np.where(too_far[:, None], np.inf, totals["E"][own]),
        totals["linear"][own], totals["S1"][h] * scale, totals["E1"][h] * scale,
        totals["covariates"][h] * scale, totals["count"][h], totals["weight"][h], second, held,
    )  # fmt: skip


class StoredRiskSets(Evaluations):
    """Evaluations computed from sums over shared risk sets.

    Parameters
    ----------
    l1 : (P,) array
    """

    def __init__(self, plan: FederatedPlan, described: PooledDescription, l1: np.ndarray) -> None:
        super().__init__(plan, described.center, l1)
        self.described = described
        self.ties = "breslow" if plan.planned.has_competing_events else plan.ties or "efron"

    def shares(self, theta: np.ndarray) -> HessianWeights | None:
        """Predict the weights of the Hessian at a point from the nearest known one, or None."""
        near = self.find(theta)
        from_ = near if near is not None and near.sums is not None else self.base
        if from_ is None or from_.sums is None:
            return None
        return PooledRiskSets(from_.sums, self.ties).predicted(theta - from_.theta)

    def hessian(self, theta: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Evaluations.hessian`; recomputes a Hessian if its predicted weights were too large.

        This happens after a step that was much too long. Relative to such a Hessian, slopes would
        seem small.
        """
        found, at = super().hessian(theta, columns), self.find(theta)
        if at is None or at.off <= EVALUATION.max_weight_error:
            return found
        self._ask(theta, at.columns, [])
        return super().hessian(theta, columns)

    def _refuse_impossible(self, ask: RiskSetRequest, sums: RiskSums) -> None:
        """Refuse sums that no rows have; rows with an event are at risk."""
        finite = np.isfinite(sums.S)
        S, E = np.where(finite, sums.S, 0.0), np.where(finite, sums.E, 0.0)
        slack = IMPOSSIBLE * np.abs(S).max(axis=1, keepdims=True, initial=0.0)
        events = self.described.events
        refuse_impossible({
            "S": bool((S + slack < 0).any()),
            "E": bool(((E + slack < 0) | (S + slack < E)).any()),
            "count": bool(
                (sums.count < 0).any()
                or (ask.fold < 0 and events is not None and sums.count.sum() != events)
            ),
            "weight": bool((sums.weight < 0).any()),
        })  # fmt: skip

    def learn(self, ask: RiskSetRequest, columns: np.ndarray, sums: RiskSums) -> KnownPoint:
        """Store the sums of a round; return the first point."""
        self._refuse_impossible(ask, sums)
        pooled, theta = PooledRiskSets(sums, self.ties), ask.points[0]
        losses = pooled.losses()
        for point, value in zip(ask.points[1:], losses[1:], strict=True):
            if self.find(point) is None:
                self.keep(KnownPoint(point, float(value)))
        at = KnownPoint(theta, float(losses[0]), pooled.gradient(), columns, sums=sums)
        if sums.second is not None:
            at.hessian, at.uncentred = pooled.hessian(columns), np.diag(sums.second).copy()
        if sums.held_out is not None:
            at.held_out = np.array([pooled.held_out()])
        if ask.shares is not None and np.isfinite(at.loss):
            real = pooled.shares(sums.S[0], sums.E[0])
            at.off = float(np.max(np.abs(ask.shares.a - real.a) / np.maximum(real.a, 1e-300)))
        return self.keep(at)


class RiskSetEvaluations(StoredRiskSets):
    """Evaluations of a single fit, which requests its own rounds.

    Parameters
    ----------
    described, l1
        See `StoredRiskSets`.
    """

    def __init__(self, exchange: Exchange, described: PooledDescription, l1: np.ndarray) -> None:
        super().__init__(exchange.plan, described, l1)
        self.exchange = exchange

    def _ask(self, theta: np.ndarray, columns: np.ndarray, more: list[np.ndarray]) -> KnownPoint:
        """See `Evaluations._ask`."""
        ask = RiskSetRequest([theta, *more], self.shares(theta))
        sums = risk_sets_over_sites(self.exchange, self.described, columns, [ask])[0]
        return self.learn(ask, columns, sums)

    def exact_hessian(
        self, theta: np.ndarray, columns: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Evaluations.exact_hessian`; uses the exact weights of the point."""
        found = self.hessian(theta, columns)
        at = self.find(theta)
        if at is None or at.off <= EVALUATION.exact_weight_error:
            return found
        self._ask(theta, at.columns, [])
        return self.hessian(theta, columns)
