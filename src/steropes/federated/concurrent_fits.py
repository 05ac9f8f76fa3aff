"""Concurrent fits of folds and variances, which share rounds but have separate Hessians.

A lane is one fit, with a penalty and a fold that it leaves out. It runs until it needs sums that
are not known yet; then one round requests the sums that all lanes need. The number of rounds is
therefore that of the slowest lane, for any number of lanes. A waiting lane repeats its steps from
the last committed one, which is cheap because all sums are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import SeparationError
from ..solve import Batch
from .federated_constants import CONVERGENCE, EVALUATION
from .federated_solver_model import FederatedModel
from .message_exchange import Exchange
from .pooled_evaluations import Evaluations, KnownPoint, sums_over_sites
from .risk_set_evaluations import RiskSetRequest, StoredRiskSets, risk_sets_over_sites

__all__ = ["Lane", "advance_together", "hessian_of"]


class _Needs(NamedTuple):
    """Sums that a lane needs from the next round.

    Attributes
    ----------
    points : list of (P,) arrays
        The points, with a Hessian at the first one.
    columns : (k,) int array
        Columns of the Hessian.
    """

    points: list[np.ndarray]
    columns: np.ndarray


class _SumsNeeded(Exception):
    """Raised by a lane that needs sums which are not known yet.

    It holds only these needs. Keeping the exception itself would keep all objects of its traceback
    alive.
    """

    def __init__(self, needs: _Needs) -> None:
        super().__init__("a lane waits for a round")
        self.needs = needs


# The shorter steps that are evaluated; few, because lanes are many and steps rarely fail.
SHORTER_STEPS = (0.5,)


class _LaneEvaluations(Evaluations):
    """Evaluations of one lane, which raise `_SumsNeeded` for unknown sums."""

    shorter, whole = SHORTER_STEPS, EVALUATION.max_hessian_of_lane

    def _ask(self, theta: np.ndarray, columns: np.ndarray, more: list[np.ndarray]) -> KnownPoint:
        """Raise `_SumsNeeded`."""
        raise _SumsNeeded(_Needs([theta, *more], columns))


class _LaneRiskSets(StoredRiskSets):
    """Evaluations of one lane with shared risk sets, which raise `_SumsNeeded` for unknown sums."""

    shorter, whole = SHORTER_STEPS, EVALUATION.max_hessian_of_lane

    def _ask(self, theta: np.ndarray, columns: np.ndarray, more: list[np.ndarray]) -> KnownPoint:
        """Raise `_SumsNeeded`."""
        raise _SumsNeeded(_Needs([theta, *more], columns))


class Lane:
    """One of several fits that share rounds.

    Parameters
    ----------
    l1, l2 : (P,) arrays
        Penalties.
    fold : int
        The fold that is left out, −1 for none.
    theta : (P,) array
        Initial coefficients.
    tol : float
        See `Batch.solve`.

    Attributes
    ----------
    theta : (P,) array
        Current coefficients.
    done : bool
        Whether the fit has ended.
    optimality : float
        The final certificate; above ``tol`` if the steps made no further progress.
    known : KnownPoint
        The sums known at the final coefficients.
    """

    def __init__(
        self, model: FederatedModel, l1: np.ndarray, l2: np.ndarray, fold: int,
        theta: np.ndarray, tol: float,
    ) -> None:  # fmt: skip
        self.model, self.fold, self.tol = model, fold, tol
        self.l1, self.l2 = l1, l2
        self.theta, self.done, self.optimality = theta.copy(), False, np.inf
        self.evaluations: _LaneEvaluations | _LaneRiskSets
        if model.plan.shares_risk_sets:
            self.evaluations = _LaneRiskSets(model.plan, model.described, l1)
        else:
            self.evaluations = _LaneEvaluations(model.plan, model.described.center, l1)
        left_out = model.described.fold_weight[fold] if fold >= 0 else 0.0
        self.weight = model.weight - float(left_out)

    @property
    def known(self) -> KnownPoint:
        """The sums known at the current coefficients."""
        found = self.evaluations.find(self.theta)
        assert found is not None
        return found

    def advance(self) -> _Needs | None:
        """Take steps as far as the known sums allow; return the sums needed next."""
        model = self.model
        term = model.term(self.evaluations, self.weight)
        batch = Batch(term)
        try:
            batch.start_at((self.theta * model.scale)[:, None])
            divergence_check = model.divergence_check(term, self.l1, self.l2)
            most = CONVERGENCE.max_iterations
            fit = batch.solve(self.l1, self.l2, self.tol, most, divergence_check)[0]
            divergence_check(0, 0.0)
            self.theta, self.optimality = fit.beta, fit.optimality
            self.evaluations.value(self.theta)
        except _SumsNeeded as asked:
            self.theta = batch.beta[:, 0] / model.scale
            return asked.needs
        except SeparationError as error:
            if self.fold < 0:
                raise
            raise SeparationError(
                f"In the training rows of fold {self.fold}: {error} Use fewer folds, or other "
                "ones.",
                error.columns,
            ) from None
        self.done = True
        return None


def advance_together(exchange: Exchange, lanes: list[Lane]) -> None:
    """Advance lanes as far as known sums allow, then request the sums they need in one round."""
    asked = [(lane, a) for lane in lanes if not lane.done and (a := lane.advance()) is not None]
    if not asked:
        return
    _share(exchange, asked)


def hessian_of(
    exchange: Exchange, lane: Lane, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the Hessian at a lane's coefficients over some columns, (k, k), and its diagonal.

    The diagonal is the uncentred one. If the Hessian is not known, it is requested in a round;
    after a fit without steps only gradients are known.
    """
    while True:
        try:
            return lane.evaluations.hessian(lane.theta, columns)
        except _SumsNeeded as asked:
            _share(exchange, [(lane, asked.needs)])


def _share(exchange: Exchange, asked: Sequence[tuple[Lane, _Needs]]) -> None:
    """Request in one round the sums that some lanes need."""
    columns = np.unique(np.concatenate([a.columns for _, a in asked]))
    if exchange.plan.shares_risk_sets:
        _share_risk_sets(exchange, asked, columns)
    else:
        _share_sums(exchange, asked, columns)


def _share_sums(
    exchange: Exchange, asked: Sequence[tuple[Lane, _Needs]], columns: np.ndarray
) -> None:
    """Request one round of sums and distribute them to the lanes."""
    points: list[np.ndarray] = []
    folds: list[int] = []
    first: list[int] = []
    for lane, a in asked:
        first.append(len(points))
        points += a.points
        folds += [lane.fold] * len(a.points)
    described = asked[0][0].model.described
    sums = sums_over_sites(
        exchange, np.array(points), described.center, described.scale, columns, first, folds
    )
    for h, (lane, a) in enumerate(asked):
        own = slice(first[h], first[h] + len(a.points))
        lane.evaluations.add(a.points, columns, sums.part(own, h))


def _share_risk_sets(
    exchange: Exchange, asked: Sequence[tuple[Lane, _Needs]], columns: np.ndarray
) -> None:
    """Request one round of sums over shared risk sets and distribute them to the lanes."""
    lanes = [(x.evaluations, x.fold, a.points) for x, a in asked
             if isinstance(x.evaluations, StoredRiskSets)]  # fmt: skip
    asks = [RiskSetRequest(points, own.shares(points[0]), fold) for own, fold, points in lanes]
    described = asked[0][0].model.described
    found = risk_sets_over_sites(exchange, described, columns, asks)
    for (own, _, _), ask, sums in zip(lanes, asks, found, strict=True):
        own.learn(ask, columns, sums)
