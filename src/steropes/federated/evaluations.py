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
from .described import Described
from .exchange import Exchange
from .plan import FederatedPlan
from .risk_sets import RiskSums
from .site_sums import unpacked

__all__ = ["Evaluations", "Known", "SummedEvaluations", "SumsAt", "sums_over_sites"]

SHORTER = (0.5, 0.25, 0.125)  # lengths of steps that are asked for beside the whole one
SAME = 1e-12  # relative difference of coefficients that are the same point
WHOLE = 400  # columns up to which a Hessian is over all of them
LIKELY = 0.6  # of λ: a slope from which on a column may join soon


@dataclass
class Known:
    """What is known at a point θ (P,)."""

    theta: np.ndarray
    loss: float
    gradient: np.ndarray | None = None
    columns: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    hessian: np.ndarray | None = None
    uncentred: np.ndarray | None = None
    sums: RiskSums | None = None
    off: float = 0.0  # by how much the shares that the Hessian is of were off
    held_out: np.ndarray | None = None  # sums that make the score of a fold's rows


class Evaluations(ABC):
    """Losses, gradients and Hessians of the model of all sites.

    Coefficients θ (P,) are the intercept that sites share, at the columns' centres, if there is
    one, and then those of the columns in their own units.

    Parameters
    ----------
    plan : FederatedPlan
    center : (p,) array
    l1 : (P,) array
        λ, which says what columns may soon be wanted in a Hessian.
    """

    shorter: tuple[float, ...] = SHORTER
    whole = WHOLE

    def __init__(self, plan: FederatedPlan, center: np.ndarray, l1: np.ndarray) -> None:
        self.plan, self.center, self.l1 = plan, center, l1
        self.head = len(plan.intercepts)
        self.P = self.head + len(center)
        self.known: list[Known] = []
        self._last: Known | None = None  # the point that was found last, which is asked for most
        self.base: Known | None = None  # where the last Hessian is of
        self.wanted = np.empty(0, np.int64)  # columns of the last Hessian that was wanted

    def value(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss, and gradient over all columns, (P,)."""
        at = self.find(theta)
        if at is None or at.gradient is None:
            at = self._ask(theta, self._columns(), self._shorter(theta))
        if not np.isfinite(at.loss):
            return np.inf, np.zeros(self.P)
        assert at.gradient is not None
        return at.loss, at.gradient

    def hessian(self, theta: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Hessian (k, k) over some of the P columns, and its diagonal uncentred, (k,)."""
        self.wanted = columns[columns >= self.head] - self.head
        at = self.find(theta)
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

    def find(self, theta: np.ndarray) -> Known | None:
        """What is known of a point, or None."""
        if self._last is not None and np.array_equal(self._last.theta, theta):
            return self._last
        for at in reversed(self.known):
            if np.all(np.abs(at.theta - theta) <= SAME * np.abs(theta)):
                self._last = at
                return at
        return None

    def _shorter(self, theta: np.ndarray) -> list[np.ndarray]:
        if self.base is None:
            return []
        return [self.base.theta + t * (theta - self.base.theta) for t in self.shorter]

    def _columns(self) -> np.ndarray:
        """Covariates that a Hessian is asked for, ascending."""
        p = self.P - self.head
        if p <= self.whole:
            return np.arange(p)
        likely = self.wanted
        if self.base is not None and self.base.gradient is not None:
            slope, l1 = np.abs(self.base.gradient[self.head :]), self.l1[self.head :]
            urgent = np.flatnonzero(slope >= LIKELY * l1)
            by = np.argsort(-(slope / np.where(l1 > 0, l1, 1.0))[urgent], kind="stable")
            likely = np.union1d(self.wanted, urgent[by[: max(self.whole, len(self.wanted))]])
        return likely.astype(np.int64)

    @abstractmethod
    def _ask(self, theta: np.ndarray, columns: np.ndarray, more: list[np.ndarray]) -> Known:
        """A round: at θ with the Hessian over these covariates, and the losses at more points."""

    def _full(self, columns: np.ndarray) -> np.ndarray:
        """Covariates as columns of all P, behind the intercepts."""
        return np.concatenate([np.arange(self.head), self.head + columns])

    def keep(self, at: Known) -> Known:
        """Know a point; returns it."""
        self.known = [k for k in self.known if k is not self.find(at.theta)]
        self.known.append(at)
        self._last = at
        return at

    def add(self, points: list[np.ndarray], columns: np.ndarray, sums: SumsAt) -> Known:
        """Know what a round told of a point and of others beside it; returns the point."""
        for k in range(1, len(points)):
            if self.find(points[k]) is None:
                self.keep(Known(points[k], float(sums.loss[k]), sums.gradient[k]))
        H, raw, g = sums.hessian[0], sums.uncentred[0], sums.gradient[0]
        at = Known(points[0], float(sums.loss[0]), g, self._full(columns), H, raw)
        if sums.held_out is not None:
            at.held_out = sums.held_out[0]
        if np.isfinite(at.loss) and not (np.isfinite(H).all() and np.isfinite(g).all()):
            raise DataError("the sites' sums are not finite; columns may be in a unit that is odd")
        return self.keep(at)


@dataclass(frozen=True)
class SumsAt:
    """Sums over all sites, with all intercepts: at m points, of P coefficients.

    Attributes
    ----------
    loss : (m,) array
    gradient : (m, P) array
    hessian : (h, k, k) array
        At some of the points, over the intercepts and some columns.
    uncentred : (h, k) array
    held_out : (m, s) array or None
    """

    loss: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    uncentred: np.ndarray
    held_out: np.ndarray | None = None

    def part(self, points: slice, hessian: int) -> SumsAt:
        """Those of some points, one of whose Hessians is a given one."""
        one = slice(hessian, hessian + 1)
        held = None if self.held_out is None else self.held_out[points]
        return SumsAt(
            self.loss[points], self.gradient[points], self.hessian[one], self.uncentred[one], held
        )


def sums_over_sites(
    exchange: Exchange,
    points: np.ndarray,
    center: np.ndarray,
    scale: np.ndarray,
    columns: np.ndarray,
    hessians: list[int],
    folds: list[int] | None = None,
) -> SumsAt:
    """A round: sums over all sites.

    Parameters
    ----------
    points : (m, P) array
        The intercept first, where sites share one.
    center, scale : (p,) arrays
        Sums are over columns less their centres and divided by their scales.
    columns : (k,) int array
        Of the Hessians, behind the intercept.
    hessians : list of int
        The points at which there is one.
    folds : list of int, optional
        What each point leaves out, −1 for nothing.
    """
    plan = exchange.plan
    head = len(plan.intercepts)
    arrays = {
        "points": points[:, head:], "center": center, "scale": scale,
        "columns": columns.astype(np.int64), "hessians": np.array(hessians, np.int64),
    }  # fmt: skip
    if head:
        arrays["intercepts"] = points[:, 0]
    if folds is not None:
        arrays["folds"] = np.array(folds, np.int64)
    exchange.reached = points[0]
    told = exchange.total("evaluate", arrays)
    loss = np.where(told["too_far"] > 0, np.inf, told["loss"])
    size = np.concatenate([np.ones(head), scale])
    at = np.concatenate([np.ones(head), scale[columns]])
    H = unpacked(told["hessian"], head + len(columns)) * at * at[:, None]
    held = told["held_out"] if folds is not None else None
    return SumsAt(loss, told["gradient"] * size, H, told["uncentred"] * at**2, held)


class SummedEvaluations(Evaluations):
    """Of models whose loss is the sum of the sites' losses."""

    def __init__(self, exchange: Exchange, described: Described, l1: np.ndarray) -> None:
        super().__init__(exchange.plan, described.center, l1)
        self.exchange, self.described = exchange, described

    def _ask(self, theta: np.ndarray, columns: np.ndarray, more: list[np.ndarray]) -> Known:
        points = [theta, *more]
        sums = sums_over_sites(
            self.exchange, np.array(points), self.center, self.described.scale, columns, [0]
        )
        return self.add(points, columns, sums)
