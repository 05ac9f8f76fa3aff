"""A batch of replicates under a penalty of groups of coefficients, or with limits.

Proximal Newton steps: minimise each replicate's quadratic model with the penalty
(`group_penalty_model_minimization`), search along the line, and check all columns, until the
optimality conditions hold (Lee, Sun and Saunders 2014, SIAM Journal on Optimization
24:1420–1443).
"""

from __future__ import annotations

import numpy as np

from ...backends.cpu.descent.descent_within_limits import limited_sweeps
from ...priors import INFINITE_PENALTY, GroupPenalty, LimitedPenalty, Prior
from ..data_term import DataTerm
from ..fit_result import Fit, fits
from ..optimality.optimality_certificate import units
from ..proximal_newton.line_search import backtrack, rounding_slack
from ..proximal_newton.newton_batch import Batch, Callback
from ..quasi_newton.absolute_eigenvalue_hessian import make_positive_definite
from ..quasi_newton.shared_hessian import SharedHessian
from ..solver_constants import DEFAULT, GroupPenaltyPolicy
from .group_penalty_model_minimization import damped_step, minimise_group_model

__all__ = ["GroupPenaltyBatch"]


# Sweeps of coordinate descent find which coordinates are zero or at a limit. They alternate with
# projected Newton steps on the others (Bertsekas 1982, SIAM Journal on Control and Optimization
# 20:221–246).


def minimise_limited_model(
    H: np.ndarray, g: np.ndarray, beta: np.ndarray, penalty: LimitedPenalty, held: np.ndarray,
    unit: np.ndarray, tolerance: float, policy: GroupPenaltyPolicy = DEFAULT.group_penalty,
) -> np.ndarray:  # fmt: skip
    """Minimise g'd + ½ d'Hd + P(β + d) and return β + d, (k,).

    Parameters
    ----------
    H : (k, k) array
    g, beta : (k,) arrays
    penalty : LimitedPenalty
        P, for these coefficients.
    held : (k,) bool array
        Coefficients fixed at zero.
    unit, tolerance
        Iterations stop at a violation of tolerance × unit in each coordinate.
    """
    A = np.ascontiguousarray(H + np.diag(penalty.l2))
    theta = beta.copy()
    c = g + penalty.l2 * beta - A @ beta
    limits = penalty.l1, penalty.lower, penalty.upper
    for _ in range(policy.max_rounds):
        s = A @ theta + c
        limited_sweeps(A, s, theta, *limits, held, policy.sweeps)
        if _settled(A, c, theta, penalty, held, tolerance * unit):
            break
        theta = _newton_step(A, c, theta, penalty, held, policy.max_halvings)
        if _settled(A, c, theta, penalty, held, tolerance * unit):
            break
    return theta if np.isfinite(theta).all() else beta


def _settled(
    A: np.ndarray, c: np.ndarray, theta: np.ndarray, penalty: LimitedPenalty, held: np.ndarray,
    most: np.ndarray,
) -> bool:  # fmt: skip
    """Return whether the violations of the coordinates that may change are at most ``most``."""
    slope = A @ theta + c - penalty.l2 * theta
    v = penalty.violations(slope[:, None], theta[:, None])[:, 0]
    return not bool((v > most)[~held].any())


def _newton_step(
    A: np.ndarray, c: np.ndarray, theta: np.ndarray, penalty: LimitedPenalty, held: np.ndarray,
    halvings: int,
) -> np.ndarray:  # fmt: skip
    """Take a Newton step on coordinates that are neither zero nor at a limit, and project it.

    Coordinates that would cross zero or a limit stop there.
    """
    at = np.flatnonzero(penalty.moves(theta) & ~held)
    if not len(at):
        return theta
    slope = A @ theta + c + penalty.l1 * np.sign(theta)
    M = A[np.ix_(at, at)]
    step = damped_step(M, slope[at])
    if step is None:
        return theta

    def value(x: np.ndarray) -> float:
        return float(0.5 * x @ (A @ x) + c @ x + penalty.l1 @ np.abs(x))

    before, t = value(theta), 1.0
    for _ in range(halvings):
        now = theta.copy()
        now[at] += t * step
        now[(now * theta < 0) & (penalty.l1 > 0)] = 0.0
        now = penalty.within(now[:, None])[:, 0]
        if value(now) <= before:
            return now
        t *= 0.5
    return theta


class GroupPenaltyBatch(Batch):
    """A `Batch` under a `GroupPenalty`; of λ it uses only infinite values.

    Its fits are no descents to an elastic net and leave no `Batch.end`.

    Parameters
    ----------
    term, shared
        As in `Batch`.
    penalty : GroupPenalty
        Of all columns, in X's units.
    """

    def __init__(self, term: DataTerm, penalty: GroupPenalty, shared: SharedHessian | None) -> None:
        super().__init__(term, shared)
        self.group_penalty = penalty

    def set_prior(self, prior: Prior | None, group_penalty: GroupPenalty | None) -> None:
        """See `Batch.set_prior`."""
        assert group_penalty is not None  # The prior of such a batch always has one.
        super().set_prior(prior, group_penalty)
        self.group_penalty = group_penalty

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
        if isinstance(self.group_penalty, LimitedPenalty):
            scale = term.scale[:, None]
            inside = self.group_penalty.within(self.beta / scale) * scale
            if (inside != self.beta).any():
                self.start_at(inside)
        # Other batches add and remove columns one by one.
        used = np.flatnonzero((self.group_penalty.l1 == 0) | point.beta.any(axis=1) | term.inside)
        term.join(self.group_penalty.closed(used))
        point.objective = self._objective(term.loss, point.beta)
        stuck = np.zeros(term.lanes, bool)
        while True:
            last = self._iterate(held, tol, max_iter, stuck, callback)
            back = term.readmit(tol)
            point.gradients = term.gradients(tol)
            v = self._violations(point.gradients, point.beta, held)
            l1_unit = np.where(self.group_penalty.l1 > 0, self.group_penalty.l1, 1.0)
            unit = np.broadcast_to(l1_unit[:, None], v.shape).copy()
            unit[term.W] = self._units(np.arange(len(term.W)))
            certificate = np.maximum((v / unit).max(axis=0, initial=0.0), term.nuisance_error)
            certificate[back] = np.inf
            added = self._admit_blocks(v / unit, tol)
            if last or not (added or back.any()):
                return fits(term, point, certificate, tol, self.shared.count)
            self.added_columns |= added
            stuck[:] = False
            point.objective = self._objective(term.loss, point.beta)

    # -- steps -----------------------------------------------------------------------------------

    def _iterate(
        self, held: np.ndarray, tol: float, max_iter: int, stuck: np.ndarray,
        callback: Callback | None,
    ) -> bool:  # fmt: skip
        """Take steps on the working set until the conditions hold there.

        Returns whether the limit of the number of steps was reached.
        """
        term, point = self.term, self.point
        while True:
            W = term.W
            g = self._in_user_units(term.gradient())
            beta = point.beta[W] / term.scale[W, None]
            part = self.group_penalty.only(W)
            unit = self._units(np.arange(len(W)))
            v = np.zeros((len(W), term.lanes))
            v[:, : term.B] = np.where(held[W], 0.0, part.violations(g, beta)[:, : term.B])
            violation = np.maximum((v / unit).max(axis=0, initial=0.0), term.nuisance_error)
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
                share = min(self.policy.group_penalty.max_share, float(violation[b]))
                aim = max(share * float(violation[b]), 0.1 * tol)
                to = self._minimum(int(b), g[:, b], beta[:, b], part, held[W, b], unit[:, b], aim)
                end[:, b] = to * term.scale[W]
            self._search(end, todo, stuck)

    def _minimum(
        self, b: int, g: np.ndarray, beta: np.ndarray, part: GroupPenalty, held: np.ndarray,
        unit: np.ndarray, aim: float,
    ) -> np.ndarray:  # fmt: skip
        """Minimise a replicate's model over the working set; arrays are in X's units."""
        H, policy = self._hessian(b), self.policy.group_penalty
        if isinstance(part, LimitedPenalty):
            return minimise_limited_model(H, g, beta, part, held, unit, aim, policy)
        return minimise_group_model(H, g, beta, part, held, unit, aim, policy)

    def _search(self, end: np.ndarray, todo: np.ndarray, stuck: np.ndarray) -> None:
        """Move towards the models' minima until each objective is lower."""
        term, point, W = self.term, self.point, self.term.W
        old = point.beta[W]
        D = end - old
        change = self._penalty_value(end) - self._penalty_value(old)
        slope = (term.gradient() * D).sum(axis=0) + change - term.nuisance_decrement
        trial = term.along(D, todo)

        def value_at(t: np.ndarray) -> np.ndarray:
            return trial.loss(t) + self._penalty_value(old + t * D)

        slack = rounding_slack(term, point.objective)
        t = backtrack(value_at, point.objective, slope, slack, todo)
        stuck |= t == 0.0
        trial.commit()
        # Coefficients that are equal in the model are exactly equal.
        now = np.where(t == 1.0, end, old + t * D)
        if isinstance(self.group_penalty, LimitedPenalty):  # which rounding may exceed
            scale = term.scale[W, None]
            now = self.group_penalty.only(W).within(now / scale) * scale
        point.move(W, now, term.loss + self._penalty_value(now))
        point.stepped(todo)

    def _hessian(self, b: int) -> np.ndarray:
        """Compute a replicate's own Hessian over the working set, in X's units."""
        at = self.term.curvature(b)
        assert at is not None
        self.shared.count += 1
        G = np.asarray(at.matrix(), np.float64)
        if not at.convex:
            G = make_positive_definite(G, np.zeros(len(G)), at.uncentred())
        scale = self.term.scale[self.term.W]
        return G * scale * scale[:, None]

    # -- optimality conditions -------------------------------------------------------------------

    def _units(self, at: np.ndarray) -> np.ndarray:
        """Return units of violations at places of the working set, in X's units."""
        self.hessians.follow()
        scale = self.term.scale[self.term.W[at], None]
        h = self.hessians.score_variance[at] * scale**2
        return units(np.broadcast_to(self.group_penalty.l1[self.term.W[at], None], h.shape), h)

    def _violations(self, g: np.ndarray, beta: np.ndarray, held: np.ndarray) -> np.ndarray:
        """Compute violations over all columns in X's units, (p, lanes), from scaled gradients."""
        term, v = self.term, np.zeros((self.term.p, self.term.lanes))
        scale, B = term.scale[:, None], term.B
        found = self.group_penalty.violations(g[:, :B] * scale, beta[:, :B] / scale)
        v[:, :B] = np.where(held, 0.0, found)
        return v

    def _admit_blocks(self, urgency: np.ndarray, tol: float) -> bool:
        """Add the most urgent violators together with their groups or chains."""
        outside = np.where(self.term.inside, 0.0, urgency.max(axis=1, initial=0.0))
        chosen = np.flatnonzero(outside > tol)
        most = max(self.policy.group_penalty.min_batch, len(self.term.W))
        chosen = chosen[np.argsort(-outside[chosen], kind="stable")[:most]]
        return self.term.join(self.group_penalty.closed(chosen)) > 0

    def _in_user_units(self, x: np.ndarray) -> np.ndarray:
        """Convert a gradient over the working set to X's units."""
        return x * self.term.scale[self.term.W, None]

    def _penalty_value(self, beta: np.ndarray) -> np.ndarray:
        """Evaluate the penalty at coefficients of the scaled working set, (lanes,)."""
        W = self.term.W
        return self.group_penalty.only(W).value(beta / self.term.scale[W, None])

    def _objective(self, loss: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """Add the penalty at coefficients of all scaled columns to the loss."""
        return loss + self.group_penalty.value(beta / self.term.scale[:, None])
