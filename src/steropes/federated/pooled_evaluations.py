"""Losses, gradients and Hessians over all sites, obtained in as few rounds as possible.

A round transfers the loss and the gradient over all columns at a point and at shorter steps to it,
and the Hessian at the point. A Newton step whose line search only halves the step therefore needs
one round. Near the optimum, where full steps are accepted, the shorter steps are left out. All
answers are kept.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from ..errors import DataError
from .falsified_totals import (
    refuse_other_intercept,
    refuse_unconvex_hessian,
    refuse_unconvex_losses,
)
from .federated_constants import EVALUATION
from .federated_plan import FederatedPlan
from .message_exchange import Exchange
from .pooled_description import PooledDescription
from .pooled_risk_sets import RiskSums
from .site_sums import unpack_lower

__all__ = ["Evaluations", "KnownPoint", "SummedEvaluations", "SumsAt", "sums_over_sites"]

# The lengths of shorter steps that are evaluated in addition to the full one.
SHORTER_STEPS = (0.5, 0.25, 0.125)


@dataclass
class KnownPoint:
    """The sums that are known at a point.

    Attributes
    ----------
    theta : (P,) array
        The point.
    gradient : (P,) array or None
    columns : (k,) int array
        Columns of the Hessian.
    hessian : (k, k) array or None
    uncentred : (k,) array or None
        Diagonal of the Hessian before rank-one terms are subtracted.
    sums : RiskSums or None
        Sums over shared risk sets.
    off : float
        Relative error of the risk set weights in the Hessian.
    held_out : array or None
        Sums that determine the score of a fold's rows.
    """

    theta: np.ndarray
    loss: float
    gradient: np.ndarray | None = None
    columns: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    hessian: np.ndarray | None = None
    uncentred: np.ndarray | None = None
    sums: RiskSums | None = None
    off: float = 0.0
    held_out: np.ndarray | None = None


class Evaluations(ABC):
    """Losses, gradients and Hessians of the model of all sites.

    The coefficients θ (P,) start with the common intercept at the columns' centres, if there is
    one, followed by those of the columns in their own units.

    Parameters
    ----------
    center : (p,) array
        Centres of the columns.
    l1 : (P,) array
        λ, which determines the columns that may soon be needed in a Hessian.
    """

    shorter: tuple[float, ...] = SHORTER_STEPS
    whole = EVALUATION.max_full_hessian

    def __init__(self, plan: FederatedPlan, center: np.ndarray, l1: np.ndarray) -> None:
        self.center, self.l1 = center, l1
        self.head = len(plan.intercepts)
        self.P = self.head + len(center)
        self.known: list[KnownPoint] = []
        self._last: KnownPoint | None = None  # the point found last, which is requested most often
        self.base: KnownPoint | None = None  # the point of the last Hessian
        self._decrease = 0.0  # that the slopes promised of the step to it
        self.wanted = np.empty(0, np.int64)  # columns of the last Hessian that was requested

    def value(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss and the gradient over all columns, (P,)."""
        at = self.find(theta)
        if at is None or at.gradient is None:
            at = self._ask(theta, self._columns(), self._shorter(theta))
        if not np.isfinite(at.loss):
            return np.inf, np.zeros(self.P)
        assert at.gradient is not None
        return at.loss, at.gradient

    def hessian(self, theta: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the Hessian (k, k) over some columns, and its uncentred diagonal, (k,)."""
        self.wanted = columns[columns >= self.head] - self.head
        at = self.find(theta)
        if at is None or at.hessian is None or not np.isin(columns, at.columns).all():
            wide = np.union1d(self._columns(), self.wanted)
            at = self._ask(theta, wide, [])
            if at.hessian is None:  # risk sets need the totals of this round first
                at = self._ask(theta, wide, [])
        assert at.hessian is not None
        assert at.uncentred is not None
        if self.base is not None and self.base is not at:
            self._decrease = self._promised(at.theta)
        self.base = at
        place = np.searchsorted(at.columns, columns)
        return at.hessian[np.ix_(place, place)], at.uncentred[place]

    def exact_hessian(
        self, theta: np.ndarray, columns: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the Hessian as in `hessian`, but exact, for standard errors."""
        return self.hessian(theta, columns)

    def find(self, theta: np.ndarray) -> KnownPoint | None:
        """Return the sums known at a point, or None."""
        if self._last is not None and np.array_equal(self._last.theta, theta):
            return self._last
        for at in reversed(self.known):
            if np.all(np.abs(at.theta - theta) <= EVALUATION.same_point * np.abs(theta)):
                self._last = at
                return at
        return None

    def _shorter(self, theta: np.ndarray) -> list[np.ndarray]:
        """Return the points of shorter steps from the last Hessian's point towards θ.

        There are none where steps promise less and less, because full ones are then accepted: each
        further number is one that sites disclose.
        """
        if self.base is None:
            return []
        if self._promised(theta) < EVALUATION.newton_share * self._decrease:
            return []
        return [self.base.theta + t * (theta - self.base.theta) for t in self.shorter]

    def _promised(self, theta: np.ndarray) -> float:
        """Return the decrease of the loss that the slopes at the last Hessian's point promise."""
        if self.base is None or self.base.gradient is None:
            return np.inf
        return abs(float(self.base.gradient @ (theta - self.base.theta)))

    def _columns(self) -> np.ndarray:
        """Return the covariates of the next Hessian, ascending."""
        p = self.P - self.head
        if p <= self.whole:
            return np.arange(p)
        likely = self.wanted
        if self.base is not None and self.base.gradient is not None:
            slope, l1 = np.abs(self.base.gradient[self.head :]), self.l1[self.head :]
            urgent = np.flatnonzero(slope >= EVALUATION.likely_share * l1)
            by = np.argsort(-(slope / np.where(l1 > 0, l1, 1.0))[urgent], kind="stable")
            likely = np.union1d(self.wanted, urgent[by[: max(self.whole, len(self.wanted))]])
        return likely.astype(np.int64)

    @abstractmethod
    def _ask(self, theta: np.ndarray, columns: np.ndarray, more: list[np.ndarray]) -> KnownPoint:
        """Request a round: sums and Hessian at θ, and losses and gradients at further points."""

    def _full(self, columns: np.ndarray) -> np.ndarray:
        """Convert covariates to positions among all P columns, and prepend the intercepts."""
        return np.concatenate([np.arange(self.head), self.head + columns])

    def keep(self, at: KnownPoint) -> KnownPoint:
        """Store a point and return it; raise `DataError` if it contradicts other points."""
        others = [(k.theta, k.loss, k.gradient) for k in self.known]
        refuse_unconvex_losses(at.theta, at.loss, at.gradient, others)
        self.known = [k for k in self.known if k is not self.find(at.theta)]
        self.known.append(at)
        self._last = at
        return at

    def add(self, points: list[np.ndarray], columns: np.ndarray, sums: SumsAt) -> KnownPoint:
        """Store the sums of a round at a point and at further ones; return the first point."""
        for k in range(1, len(points)):
            if self.find(points[k]) is None:
                self.keep(KnownPoint(points[k], float(sums.loss[k]), sums.gradient[k]))
        H, raw, g = sums.hessian[0], sums.uncentred[0], sums.gradient[0]
        at = KnownPoint(points[0], float(sums.loss[0]), g, self._full(columns), H, raw)
        if sums.held_out is not None:
            at.held_out = sums.held_out[0]
        if np.isfinite(at.loss) and not (np.isfinite(H).all() and np.isfinite(g).all()):
            raise DataError("the sites' sums are not finite; check the units of the columns")
        if np.isfinite(at.loss):
            refuse_unconvex_hessian(H, raw)
        return self.keep(at)


@dataclass(frozen=True)
class SumsAt:
    """Sums over all sites at m points of P coefficients.

    Attributes
    ----------
    loss : (m,) array
    gradient : (m, P) array
    hessian : (h, k, k) array
        Hessians at some of the points, over the intercepts and some columns.
    uncentred : (h, k) array
        Uncentred diagonals of these Hessians.
    held_out : (m, s) array or None
        Sums that determine the scores of the folds' rows.
    """

    loss: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    uncentred: np.ndarray
    held_out: np.ndarray | None = None

    def part(self, points: slice, hessian: int) -> SumsAt:
        """Select some points and one Hessian."""
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
    """Request one round of sums over all sites.

    Parameters
    ----------
    points : (m, P) array
        Coefficients, starting with the common intercept, if any.
    center, scale : (p,) arrays
        The sums are over columns minus their centres and divided by their scales.
    columns : (k,) int array
        Covariates of the Hessians.
    hessians : list of int
        Numbers of the points with a Hessian.
    folds : list of int, optional
        The fold that each point leaves out, −1 for none.
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
    totals = exchange.total("evaluate", arrays)
    loss = np.where(totals["too_far"] > 0, np.inf, totals["loss"])
    size = np.concatenate([np.ones(head), scale])
    at = np.concatenate([np.ones(head), scale[columns]])
    H = unpack_lower(totals["hessian"], head + len(columns)) * at * at[:, None]
    held = totals["held_out"] if folds is not None else None
    return SumsAt(loss, totals["gradient"] * size, H, totals["uncentred"] * at**2, held)


class SummedEvaluations(Evaluations):
    """Evaluations of models with a loss that is the sum of the sites' losses."""

    def __init__(self, exchange: Exchange, described: PooledDescription, l1: np.ndarray) -> None:
        super().__init__(exchange.plan, described.center, l1)
        self.exchange, self.described = exchange, described

    def _ask(self, theta: np.ndarray, columns: np.ndarray, more: list[np.ndarray]) -> KnownPoint:
        """See `Evaluations._ask`."""
        points = [theta, *more]
        sums = sums_over_sites(
            self.exchange, np.array(points), self.center, self.described.scale, columns, [0]
        )
        if self.head and np.isfinite(sums.loss[0]):
            refuse_other_intercept(
                self.exchange.plan.planned.intercept, self.described.weight, self.described.outcome,
                float(sums.gradient[0, 0]), float(sums.hessian[0, 0, 0]),
            )  # fmt: skip
        return self.add(points, columns, sums)
