"""The negative log-likelihood of survival models whose rows are in shards that share risk sets.

A step takes two rounds. In the first, shards send sums over risk sets, one number for each distinct
event time. The totals determine the losses, which is all that a line search needs, and the steps of
the hazard. In the second, shards receive these and each computes the gradient of its rows. A
Hessian takes one such exchange and the sums of r x at the bins of its event times.
"""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import numpy as np

from ....backends.backend_interface import Backend
from ....likelihoods.cox_risk_set_sums import MAX_UNSHIFTED_PREDICTOR
from ....likelihoods.likelihood_interface import Bound, Likelihood
from ....likelihoods.sharded_partial_likelihood import RiskHessian, ShardedPartialLikelihood
from ..data_term_interfaces import Accuracy, CurvatureAt
from ..working_set import WorkingSet
from .shard_messages import (
    Answer,
    At,
    ContextShards,
    Gradients,
    Hessian,
    RiskSums,
    Slope,
    Tops,
    added,
)
from .sharded_term import ShardedCurvature, ShardedFamily, ShardedState, ShardedTerm

__all__ = ["RiskTerm"]


class RiskTerm(ShardedTerm):
    """Replicates of one model with rows in shards that share risk sets.

    Parameters
    ----------
    likelihood : Likelihood
        Of all rows; only its outcomes and weights are used.
    scale, weights, offset, B, active
        As in `ShardedTerm`.
    """

    def __init__(
        self,
        shards: ContextShards,
        exchange: ShardedPartialLikelihood,
        likelihood: Likelihood,
        scale: np.ndarray,
        weights: np.ndarray,
        offset: np.ndarray | None = None,
        B: int = 1,
        active: WorkingSet | None = None,
    ) -> None:
        self.exchange, self.likelihood, self.context_shards = exchange, likelihood, shards
        backend: Backend = likelihood.backend
        self.own, self.offset = np.broadcast_to(weights, (shards.rows, B)), offset
        self.w, self.bound = self._bound(self.own, backend.lanes(B))
        self._others: dict[bool, tuple[str, Bound, Any]] = {}
        family = ShardedFamily(
            likelihood.grouped, likelihood.trust_radius, likelihood.dispersion, likelihood.score_of
        )
        super().__init__(
            shards, family, scale, backend.pool, weights, offset, B, backend.lanes(B), active
        )

    def _bound(self, weights: np.ndarray, lanes: int) -> tuple[np.ndarray, Bound]:
        """Return row weights (n, ·) in the model's order and in lanes, raw and bound."""
        order = self.likelihood.order
        w = np.zeros((self.likelihood.n, lanes))
        w[:, : weights.shape[1]] = weights if order is None else weights[order]
        return w, self.likelihood.weigh(w)

    def _bind(self, weights: np.ndarray, offset: np.ndarray | None) -> str:
        """See `ShardedTerm._bind`."""
        return self.context_shards.bind(self.own, offset, self.B, self._shard_contexts(self.bound))

    def _shard_contexts(self, bound: Bound) -> list[dict[str, np.ndarray]]:
        """Compute the context that each shard receives in addition to its weights."""
        offset, order = self.offset, self.likelihood.order
        if offset is not None:
            offset = np.asarray(offset, np.float64)
            offset = np.asarray(self.likelihood.lift(offset if order is None else offset[order]))
        return self.exchange.shard_contexts(bound, offset)

    def _totals(self) -> np.ndarray:
        """See `ShardedTerm._totals`; the weights are known here."""
        return np.asarray(self.w.sum(axis=0))

    # -- the points ----------------------------------------------------------------------------

    def evaluate_at(self, at: At) -> ShardedState:
        """Request the losses at a point; gradients take another round, for accepted trials only.

        See `ShardedTerm.evaluate_at`.
        """
        return self._evaluate_bound(at, self.bound)

    def _evaluate_bound(self, at: At, bound: Bound) -> ShardedState:
        """Request the sums over risk sets and compute loss and hazards from their totals."""
        sums, shift = self.sums(at)
        loss, hazards = self.exchange.loss(sums, bound, shift)
        return ShardedState(np.asarray(loss), None, hazards)

    def sums(
        self, at: At, lane: int | None = None, squares: bool = False
    ) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
        """Request total sums over risk sets and the shift of η in each stratum, or None."""
        answers, shift = self._ask(at, RiskSums(lane, None, squares)), None
        if max(float(a["largest"]) for a in answers) >= MAX_UNSHIFTED_PREDICTOR:
            tops = [a["tops"] for a in self._ask(at, Tops(lane))]
            top = np.max(tops, axis=0)
            shift = np.where(np.isfinite(top), top, 0.0)
            answers = self._ask(at, RiskSums(lane, shift, squares))
        names = [name for name in answers[0] if name != "largest"]
        return {name: added(answers, name) for name in names}, shift

    def _at(self) -> At:
        """Return the current points with their hazards, if these are known."""
        known = None if self._here is None else self._here.hazards
        return At(self.key, self.W, self.beta[self.W], known)

    def _slope(self) -> np.ndarray:
        """See `ShardedTerm._slope`; it is a round of its own here."""
        answers = self._ask(self._at(), Slope())
        self.record_entries(answers)
        return added(answers, "gradient")

    def gradients(self, tol: float) -> np.ndarray:
        """See `DataTerm.gradients`."""
        own = self.gradient()
        g = added(self._ask(self._at(), Gradients(tol)), "gradients")
        g[self.W] = own
        return g

    # -- curvature and scores --------------------------------------------------------------------

    def curvature(
        self, lane: int, thin: int = 1, accuracy: Accuracy = "near"
    ) -> CurvatureAt | None:
        """Return the curvature; None for a subsample, which shards do not support.

        See `DataTerm.curvature`.
        """
        return None if thin > 1 else RiskCurvature(self, lane)

    def left_out_score(self, weights: np.ndarray, difference: bool) -> np.ndarray:
        """See `DataTerm.left_out_score`."""
        if difference not in self._others:
            w = weights[:, None] if difference else weights[:, None] - self.own
            held, bound = self._bound(w, self.likelihood.backend.lanes(w.shape[1]))
            key = self.context_shards.bind(w, self.offset, w.shape[1], self._shard_contexts(bound))
            weakref.finalize(self, self.context_shards.release, key).atexit = False
            constant = self.likelihood.score_constant(held)
            if difference:
                constant = constant - self.likelihood.score_constant(self.w)
            self._others[difference] = key, bound, constant
        key, bound, constant = self._others[difference]
        score = constant - self._evaluate_bound(At(key, self.W, self.beta[self.W]), bound).loss
        return (score + self.loss if difference else score)[: self.B]


class RiskCurvature(ShardedCurvature):
    """The curvature with shared risk sets; see `ShardedCurvature`."""

    def __init__(self, term: RiskTerm, lane: int) -> None:
        super().__init__(term, lane)
        self.risk = term
        self._parts: RiskHessian | None = None

    @property
    def parts(self) -> RiskHessian:
        """The part from sums over risk sets, which does not depend on the working set."""
        if self._parts is None:
            term, one = self.risk, slice(self.lane, self.lane + 1)
            sums, shift = term.sums(self.place(), self.lane, squares=True)
            self._parts = term.exchange.hessian(sums, term.w[:, one], shift)
        return self._parts

    @property
    def at(self) -> At:
        """The point of requests, with its hazards; see `ShardedCurvature.at`."""
        return replace(self.place(), hazards=self.parts.hazards)

    def _sums(self, matrix: bool, first: int, rough: bool) -> list[Answer]:
        """Request the shards' parts of the Hessian or of its diagonal."""
        groups, apart = self.parts.groups, self.parts.apart
        ask = Hessian(self.lane, matrix, first, rough, groups=groups, apart=apart)
        return self.term._ask(self.at, ask)

    def _moments(self, answers: list[Answer], k: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return the rank-one terms as matrices (F, k) with their weights."""
        names = ("at_risk", "tied") if self.parts.apart else ("at_risk",)
        return self.parts.moments({name: added(answers, name)[:, :k] for name in names})

    def matrix(self, first: int = 0, rough: bool = False) -> np.ndarray:
        """See `CurvatureAt.matrix`."""
        k = len(self.term.W)
        answers = self._sums(True, first, rough)
        strip = added(answers, "matrix")[: k - first, :k]
        for M, c in self._moments(answers, k):
            strip -= (M[:, first:] * c[:, None]).T @ M
        H = np.empty((k, k), answers[0]["matrix"].dtype)
        H[first:] = strip
        return H

    def _diagonal_pair(self) -> tuple[np.ndarray, np.ndarray]:
        """See `ShardedCurvature._diagonal_pair`."""
        version, k = self.term.active.version, len(self.term.W)
        if self._diagonals is None or self._diagonals[0] != version:
            answers = self._sums(False, 0, False)
            raw = added(answers, "diagonal")[:k]
            h = raw.copy()
            for M, c in self._moments(answers, k):
                h -= c @ M**2
            self._diagonals = version, np.maximum(h, 0.0), raw
        return self._diagonals[1:]
