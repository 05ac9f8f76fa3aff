"""Sums over all sites at coefficients, with as few rounds as there can be.

A round carries the loss and the gradient over all columns at a point and at shorter steps to it,
and the Hessian at the point, so that a Newton step whose line search needs no more than halvings is
one round. What was answered is kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from ..errors import DataError
from .exchange import Exchange
from .plan import FederatedPlan
from .protocol import Message
from .risk_sets import PooledRiskSets, RiskSums, Shares
from .site_sums import unpacked

__all__ = ["Evaluations", "RiskSetEvaluations", "SummedEvaluations"]

SHORTER = (0.5, 0.25, 0.125)  # lengths of steps that are asked for beside the whole one
SAME = 1e-12  # relative difference of coefficients that are the same point
WHOLE = 400  # columns up to which a Hessian is over all of them
EXACT = 1e-9  # relative error of a Hessian's weights that standard errors may have
LIKELY = 0.6  # of λ: a slope from which on a column may join soon


@dataclass
class _Known:
    """What is known at a point θ (P,)."""

    theta: np.ndarray
    loss: float
    gradient: np.ndarray | None = None
    columns: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    hessian: np.ndarray | None = None
    uncentred: np.ndarray | None = None
    sums: RiskSums | None = None
    off: float = 0.0  # by how much the shares that the Hessian is of were off


class Evaluations(ABC):
    """Losses, gradients and Hessians of the model of all sites.

    Coefficients θ (P,) are the intercepts, at the columns' centres, and then those of the columns
    in their own units.

    Parameters
    ----------
    exchange : Exchange
    center : (p,) array
    l1 : (P,) array
        λ, which says what columns may soon be wanted in a Hessian.
    """

    def __init__(self, exchange: Exchange, center: np.ndarray, l1: np.ndarray) -> None:
        self.exchange, self.center, self.l1 = exchange, center, l1
        self.plan: FederatedPlan = exchange.plan
        self.head = len(self.plan.intercepts)
        self.P = self.head + len(center)
        self.known: list[_Known] = []
        self.base: _Known | None = None  # where the last Hessian is of
        self.wanted = np.empty(0, np.int64)  # columns of the last Hessian that was wanted

    def value(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss, and gradient over all columns, (P,)."""
        at = self._find(theta)
        if at is None or at.gradient is None:
            at = self._ask(theta, self._columns(), self._shorter(theta))
        if not np.isfinite(at.loss):
            return np.inf, np.zeros(self.P)
        assert at.gradient is not None
        return at.loss, at.gradient

    def hessian(self, theta: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Hessian (k, k) over some of the P columns, and its diagonal uncentred, (k,)."""
        self.wanted = columns[columns >= self.head] - self.head
        at = self._find(theta)
        if at is None or at.hessian is None or not np.isin(columns, at.columns).all():
            wide = np.union1d(self._columns(), self.wanted)
            at = self._ask(theta, wide, [])
            if at.hessian is None:  # it needed what this round told
                at = self._ask(theta, wide, [])
        assert at.hessian is not None
        assert at.uncentred is not None
        self.base = at
        place = np.searchsorted(at.columns, columns)
        return at.hessian[np.ix_(place, place)], at.uncentred[place]

    def exact_hessian(
        self, theta: np.ndarray, columns: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same, where steps may do with less: for standard errors."""
        return self.hessian(theta, columns)

    def _find(self, theta: np.ndarray) -> _Known | None:
        for at in reversed(self.known):
            if np.all(np.abs(at.theta - theta) <= SAME * np.abs(theta)):
                return at
        return None

    def _shorter(self, theta: np.ndarray) -> list[np.ndarray]:
        if self.base is None:
            return []
        return [self.base.theta + t * (theta - self.base.theta) for t in SHORTER]

    def _columns(self) -> np.ndarray:
        """Covariates that a Hessian is asked for, ascending."""
        p = self.P - self.head
        if p <= WHOLE:
            return np.arange(p)
        likely = self.wanted
        if self.base is not None and self.base.gradient is not None:
            slope, l1 = np.abs(self.base.gradient[self.head :]), self.l1[self.head :]
            urgent = np.flatnonzero(slope >= LIKELY * l1)
            by = np.argsort(-(slope / np.where(l1 > 0, l1, 1.0))[urgent], kind="stable")
            likely = np.union1d(self.wanted, urgent[by[: max(WHOLE, len(self.wanted))]])
        return likely.astype(np.int64)

    @abstractmethod
    def _ask(self, theta: np.ndarray, columns: np.ndarray, more: list[np.ndarray]) -> _Known:
        """A round: at θ with the Hessian over these covariates, and the losses at more points."""

    def _points(self, points: list[np.ndarray], columns: np.ndarray) -> dict[str, np.ndarray]:
        all_ = np.array(points)
        arrays = {
            "points": all_[:, self.head :], "center": self.center,
            "columns": columns.astype(np.int64),
        }  # fmt: skip
        if self.head:
            arrays["intercepts"] = all_[:, : self.head]
        return arrays

    def _full(self, columns: np.ndarray) -> np.ndarray:
        """Covariates as columns of all P, behind the intercepts."""
        return np.concatenate([np.arange(self.head), self.head + columns])

    def _keep(self, at: _Known) -> _Known:
        self.known = [k for k in self.known if k is not self._find(at.theta)]
        self.known.append(at)
        return at


class SummedEvaluations(Evaluations):
    """Of models whose loss is the sum of the sites' losses."""

    def _ask(self, theta: np.ndarray, columns: np.ndarray, more: list[np.ndarray]) -> _Known:
        points = [theta, *more]
        answers = self.exchange.ask("evaluate", self._points(points, columns))
        m, k, P = len(points), self.head + len(columns), self.P
        loss, gradient = np.zeros(m), np.zeros((m, P))
        H, raw = np.zeros((k, k)), np.zeros(k)
        for s, answer in enumerate(answers):
            loss += answer.array("loss", (m,))
            self._add(answer, s, gradient, H, raw, len(columns))
        for point, value, slope in zip(points[1:], loss[1:], gradient[1:], strict=True):
            if self._find(point) is None:
                self._keep(_Known(point, float(value), slope))
        at = _Known(theta, float(loss[0]), gradient[0], self._full(columns), H, raw)
        if np.isfinite(at.loss) and not (np.isfinite(H).all() and np.isfinite(gradient[0]).all()):
            raise DataError("a site's sums are not finite; columns may be in a unit that is odd")
        return self._keep(at)

    def _add(
        self, answer: Message, site: int, gradient: np.ndarray, H: np.ndarray, raw: np.ndarray,
        k: int,
    ) -> None:  # fmt: skip
        """Add a site's sums, with its own intercept at its place."""
        p, own = self.P - self.head, 1 if self.head else 0
        g = answer.array("gradient", (len(gradient), own + p))
        q = own + k
        h = unpacked(answer.array("hessian", (q * (q + 1) // 2,)), q)
        u = answer.array("uncentred", (q,))
        gradient[:, self.head :] += g[:, own:]
        at = np.arange(self.head, self.head + k)
        if own:
            place = site if self.head > 1 or self.plan.baseline == "site" else 0
            gradient[:, place] += g[:, 0]
            at = np.concatenate([[place], at])
        H[np.ix_(at, at)] += h
        raw[at] += u


class RiskSetEvaluations(Evaluations):
    """Of Cox models whose risk sets hold people of all sites.

    Parameters
    ----------
    times : (T,) array
    """

    def __init__(
        self, exchange: Exchange, center: np.ndarray, l1: np.ndarray, times: np.ndarray
    ) -> None:
        super().__init__(exchange, center, l1)
        self.times = times
        self.ties = self.plan.ties or "efron"

    def _ask(self, theta: np.ndarray, columns: np.ndarray, more: list[np.ndarray]) -> _Known:
        arrays = self._points([theta, *more], columns) | {"times": self.times}
        near = self._find(theta)
        shares: Shares | None = None
        from_ = near if near is not None and near.sums is not None else self.base
        if from_ is not None and from_.sums is not None:
            shares = PooledRiskSets(from_.sums, self.ties).predicted(theta - from_.theta)
            arrays |= {"a": shares.a, "b": shares.b}
        answers = self.exchange.ask("risk_sets", arrays)
        m = 1 + len(more)
        sums = RiskSums.total([self._read(a, m, len(columns), "a" in arrays) for a in answers])
        pooled = PooledRiskSets(sums, self.ties)
        losses = pooled.losses()
        for point, value in zip(more, losses[1:], strict=True):
            if self._find(point) is None:
                self._keep(_Known(point, float(value)))
        at = _Known(theta, float(losses[0]), pooled.gradient(), columns, sums=sums)
        if sums.second is not None:
            at.hessian, at.uncentred = pooled.hessian(columns), np.diag(sums.second).copy()
        if shares is not None and np.isfinite(at.loss):
            real = pooled.shares(sums.S[0], sums.E[0])
            at.off = float(np.max(np.abs(shares.a - real.a) / np.maximum(real.a, 1e-300)))
        return self._keep(at)

    def exact_hessian(
        self, theta: np.ndarray, columns: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Evaluations.exact_hessian`: with the shares of the point itself."""
        found = self.hessian(theta, columns)
        at = self._find(theta)
        if at is None or at.off <= EXACT:
            return found
        self._ask(theta, at.columns, [])
        return self.hessian(theta, columns)

    def _read(self, answer: Message, m: int, k: int, second: bool) -> RiskSums:
        T, p = len(self.times), self.P
        return RiskSums(
            S=answer.array("S", (m, T)),
            E=answer.array("E", (m, T)),
            linear=answer.array("linear", (m,)),
            S1=answer.array("S1", (T, p)),
            E1=answer.array("E1", (T, p)),
            covariates=answer.array("covariates", (p,)),
            count=answer.array("count", (T,)),
            weight=answer.array("weight", (T,)),
            second=unpacked(answer.array("second", (k * (k + 1) // 2,)), k) if second else None,
        )
