"""Fits that share their rounds: folds and variances side by side, each with a Hessian of its own.

A lane is one fit: a penalty and the fold that it leaves out. It runs by itself until it needs sums
that no round has told yet; then one round asks for what all lanes need. So the rounds are as many
as the slowest lane needs, however many there are. A lane that had to wait goes on from its last
step: what was told is kept, and a step is a matter of a moment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import SeparationError
from ..solve import Batch
from .evaluations import Evaluations, Known, sums_over_sites
from .exchange import Exchange
from .risk_set_evaluations import RiskAsk, RiskSetKnowledge, risk_sets_over_sites
from .terms import ITERATIONS, FederatedModel

__all__ = ["Lane", "hessian_of", "together"]


class _Needs(NamedTuple):
    """Sums that no round has told yet.

    Attributes
    ----------
    points : list of (P,) arrays
        At the first with a Hessian.
    columns : (k,) int array
        Of the Hessian.
    """

    points: list[np.ndarray]
    columns: np.ndarray


class _Asked(Exception):
    """A lane needs sums that no round has told yet.

    What is kept is what it needs: whoever keeps an error keeps all that was under way, and is kept.
    """

    def __init__(self, needs: _Needs) -> None:
        super().__init__("a lane waits for a round")
        self.needs = needs


SHORTER = (0.5,)  # there are many lanes, and steps that fail are rare
WHOLE = 100


class _LaneEvaluations(Evaluations):
    """Of one lane; what is not known is an `_Asked`."""

    shorter, whole = SHORTER, WHOLE

    def _ask(self, theta: np.ndarray, columns: np.ndarray, more: list[np.ndarray]) -> Known:
        raise _Asked(_Needs([theta, *more], columns))


class _LaneRiskSets(RiskSetKnowledge):
    """The same where risk sets hold people of all sites."""

    shorter, whole = SHORTER, WHOLE

    def _ask(self, theta: np.ndarray, columns: np.ndarray, more: list[np.ndarray]) -> Known:
        raise _Asked(_Needs([theta, *more], columns))


class Lane:
    """One fit of several that share rounds.

    Parameters
    ----------
    model : FederatedModel
    l1, l2 : (P,) arrays
    fold : int
        The rows that it leaves out, −1 for none.
    theta : (P,) array
        Where it starts.
    tol : float
        See `Batch.solve`.

    Attributes
    ----------
    theta : (P,) array
        Where it is.
    done : bool
    optimality : float
        The certificate where it ended: more than ``tol`` where its steps led no further.
    known : Known
        What is known where it is, once it is done.
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
    def known(self) -> Known:
        """What is known where it is."""
        found = self.evaluations.find(self.theta)
        assert found is not None
        return found

    def advance(self) -> _Needs | None:
        """Take steps as far as what is known goes; returns what is needed then."""
        model = self.model
        term = model.term(self.evaluations, self.weight)
        batch = Batch(term)
        try:
            batch.start_at((self.theta * model.scale)[:, None])
            watch = model.watch(term, self.l1, self.l2)
            fit = batch.solve(self.l1, self.l2, self.tol, ITERATIONS, watch)[0]
            watch(0, 0.0)
            self.theta, self.optimality = fit.beta, fit.optimality
            self.evaluations.value(self.theta)
        except _Asked as asked:
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


def together(exchange: Exchange, lanes: list[Lane]) -> None:
    """Let lanes go as far as what is known goes, and ask in one round for what they need then."""
    asked = [(lane, a) for lane in lanes if not lane.done and (a := lane.advance()) is not None]
    if not asked:
        return
    _share(exchange, asked)


def hessian_of(
    exchange: Exchange, lane: Lane, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where a lane is, the Hessian over some of the P columns, (k, k), and its diagonal uncentred.

    It takes a round where none has told it: one without steps may know gradients alone.
    """
    while True:
        try:
            return lane.evaluations.hessian(lane.theta, columns)
        except _Asked as asked:
            _share(exchange, [(lane, asked.needs)])


def _share(exchange: Exchange, asked: Sequence[tuple[Lane, _Needs]]) -> None:
    """Ask in one round for what some lanes need."""
    columns = np.unique(np.concatenate([a.columns for _, a in asked]))
    if exchange.plan.shares_risk_sets:
        _share_risk_sets(exchange, asked, columns)
    else:
        _share_sums(exchange, asked, columns)


def _share_sums(
    exchange: Exchange, asked: Sequence[tuple[Lane, _Needs]], columns: np.ndarray
) -> None:
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
    lanes = [(x.evaluations, x.fold, a.points) for x, a in asked
             if isinstance(x.evaluations, RiskSetKnowledge)]  # fmt: skip
    asks = [RiskAsk(points, own.shares(points[0]), fold) for own, fold, points in lanes]
    described = asked[0][0].model.described
    found = risk_sets_over_sites(exchange, described, columns, asks)
    for (own, _, _), ask, sums in zip(lanes, asks, found, strict=True):
        own.learn(ask, columns, sums)
