"""Selection of a prior's variance by cross-validation at the sites.

The search is that of one machine (`select.VariancePath`), which requests one variance after
another. The fits of all folds and the fit to all rows share their rounds, and so do the next
variances of the search as far as they are known in advance.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ..priors import Prior
from ..select.first_variance_from_gradients import first_variance, own_information
from ..select.fold_errors import ShortFits
from ..select.uninformative_folds import SLOPE_ROUNDING, nothing_held_out, nothing_to_train
from ..select.variance_path_constants import DEFAULT
from ..select.variance_search import VariancePath, readable
from .concurrent_fits import Lane, advance_together, hessian_of
from .federated_constants import CONVERGENCE, EVALUATION
from .federated_solver_model import FederatedModel
from .message_exchange import Exchange
from .pooled_evaluations import KnownPoint

__all__ = ["Chosen", "choose_variance"]

# The tolerances of the fits, in units of λ and in standard errors of the score.
LASSO_TOL, RIDGE_TOL = 1e-7, 1e-8


@dataclass
class Chosen:
    """The selected variance.

    Attributes
    ----------
    theta : (P,) array
        Coefficients close to those of the fit to all rows.
    results : DataFrame
        The scores of all variances that were tried.
    known : list of KnownPoint
        The sums at the points of that fit.
    """

    variance: float
    prior: Prior
    theta: np.ndarray
    results: pd.DataFrame
    known: list[KnownPoint] = field(repr=False)


def choose_variance(exchange: Exchange, model: FederatedModel, prior: Prior) -> Chosen:
    """Find the variance with the best cross-validated score."""
    path = _SitesPath(exchange, model, prior)
    found = path.search()
    path.refuse_constant_scores()
    path.short.warn()
    known = path.lanes[found.variance][0].evaluations.known
    return Chosen(found.variance, found.prior, found.beta, found.results, known)


class _SitesPath(VariancePath):
    """A search with fits as lanes: for each variance one of all rows, then one per fold."""

    def __init__(self, exchange: Exchange, model: FederatedModel, prior: Prior) -> None:
        plan = model.plan
        super().__init__(plan.chooser(0), prior, None)
        self.exchange, self.model, self.unit = exchange, model, prior
        if plan.rule == "one_standard_error":
            self.within = float(np.sqrt(plan.repeats))
        self.K = plan.folds * plan.repeats
        self.lanes: dict[float, list[Lane]] = {}
        self.walked: list[float] = [float(v) for v in sorted(set(plan.search))]
        q = len(model.names)
        size = min(q, 100) ** 2 / 2 + 3 * q + len(model.described.times) * (2 * q + 8)
        size *= self.K + 1
        self.ahead = int(np.clip(EVALUATION.max_numbers / size, 1, EVALUATION.max_ahead))
        self.begin = model.start
        l1, l2 = model.penalties(prior.with_variance(1.0))
        self.short = ShortFits()
        self.selects, self.penalised = bool(l1.any()), (l1 > 0) | (l2 > 0)

    def first(self) -> float:
        """See `VariancePath.first`."""
        model = self.model
        l1, l2 = model.penalties(self.unit.with_variance(1.0))
        lane: list[Lane] = []

        def gradient(free: np.ndarray) -> np.ndarray:
            """Fit under a λ that is infinite for penalised columns; return the gradient there."""
            lane.append(
                Lane(model, free, np.zeros_like(l2), -1, model.start, CONVERGENCE.start_tol)
            )
            while not lane[0].done:
                advance_together(self.exchange, lane)
            return lane[0].evaluations.value(lane[0].theta)[1]

        def information(columns: np.ndarray) -> np.ndarray:
            free = np.flatnonzero((l1 == 0) & (l2 == 0))
            both = np.union1d(free, columns)
            H, raw = hessian_of(self.exchange, lane[0], both)
            own, place = np.searchsorted(both, free), np.searchsorted(both, columns)
            return own_information(H, own, place, raw[place])

        begin = v = first_variance(self.unit, model.penalties, gradient, information)
        self.matters_to = 0.0 if self.selects else begin / DEFAULT.ridge_start
        self.begin = lane[0].theta
        for _ in range(EVALUATION.max_variances):
            self.walked.append(readable(v))
            v *= self.policy.step_ratio
        return begin

    def evaluate(self, variance: float) -> tuple[np.ndarray, int, np.ndarray]:
        """See `VariancePath.evaluate`."""
        for v in self._next_variances(variance):
            if v not in self.lanes:
                self.lanes[v] = self._lanes(v)
        own = self.lanes[variance]
        while not all(lane.done for lane in own):
            advance_together(self.exchange, [lane for each in self.lanes.values() for lane in each])
        if not self.scores:
            self._refuse_uninformative(own)
        self.short.note(
            variance, range(self.K), own[1:], CONVERGENCE.incomplete_factor * own[0].tol
        )
        theta = own[0].theta
        parts = np.array([lane.known.held_out for lane in own[1:]])
        scores = self.model.family.score_of(parts.T)
        return theta, int(np.count_nonzero(theta[self.penalised])), np.asarray(scores)

    def _refuse_uninformative(self, lanes: list[Lane]) -> None:
        """Raise an error if the likelihood of a lane's rows does not depend on the coefficients.

        This can happen if a likelihood compares rows with each other. Slopes and curvatures are
        then zero.
        """
        model, head = self.model, self.model.head
        columns = np.arange(head, len(model.names))[: DEFAULT.start_columns]
        for lane in lanes if model.plan.planned.compares_rows else ():
            none = SLOPE_ROUNDING * lane.weight
            slope = lane.evaluations.value(lane.theta)[1] / model.scale
            if lane.theta[head:].any() or (np.abs(slope) > none).any():
                continue
            H, _ = hessian_of(self.exchange, lane, columns)
            if (np.diag(H) <= none * model.scale[columns] ** 2).all():
                raise nothing_to_train(lane.fold)

    def refuse_constant_scores(self) -> None:
        """Raise an error if no fold's score depends on the coefficients.

        Scores are also equal if all coefficients are zero at all variances, which is no error.
        """
        if not self.model.plan.planned.compares_rows:
            return
        scores = np.array(list(self.scores.values()))
        done = [self.lanes[v] for v in self.scores if v in self.lanes]
        known = np.array([[lane.theta for lane in own[1:]] for own in done])
        moved = (np.ptp(known, axis=0) > 0).any(axis=1)  # of each fold
        if moved.any() and (np.ptp(scores, axis=0) <= SLOPE_ROUNDING * self.model.weight).all():
            raise nothing_held_out()

    def _next_variances(self, variance: float) -> list[float]:
        """Return the variance and the next ones, if they are known; abandon unfinished others."""
        if variance in self.walked:
            at = self.walked.index(variance)
            return self.walked[at : at + self.ahead]
        coming = [variance]
        if self.within and variance < min(self.scores):  # `narrow` goes down step by step
            while len(coming) < self.ahead:
                coming.append(
                    readable(float(np.exp(np.log(coming[-1]) - np.log(self.policy.step_ratio))))
                )
        self.lanes = {
            v: each
            for v, each in self.lanes.items()
            if v in coming or all(lane.done for lane in each)
        }
        return coming

    def _lanes(self, variance: float) -> list[Lane]:
        """Create the lanes of a variance, starting at the fits of the nearest variance."""
        l1, l2 = self.model.penalties(self.unit.with_variance(variance))
        tol = LASSO_TOL if l1.any() else RIDGE_TOL
        near = min(self.scores, key=lambda v: abs(np.log(v / variance)), default=None)
        starts = [self.begin] * (self.K + 1)
        if near is not None:
            starts = [lane.theta for lane in self.lanes[near]]
        return [
            Lane(self.model, l1, l2, fold, theta, tol)
            for fold, theta in zip(range(-1, self.K), starts, strict=True)
        ]
