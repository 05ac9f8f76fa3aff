"""Replicates under a penalty with corners that belong to no single coefficient.

Proximal Newton steps: the minimum of each replicate's own quadratic model with the penalty
(`joined_model`), a line search, and looks at all columns, until the optimality conditions hold
(Lee, Sun and Saunders 2014, SIAM Journal on Optimization 24:1420–1443).
"""

from __future__ import annotations

import numpy as np

from ...priors import INFINITE_PENALTY, GroupPenalty, Prior
from ..batch import Batch, Callback
from ..certificate import units
from ..data_term import DataTerm
from ..fit import Fit, fits
from ..psd_modification import make_positive_definite
from ..shared_hessian import SharedHessian
from .group_penalty_model import minimum

__all__ = ["GroupPenaltyBatch"]

ARMIJO = 1e-4
ROUNDING = 2e-14  # relative noise of a sum over rows
HALVINGS = 40
MOST_SHARE = 0.1  # of its violation, to which a replicate's model is minimised
LEAST = 64  # columns that may join at a time, at least


class GroupPenaltyBatch(Batch):
    """A `Batch` whose penalty is a `GroupPenalty`; of λ it takes what is held at zero.

    Parameters
    ----------
    term, shared
        As of `Batch`.
    penalty : GroupPenalty
        Of all columns, in X's units.
    """

    def __init__(self, term: DataTerm, penalty: GroupPenalty, shared: SharedHessian | None) -> None:
        super().__init__(term, shared)
        self.joined = penalty

    def set_prior(self, prior: Prior | None, joined: GroupPenalty | None) -> None:
        """See `Batch.set_prior`."""
        assert joined is not None  # a batch of a prior that has one is under no other
        super().set_prior(prior, joined)
        self.joined = joined

    def solve(
        self,
        l1: np.ndarray,
        l2: np.ndarray,
        tol: float = 1e-8,
        max_iter: int = 200,
        callback: Callback | None = None,
        look: str = "during",
    ) -> list[Fit]:
        """Fit all replicates; see `Batch.solve`. `INFINITE_PENALTY` keeps a column at zero."""
        term, point = self.term, self.point
        whole = l1[:, None] if l1.ndim == 1 else l1
        held = np.broadcast_to(whole >= INFINITE_PENALTY, (term.p, term.B))
        point.begin()
        self.added_columns = False
        # Others let columns in and out one by one.
        used = np.flatnonzero((self.joined.l1 == 0) | point.beta.any(axis=1) | term.inside)
        term.join(self.joined.closed(used))
        point.objective = self._objective(term.loss, point.beta)
        stuck = np.zeros(term.lanes, bool)
        while True:
            last = self._approach(held, tol, max_iter, stuck, callback)
            back = term.readmit(tol)
            point.gradients = term.gradients(tol)
            v = self._violations(point.gradients, point.beta, held)
            l1_unit = np.where(self.joined.l1 > 0, self.joined.l1, 1.0)
            unit = np.broadcast_to(l1_unit[:, None], v.shape).copy()
            unit[term.W] = self._units(np.arange(len(term.W)))
            self.certificate = np.maximum((v / unit).max(axis=0, initial=0.0), term.unsettled)
            self.certificate[back] = np.inf
            added = self._admit_blocks(v / unit, tol)
            if last or not (added or back.any()):
                return fits(term, point, self.certificate, tol, self.shared.count)
            self.added_columns |= added
            stuck[:] = False
            point.objective = self._objective(term.loss, point.beta)

    # -- steps -----------------------------------------------------------------------------------

    def _approach(
        self, held: np.ndarray, tol: float, max_iter: int, stuck: np.ndarray,
        callback: Callback | None,
    ) -> bool:  # fmt: skip
        """Steps on the working set until the conditions hold there; whether they were too many."""
        term, point = self.term, self.point
        while True:
            W = term.W
            g = self._user(term.gradient())
            beta = point.beta[W] / term.scale[W, None]
            part = self.joined.only(W)
            unit = self._units(np.arange(len(W)))
            v = np.zeros((len(W), term.lanes))
            v[:, : term.B] = np.where(held[W], 0.0, part.violations(g, beta)[:, : term.B])
            violation = np.maximum((v / unit).max(axis=0, initial=0.0), term.unsettled)
            todo = (violation > tol) & ~stuck
            todo[term.B :] = False
            if not todo.any():
                return False
            if int(point.steps.max()) >= max_iter:
                return True
            if callback is not None:
                callback(int(point.steps.max()), float(violation.max()))
            if self.trace is not None:
                nonzero = int(np.count_nonzero(point.beta[:, 0]))
                now = float(point.objective[0]), float(violation[0])
                self.trace.record(*now, len(W), nonzero, self.shared.count, 1.0)
            end = point.beta[W]
            for b in np.flatnonzero(todo):
                share = min(MOST_SHARE, float(violation[b]))
                to = minimum(
                    self._hessian(int(b)), g[:, b], beta[:, b], part, held[W, b], unit[:, b],
                    max(share * float(violation[b]), 0.1 * tol),
                )  # fmt: skip
                end[:, b] = to * term.scale[W]
            self._search(end, todo, stuck)

    def _search(self, end: np.ndarray, todo: np.ndarray, stuck: np.ndarray) -> None:
        """Go towards where the models have their minima until each objective is lower."""
        term, point, W = self.term, self.point, self.term.W
        old = point.beta[W]
        D = end - old
        change = self._value(end) - self._value(old)
        slope = np.minimum((term.gradient() * D).sum(axis=0) + change - term.fall, 0.0)
        slack = ROUNDING * (np.abs(point.objective) + term.total * term.dispersion)
        trial = term.along(D, todo)
        t, waiting = np.ones(term.lanes), todo.copy()
        for _ in range(HALVINGS):
            value = trial.loss(t) + self._value(old + t * D)
            good = value <= point.objective + ARMIJO * t * slope + slack
            waiting &= ~(good & np.isfinite(value))
            if not waiting.any():
                break
            t[waiting] *= 0.5
        if waiting.any():
            t[waiting] = 0.0
            stuck |= waiting
            trial.loss(t)
        trial.commit()
        now = np.where(t == 1.0, end, old + t * D)  # what is equal in the model is exactly equal
        point.move(W, now, term.loss + self._value(now))
        point.stepped(todo)

    def _hessian(self, b: int) -> np.ndarray:
        """A replicate's own Hessian over the working set, in X's units."""
        at = self.term.curvature(b)
        assert at is not None
        self.shared.count += 1
        G = np.asarray(at.matrix(), np.float64)
        if not at.convex:
            G = make_positive_definite(G, np.zeros(len(G)), at.uncentred())
        scale = self.term.scale[self.term.W]
        return G * scale * scale[:, None]

    # -- conditions ------------------------------------------------------------------------------

    def _units(self, at: np.ndarray) -> np.ndarray:
        """In which violations are counted, of places of the working set, in X's units."""
        self.hessians.follow()
        scale = self.term.scale[self.term.W[at], None]
        h = self.hessians.score_variance[at] * scale**2
        return units(np.broadcast_to(self.joined.l1[self.term.W[at], None], h.shape), h)

    def _violations(self, g: np.ndarray, beta: np.ndarray, held: np.ndarray) -> np.ndarray:
        """Over all columns in X's units, (p, lanes), of gradients of the scaled ones."""
        term, v = self.term, np.zeros((self.term.p, self.term.lanes))
        scale, B = term.scale[:, None], term.B
        found = self.joined.violations(g[:, :B] * scale, beta[:, :B] / scale)
        v[:, :B] = np.where(held, 0.0, found)
        return v

    def _admit_blocks(self, urgency: np.ndarray, tol: float) -> bool:
        """Let the most urgent violators in, with all that are in a group or chain with them."""
        outside = np.where(self.term.inside, 0.0, urgency.max(axis=1, initial=0.0))
        chosen = np.flatnonzero(outside > tol)
        most = max(LEAST, len(self.term.W))
        chosen = chosen[np.argsort(-outside[chosen], kind="stable")[:most]]
        return self.term.join(self.joined.closed(chosen)) > 0

    def _user(self, x: np.ndarray) -> np.ndarray:
        """A gradient over the working set in X's units."""
        return x * self.term.scale[self.term.W, None]

    def _value(self, beta: np.ndarray) -> np.ndarray:
        """The penalty of coefficients of the scaled working set, (lanes,)."""
        W = self.term.W
        return self.joined.only(W).value(beta / self.term.scale[W, None])

    def _objective(self, loss: np.ndarray, beta: np.ndarray) -> np.ndarray:
        return loss + self.joined.value(beta / self.term.scale[:, None])
