"""Sums over all sites of survival models whose risk sets hold people of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from .described import Described
from .evaluations import Evaluations, Known
from .exchange import Exchange
from .plan import FederatedPlan
from .protocol import Message
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
    arrays = {
        "points": np.concatenate([np.array(a.points) for a in asks]),
        "center": described.center, "columns": columns, "times": described.times,
    }  # fmt: skip
    known = [h for h, a in enumerate(asks) if a.shares is not None]
    if known:
        given = [a.shares for a in asks if a.shares is not None]
        arrays |= {"a": np.array([s.a for s in given]), "b": np.array([s.b for s in given])}
    if described.censoring is not None:
        arrays["censoring_times"] = described.censoring.times
        arrays["censoring"] = described.censoring.G
    if exchange.plan.folds:
        arrays["firsts"] = firsts[:-1]
        arrays["folds"] = np.array([a.fold for a in asks])
        arrays["hessians"] = np.array(known, np.int64)
    elif known:  # one fit: no axis of fits
        arrays["a"], arrays["b"] = arrays["a"][0], arrays["b"][0]
    answers = exchange.ask("risk_sets", arrays)
    read = _Reader(exchange.plan, described, columns, firsts, [a.fold for a in asks], known)
    each = [read.all(answer) for answer in answers]
    return [RiskSums.total([parts[h] for parts in each]) for h in range(len(asks))]


class _Reader:
    """Takes an answer apart by the fits that it is for."""

    def __init__(
        self, plan: FederatedPlan, described: Described, columns: np.ndarray, firsts: np.ndarray,
        folds: list[int], known: list[int],
    ) -> None:  # fmt: skip
        self.T, self.p = len(described.times), len(plan.columns)
        self.k, self.firsts, self.folds, self.known = len(columns), firsts, folds, known
        self.several = plan.folds > 0

    def _each(self, answer: Message, name: str, shape: tuple[int, ...], h: int) -> np.ndarray:
        """Arrays of h fits, which have an axis of their own where there are folds."""
        if self.several:
            return answer.array(name, (h, *shape))
        return answer.array(name, shape)[None]

    def all(self, answer: Message) -> list[RiskSums]:
        """A site's sums for each fit."""
        T, p, q = self.T, self.p, self.k * (self.k + 1) // 2
        m, h = int(self.firsts[-1]), len(self.folds)
        points = {"S": (m, T), "E": (m, T), "linear": (m,)}
        fits = {"S1": (T, p), "E1": (T, p), "covariates": (p,), "count": (T,), "weight": (T,)}
        at_points = {n: answer.array(n, shape) for n, shape in points.items()}
        of_fits = {n: self._each(answer, n, shape, h) for n, shape in fits.items()}
        seconds = self._each(answer, "second", (q,), len(self.known)) if self.known else None
        held = {}
        if self.several:
            held = {
                f.name: answer.array(f"held_{f.name}", (h,) if f.name == "linear" else (h, T))
                for f in fields(HeldOut)
            }
        out = []
        for i, fold in enumerate(self.folds):
            own = slice(self.firsts[i], self.firsts[i + 1])
            second = None
            if seconds is not None and i in self.known:
                second = unpacked(seconds[self.known.index(i)], self.k)
            left = {n: np.asarray(x[i]) for n, x in held.items()}
            out.append(
                RiskSums(
                    **{n: x[own] for n, x in at_points.items()},
                    **{n: x[i] for n, x in of_fits.items()},
                    second=second,
                    held_out=HeldOut(**left) if fold >= 0 else None,
                )
            )
        return out


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
