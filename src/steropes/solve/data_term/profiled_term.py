"""Likelihoods with nuisance parameters for the solver, maximised together with β.

Each replicate has its own nuisance parameters α and its own block of the Hessian, exact at each
point. As in other terms, replicates share the Hessian of the coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ...backends.backend_interface import Array
from ...design_matrix.design_interfaces import DesignLike
from ...likelihoods.nuisance_interface import Nuisance, NuisancePoint
from ...likelihoods.nuisance_likelihood import NuisanceLikelihood
from ..hessian import pooled_groups
from .compact_row_weights import RowMultiples
from .data_term_interfaces import Accuracy
from .local_term import LocalCurvature, LocalTerm
from .working_set import WorkingColumns

__all__ = ["ProfiledTerm"]


class ProfiledTerm(LocalTerm):
    """Replicates of one model with nuisance parameters; see `LocalTerm` for the rest."""

    likelihood: NuisanceLikelihood

    def __init__(
        self,
        design: DesignLike,
        likelihood: NuisanceLikelihood,
        weights: np.ndarray | RowMultiples,
        offset: np.ndarray | None = None,
        B: int = 1,
        active: WorkingColumns | None = None,
    ) -> None:
        self.points: list[NuisancePoint] = []
        super().__init__(design, likelihood, weights, offset, B, active)
        self.place(np.zeros((self.p, self.lanes)))

    def hessian_cost(self, coarse: bool) -> float:
        """Estimate the cost of a Hessian; see `DataTerm.hessian_cost`.

        Compares products of a row's entries, and of complete rows for each element of α, with the
        entries and the many logarithms of a step.
        """
        a_row, K = self.entries / self.rows, max(p.nuisance.K for p in self.points)
        groups = pooled_groups(self.active.rows, K) if coarse else K
        cost = self.policy
        pairs = cost.pair_cost * a_row**2
        pairs += cost.whole_pair_cost * groups / self.rows * len(self.W) ** 2
        return (cost.fixed_cost + pairs / (cost.row_cost + a_row)) / self.B

    # -- the points ----------------------------------------------------------------------------

    @property
    def nuisance_decrement(self) -> np.ndarray:
        """See `DataTerm`."""
        return self._of_points(lambda point: point.fall)

    @property
    def nuisance_error(self) -> np.ndarray:
        """See `DataTerm`."""
        return self._of_points(lambda point: point.unsettled)

    def _of_points(self, number: Callable[[NuisancePoint], float]) -> np.ndarray:
        """Collect a number of each replicate's point, (lanes,)."""
        out = np.zeros(self.lanes)
        out[: self.B] = [number(point) for point in self.points]
        return out

    def nuisance(self, lane: int) -> Nuisance | None:
        """See `DataTerm.nuisance`."""
        return self.points[lane].nuisance

    def place(self, beta: np.ndarray, like: Nuisance | None = None) -> None:
        """See `DataTerm.place`."""
        eta = self._predictors(beta)

        def one(b: int) -> NuisancePoint:
            """Return the maximum over the nuisance parameters of one replicate."""
            own = of_lane(eta, b)
            if self.points and like is None:
                point = self.points[b].nuisance.at(own)
                if np.isfinite(point.loss):
                    return point
            return self.likelihood.begin(own, of_lane(self.w, b), like).at(own)

        self.settle(eta, self.each(one, range(self.B)))

    def each(self, function: Callable[[int], Any], lanes: Iterable[int]) -> list:
        """Apply a function to some lanes in parallel; it performs a few operations for each row."""
        lanes = list(lanes)
        return self.pool.map(function, [(b,) for b in lanes], 8 * len(self.w) * len(lanes))

    def settle(self, eta: Array, points: list[NuisancePoint]) -> None:
        """Move the replicates to these points."""
        r, loss = np.zeros(eta.shape), np.zeros(self.lanes)

        def one(b: int) -> None:
            r[:, b] = points[b].gradient()
            loss[b] = points[b].loss

        self.each(one, range(self.B))
        self.points = points
        self._arrive(eta, loss, r)

    def readmit(self, tol: float) -> np.ndarray:
        """See `DataTerm.readmit`."""
        out, points = np.zeros(self.lanes, bool), list(self.points)
        for b, point in enumerate(self.points):
            own = of_lane(self.eta, b)
            more = point.nuisance.readmitted(own, tol)
            if more is not None:
                points[b], out[b] = more.at(own), True
        if out.any():
            self.settle(self.eta, points)
        return out

    def along(self, D: np.ndarray, live: np.ndarray) -> ProfiledTrial:
        """See `DataTerm.along`."""
        return ProfiledTrial(self, self.active.rows.matmul(self.backend.asarray(D)), live)

    # -- curvature and scores --------------------------------------------------------------------

    def curvature(
        self, lane: int, thin: int = 1, accuracy: Accuracy = "near"
    ) -> LocalCurvature | None:
        """Return the curvature; None for a subsample, which would lack most of α.

        See `DataTerm.curvature`.
        """
        if thin > 1:
            return None
        return LocalCurvature(
            self.active, self.points[lane].curvature(accuracy == "coarse"), self.w[:, lane]
        )

    def left_out_score(self, weights: np.ndarray, difference: bool) -> np.ndarray:
        """Compute held-out scores; rows are independent, so both kinds of score are equal.

        See `DataTerm.left_out_score`.
        """
        whole = weights if self.order is None else weights[self.order]

        def one(b: int) -> float:
            held = whole - of_lane(self.w, b)
            return self.points[b].nuisance.score(of_lane(self.eta, b), held)

        return np.array(self.each(one, range(self.B)))


class ProfiledTrial:
    """A direction in η together with that of the nuisance parameters; see `Trial`."""

    def __init__(self, term: ProfiledTerm, d_eta: np.ndarray, live: np.ndarray) -> None:
        self.term, self.d_eta = term, d_eta
        self.lanes = [b for b in range(term.B) if live[b]]
        steps = term.each(lambda b: term.points[b].direction(of_lane(d_eta, b)), self.lanes)
        self.directions = dict(zip(self.lanes, steps, strict=True))
        self.reached: dict[int, tuple[float, NuisancePoint]] = {}

    def loss(self, t: np.ndarray) -> np.ndarray:
        """Evaluate the losses, again only of lanes with another step length."""
        fresh = [b for b in self.lanes if b not in self.reached or self.reached[b][0] != t[b]]

        def one(b: int) -> tuple[float, NuisancePoint]:
            nuisance = self.term.points[b].nuisance.moved(self.directions[b], float(t[b]))
            return float(t[b]), nuisance.at(self._eta(b, float(t[b])))

        self.reached.update(zip(fresh, self.term.each(one, fresh), strict=True))
        out = self.term.loss.copy()
        for b, (_, point) in self.reached.items():
            out[b] = point.loss if np.isfinite(point.loss) and point.usable else np.inf
        return out

    def _eta(self, b: int, t: float) -> np.ndarray:
        """Return a lane's linear predictors at step length t, (n,)."""
        return of_lane(self.term.eta, b) + t * of_lane(self.d_eta, b)

    def commit(self) -> None:
        """See `Trial.commit`."""
        if len(self.reached) < len(self.lanes):
            raise RuntimeError("commit() before loss()")
        term, t = self.term, np.zeros(self.term.lanes)
        points = list(term.points)
        for b, (length, point) in self.reached.items():
            t[b] = length
            if length > 0:
                settled = point.nuisance.settled()
                same = settled is point.nuisance
                points[b] = point if same else settled.at(self._eta(b, length))
        term.settle(term.eta + self.d_eta * t, points)


def of_lane(x: np.ndarray, b: int) -> np.ndarray:
    """Return a lane's column (n,) as a contiguous array."""
    return np.ascontiguousarray(x[:, b])
