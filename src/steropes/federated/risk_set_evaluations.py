"""Sums over all sites of survival models whose risk sets hold people of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from .contents import Totals
from .described import Described
from .evaluations import Evaluations, Known
from .exchange import Exchange
from .plan import FederatedPlan
from .risk_sets import HeldOut, PooledRiskSets, RiskSums, Shares
from .site_sums import unpacked

__all__ = ["RiskAsk", "RiskSetEvaluations", "RiskSetKnowledge", "risk_sets_over_sites"]

LARGE = 10.0  # the same from which a Hessian is too large for units of the certificate
EXACT = 1e-9  # relative error of a Hessian's weights that standard errors may have


@dataclass(frozen=True)
class RiskAsk:
    """What one fit wants of a round.

    Attributes
    ----------
    points : list of (P,) arrays
        At the first with moments, and with a Hessian where there are shares.
    shares : Shares or None
    fold : int
        Whose rows it leaves out, −1 for none.
    """

    points: list[np.ndarray]
    shares: Shares | None
    fold: int = -1


def risk_sets_over_sites(
    exchange: Exchange, described: Described, columns: np.ndarray, asks: Sequence[RiskAsk]
) -> list[RiskSums]:
    """A round: sums over all sites for each of some fits.

    Parameters
    ----------
    columns : (k,) int array
        Of the Hessians.
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
    told = exchange.total("risk_sets", arrays)
    return [
        _of_one_fit(told, described.scale, columns, slice(firsts[h], firsts[h + 1]), h, ask, known)
        for h, ask in enumerate(asks)
    ]


def _of_one_fit(
    told: Totals, scale: np.ndarray, columns: np.ndarray, own: slice, h: int, ask: RiskAsk,
    known: list[int],
) -> RiskSums:  # fmt: skip
    """The part of the totals that is one fit's, in the columns' own units."""
    too_far = told["too_far"][own] > 0
    second = held = None
    if h in known:
        at = scale[columns]
        second = unpacked(told["second"][known.index(h)], len(columns)) * at * at[:, None]
    if ask.fold >= 0:
        held = HeldOut(**{f.name: np.asarray(told[f"held_{f.name}"][h]) for f in fields(HeldOut)})
    return RiskSums(
        np.where(too_far[:, None], np.inf, told["S"][own]),
        np.where(too_far[:, None], np.inf, told["E"][own]),
        told["linear"][own], told["S1"][h] * scale, told["E1"][h] * scale,
        told["covariates"][h] * scale, told["count"][h], told["weight"][h], second, held,
    )  # fmt: skip


class RiskSetKnowledge(Evaluations):
    """What sums over shared risk sets make known.

    Parameters
    ----------
    plan : FederatedPlan
    described : Described
    l1 : (P,) array
    """

    def __init__(self, plan: FederatedPlan, described: Described, l1: np.ndarray) -> None:
        super().__init__(plan, described.center, l1)
        self.described = described
        self.ties = "breslow" if plan.model == "fine_gray" else plan.ties or "efron"

    def shares(self, theta: np.ndarray) -> Shares | None:
        """The Hessian's shares at a point, as far as they can be told from one that is known."""
        near = self.find(theta)
        from_ = near if near is not None and near.sums is not None else self.base
        if from_ is None or from_.sums is None:
            return None
        return PooledRiskSets(from_.sums, self.ties).predicted(theta - from_.theta)

    def hessian(self, theta: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Evaluations.hessian`; shares that were foretold far too large are not kept.

        After a step that went much too far they are, and beside such a Hessian slopes look small.
        """
        found, at = super().hessian(theta, columns), self.find(theta)
        if at is None or at.off <= LARGE:
            return found
        self._ask(theta, at.columns, [])
        return super().hessian(theta, columns)

    def learn(self, ask: RiskAsk, columns: np.ndarray, sums: RiskSums) -> Known:
        """Know what a round told of points; returns the first."""
        pooled, theta = PooledRiskSets(sums, self.ties), ask.points[0]
        losses = pooled.losses()
        for point, value in zip(ask.points[1:], losses[1:], strict=True):
            if self.find(point) is None:
                self.keep(Known(point, float(value)))
        at = Known(theta, float(losses[0]), pooled.gradient(), columns, sums=sums)
        if sums.second is not None:
            at.hessian, at.uncentred = pooled.hessian(columns), np.diag(sums.second).copy()
        if sums.held_out is not None:
            at.held_out = np.array([pooled.held_out()])
        if ask.shares is not None and np.isfinite(at.loss):
            real = pooled.shares(sums.S[0], sums.E[0])
            at.off = float(np.max(np.abs(ask.shares.a - real.a) / np.maximum(real.a, 1e-300)))
        return self.keep(at)


class RiskSetEvaluations(RiskSetKnowledge):
    """Of one fit, which asks in rounds of its own.

    Parameters
    ----------
    exchange : Exchange
    described, l1
        As in `RiskSetKnowledge`.
    """

    def __init__(self, exchange: Exchange, described: Described, l1: np.ndarray) -> None:
        super().__init__(exchange.plan, described, l1)
        self.exchange = exchange

    def _ask(self, theta: np.ndarray, columns: np.ndarray, more: list[np.ndarray]) -> Known:
        ask = RiskAsk([theta, *more], self.shares(theta))
        sums = risk_sets_over_sites(self.exchange, self.described, columns, [ask])[0]
        return self.learn(ask, columns, sums)

    def exact_hessian(
        self, theta: np.ndarray, columns: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Evaluations.exact_hessian`: with the shares of the point itself."""
        found = self.hessian(theta, columns)
        at = self.find(theta)
        if at is None or at.off <= EXACT:
            return found
        self._ask(theta, at.columns, [])
        return self.hessian(theta, columns)
