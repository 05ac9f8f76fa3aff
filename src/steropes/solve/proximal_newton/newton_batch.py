"""Proximal Newton steps for a batch of replicates that share X and most of their curvature.

Each step minimises a quadratic model with the exact gradient of each replicate and one shared
Hessian over the working set, followed by a line search. BFGS terms correct the shared Hessian for
each replicate. All columns are checked from time to time: those that violate the optimality
conditions join the working set, and the last check is the certificate.

A fit from zero passes through a sequence of stronger penalties, each solved loosely, because the
end of one predicts the columns of the next far better than zero does.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...backends.array_namespace import to_host
from ...backends.backend_interface import Array
from ...backends.reductions_of_tall_arrays import column_max, row_any
from ...likelihoods.nuisance_interface import Nuisance
from ...priors import GroupPenalty, Prior
from .. import solver_constants as policies
from ..current_iterates import Iterate
from ..data_term import DataTerm
from ..elastic_net_penalty import ElasticNetPenalty, continuation_factors
from ..fit_result import Fit, fits
from ..fit_trace import FitTrace
from ..optimality.optimality_certificate import violations_in_units
from ..optimality.violations_outside_working_set import outside_violations
from ..quasi_newton.shared_hessian import SharedHessian
from ..solver_constants import SolverPolicy, WorkingSetPolicy
from .descent_state import ColumnCheck, DescentEnd, DescentState, Violations
from .hessian_recomputation import Hessians
from .optimality_violation_units import local_score_variances, smaller_variances
from .path_derivative import Response
from .step_phases import commit, propose, search

__all__ = ["Batch", "most_urgent"]


Callback = Callable[[int, float], None]


def most_urgent(urgency: np.ndarray, k: int, policy: WorkingSetPolicy) -> np.ndarray:
    """Return the columns with the largest positive urgency (p,), ascending.

    No more join at once than a share of the working set: of many correlated columns that seem
    urgent, most no longer are once the first ones have moved.

    Parameters
    ----------
    k : int
        Size of the working set.
    """
    wanted = np.flatnonzero(urgency > 0)
    limit = max(policy.min_batch, int(policy.batch_share * k))
    if len(wanted) > limit:
        wanted = wanted[np.argsort(-urgency[wanted], kind="stable")[:limit]]
    return np.sort(wanted)


class Batch:
    """B replicates of one model, fitted together.

    Parameters
    ----------
    shared : SharedHessian, optional
        A Hessian shared with other batches of the same model and working set.
    per_replicate_subproblems : bool
        Whether replicates have different outcomes. Their supports have little in common, and the
        shared Hessian is never recomputed.
    policy : SolverPolicy, optional
        Tuning parameters, by default `steropes.solve.solver_constants.DEFAULT`.

    Attributes
    ----------
    point : Iterate
        The replicates' points, always valid; its docstring states when objectives and gradients are
        known.
    hessians : Hessians
        The shared Hessian and the replicates' own ones; their class states for which points.
    end : DescentEnd or None
        State of the last fit; None before the first one, or if it was interrupted.
    added_columns : bool
        Whether columns were missing from the working set in the last fit; False before the first.
    trace : FitTrace or None
        The record of the steps, if one is wanted.

    Notes
    -----
    All else belongs to one phase and is passed on: `DescentState` lives as long as a descent,
    `Violations` until the next step, and a `ColumnCheck` until the next check of all columns.
    """

    def __init__(
        self,
        term: DataTerm,
        shared: SharedHessian | None = None,
        per_replicate_subproblems: bool = False,
        policy: SolverPolicy | None = None,
    ) -> None:
        self.term = term
        self.policy = policies.DEFAULT if policy is None else policy
        self._growth = self.policy.working_set
        self.hessians = Hessians(term, shared, per_replicate_subproblems, self.policy)
        self.alone, self.shared = self.hessians.alone, self.hessians.shared
        self.point = Iterate.zero(term)
        self.end: DescentEnd | None = None
        self.added_columns = False
        self.trace: FitTrace | None = None

    # -- the points ------------------------------------------------------------------------------

    @property
    def beta(self) -> np.ndarray:
        """A copy of the coefficients of the scaled columns, (p, B)."""
        return to_host(self.point.beta[:, : self.term.B].copy())

    def start_at(self, beta: np.ndarray, like: Nuisance | None = None) -> None:
        """Move to coefficients (p, B) of the scaled columns.

        Nuisance parameters keep their values, or start near those of ``like``.
        """
        whole = np.broadcast_to(beta, (self.term.p, self.term.B))
        self.point.place(self.term.asarray(whole))
        self.hessians.left()
        self.term.join(np.flatnonzero(row_any(self.point.beta)))
        self.term.place(self.point.beta, like)

    def set_prior(self, prior: Prior | None, group_penalty: GroupPenalty | None) -> None:
        """Apply the prior's non-separable terms at the current point.

        ``group_penalty`` is the penalty of groups or chains of all columns' coefficients.
        """
        if prior is not None and self.term.set_prior(prior):
            self.start_at(self.beta)  # The gradients have changed.

    def gradients(self, tol: float = 0.0) -> np.ndarray:
        """Return gradients over all columns, (p, B); ``tol`` is as in `DataTerm.gradients`."""
        if self.point.gradients is None:
            self.point.gradients = self.term.gradients(tol)
        return to_host(self.point.gradients[:, : self.term.B])

    def watch(self, trace: FitTrace) -> None:
        """Record all further steps in a trace."""
        self.trace = trace

    def prepare(self, columns: np.ndarray, whole: bool = False) -> np.ndarray:
        """Add columns to the working set and return the Hessian over it at the points.

        If the working set is too wide for a matrix, only the diagonal (k,) is returned, unless the
        matrix must be ``whole``.
        """
        self.term.join(columns)
        if self.shared.thinned:  # Good enough for steps only.
            self.hessians.thinned_at_most(0)
            self.shared.forget()
        self.hessians.follow()
        if self.shared.at is None:  # Only its diagonal is left.
            self.refresh()
        if self.shared.G is not None:
            return self.shared.G
        assert self.shared.at is not None
        return self.shared.at.matrix() if whole else self.shared.h

    def refresh(self) -> None:
        """Recompute the shared Hessian at the point of the first replicate."""
        self.hessians.compute(0)

    def uncentred(self) -> np.ndarray:
        """Return `CurvatureAt.uncentred` of the shared Hessian's curvature."""
        assert self.shared.at is not None
        return self.shared.at.uncentred()

    # -- the driver ------------------------------------------------------------------------------

    def solve(
        self,
        l1: np.ndarray,
        l2: np.ndarray,
        tol: float = 1e-8,
        max_iter: int = 200,
        callback: Callback | None = None,
        look: str = "during",
    ) -> list[Fit]:
        """Fit all replicates with penalties λ and κ, (p,) or (p, B), in X's units.

        Each call starts at the end of the last one, so a path of penalties is a sequence of calls.

        Parameters
        ----------
        tol : float
            Largest KKT violation, in the units of
            `steropes.solve.optimality.optimality_certificate`.
        max_iter : int
            Largest number of Newton steps.
        callback : callable, optional
            Called with the step and the largest violation before each step.
        look : {"during", "after"}
            Whether all columns are checked for missing ones during the fit or only at its end.
        """
        term = self.term
        penalty = self._penalty_of(l1, l2)
        self.point.begin()
        term.join(np.flatnonzero(np.logical_not(penalty.every_l1)))
        if tol < self._growth.subsampled_violation and self.shared.thinned:
            self.shared.forget()
        far = self.alone and self.end is None
        thin = self.term.B == 1 and (far or tol >= self._growth.subsampled_violation)
        self.hessians.thinned_at_most(np.inf if thin else 0)
        joined = False
        for factor in self._continuation(penalty):
            left = max_iter - int(self.point.steps.max())
            joined |= self._descend(
                penalty.times(factor), self._growth.path_violation, left, callback, True, factor
            ).joined
        left = max_iter - int(self.point.steps.max())
        everything = (
            self.alone and penalty.lasso and len(term.W) == term.p > self._growth.min_violators
        )
        if everything:  # Without a check half way the second Hessian is near the optimum.
            self.hessians.thinned_at_most(min(self.hessians.thinner, 1))
        end = self._descend(penalty, tol, left, callback, look == "after" or everything)
        self.end, self.added_columns = end, joined or end.joined
        return fits(term, self.point, end.certificate, tol, self.shared.count)

    def _penalty_of(self, l1: np.ndarray, l2: np.ndarray) -> ElasticNetPenalty:
        """Return the penalty of the scaled columns for λ and κ in X's units."""
        term = self.term
        return ElasticNetPenalty.of(l1, l2, term.scale, term.B, term.lanes, term.asarray)

    def _continuation(self, penalty: ElasticNetPenalty) -> list[float]:
        """Return the factors of the stronger penalties, largest first; none for a short way."""
        if not self.alone or self.end is not None or not penalty.lasso:
            return []
        term, beta = self.term, self.point.beta[:, :1]
        l1 = penalty.l1[:, :1]
        urgency = np.where(l1 > 0, np.abs(self.gradients() + penalty.l2[:, :1] * beta), 0.0)
        urgency = urgency / np.where(l1 > 0, l1, 1.0)
        if np.count_nonzero(urgency > 1) < self._growth.min_violators:
            return []
        if term.p <= 3 * self._growth.min_violators:  # Other columns cost less than checks.
            near = urgency > self._growth.near
            few = np.count_nonzero(near) < self._growth.most * term.p
            term.join(np.flatnonzero(near) if few else np.arange(term.p))
            self.shared.forget()
            return []
        return continuation_factors(float(urgency.max()), self._growth)

    def _descend(
        self,
        penalty: ElasticNetPenalty,
        tol: float,
        max_iter: int,
        callback: Callback | None,
        complete: bool,
        factor: float = 1.0,
    ) -> DescentEnd:
        """Take steps until each replicate's certificate is at or below ``tol``."""
        point = self.point
        self.hessians.set_penalty(penalty)
        point.objective = self.term.loss + penalty.value(point.beta[self.term.W], self.term.W)
        run = DescentState(penalty, tol, complete, self.term.lanes, self.policy)
        if point.gradients is not None:
            self._admit(run)  # Missing columns are known without another check.
        while True:
            measured = self._violation(penalty, run.local_variances)
            violation = measured.largest
            todo = (violation > run.aim) & ~run.stuck
            last = run.steps == max_iter
            if not last and not todo.any() and self._stale_units(run):
                continue
            if not todo.any() or last or self._look_instead(run, violation, todo):
                before = len(self.term.W)
                check = self._look(run)
                few = factor > 1 and len(self.term.W) - before <= self._growth.few_new * before
                if last or (run.complete and (few or not check.added)):
                    return run.end(check)
                self._next_level(run, check)
                if check.added:
                    run.resume()
                continue
            if callback is not None:
                callback(int(point.steps.max()), float(violation.max()))
            if self.trace is not None:
                nonzero = int(np.count_nonzero(to_host(point.beta[:, 0])))
                now = float(point.objective[0]), float(violation[0])
                self.trace.record(*now, len(self.term.W), nonzero, self.shared.count, factor)
            if not self.alone and not run.complete:
                # Replicates at the aim continue with the others, as a step costs the same.
                todo = (violation > run.tol) & ~run.stuck
            self.hessians.renew(run, violation, todo)
            self._step(run, measured, todo)
            run.steps += 1

    def _look_instead(self, run: DescentState, violation: np.ndarray, todo: np.ndarray) -> bool:
        """Return whether to check all columns now instead of computing another Hessian.

        Columns that join afterwards would need yet another one.
        """
        far = run.near or violation.max() > self._growth.path_violation
        return self.alone and not far and self.hessians.wanting(run, violation, todo)

    def _next_level(self, run: DescentState, check: ColumnCheck) -> None:
        """Set the aim for the next check after one that found missing columns or none."""
        if run.complete or check.left_out:
            run.complete = run.complete and not check.left_out
            return
        if check.added and self.alone:
            run.next_check()
        else:
            run.complete = True
        if run.tol < self._growth.subsampled_violation:  # This is the last penalty.
            self.hessians.thinned_at_most(0 if self.shared.known or run.near else 1)
            if run.near and self.shared.thinned:
                self.shared.forget()  # A step with it would be in vain.

    def _step(self, run: DescentState, measured: Violations, todo: np.ndarray) -> None:
        """Propose, search and commit a step, and record the replicates that did not move."""
        term, point, penalty, violation = self.term, self.point, run.penalty, measured.largest
        fresh = self.hessians.fresh
        reach = run.rates.reach(violation, fresh)
        run.rates.record(violation, todo, fresh)
        # Models are solved no more accurately than their Hessian allows the steps to contract. A
        # shared Hessian bounds that rate; the Hessian of a single fit improves.
        policy = self.policy.step
        if term.B > 1:
            dear = len(term.W) > self.policy.hessian.dear_columns
            share = policy.dear_share if dear else policy.shared_share
        else:
            share = reach if run.near and not self.shared.thinned else policy.single_share
        # Far from the optimum, the largest violation is common to all columns and soon gone.
        far = violation if term.B == 1 else np.minimum(violation, self._growth.path_violation)
        aim = run.aim if self.alone else run.tol
        tolerance = np.maximum(share * far, policy.aim_share * aim)
        curvatures = self.hessians.curvatures()
        given = curvatures, run.damping, todo, measured.unit, tolerance
        proposal = propose(term, point, penalty, *given)
        trial, t = search(term, point, penalty, proposal, todo)
        commit(term, point, penalty, proposal, trial, t, curvatures)
        point.stepped(todo)
        moved = t > 0
        failed = todo & ~moved
        run.damping.moved(moved)
        run.damping.stepped(proposal.held, t)
        self.hessians.stepped(bool(moved.any()))
        if failed.any():
            if self.hessians.fresh:
                run.failed(failed)
            else:
                self.hessians.again(int(np.flatnonzero(failed)[0]))

    def response(self, l1: np.ndarray, l2: np.ndarray) -> Response:
        """Return how the points move when the penalties change a little from those of the last fit.

        Penalties are as in `solve`, which must have been called.
        """
        assert self.end is not None
        now, then = self.end.penalty, self._penalty_of(l1, l2)
        unit = self._violation(now, self.end.local_variances).unit
        self.hessians.left()
        curvatures, policy = self.hessians.curvatures(), self.policy.step
        return Response(self.term, self.point, now, then, curvatures, unit, policy)

    # -- the working set -------------------------------------------------------------------------

    def _violation(
        self, penalty: ElasticNetPenalty, local_variances: Array | None = None
    ) -> Violations:
        """Compute the largest violation within W for each lane, and the units of W."""
        term, W = self.term, self.term.W
        self.hessians.follow()
        h = smaller_variances(self.hessians.score_variance, local_variances)
        at = term.gradient(), self.point.beta[W], *penalty.within(W)
        v, unit = violations_in_units(*at, h, term.pool)
        return Violations(_certain(np.maximum(column_max(v), term.nuisance_error)), unit)

    def _stale_units(self, run: DescentState) -> bool:
        """Return whether replicates have not reached the aim in the units of their own points.

        Single fits are certified instead.
        """
        if self.alone or self.hessians.lasso or not len(self.term.W):
            return False
        run.local_variances = local_score_variances(self.term)
        violation = self._violation(run.penalty, run.local_variances).largest
        return bool(((violation > run.aim) & ~run.stuck).any())

    def _look(self, run: DescentState) -> ColumnCheck:
        """Compute the certificate over all columns, and add violators to the working set."""
        if self.point.gradients is None:
            self.point.gradients = self.term.gradients(run.tol)
        g, beta, penalty, W = self.point.gradients, self.point.beta, run.penalty, self.term.W
        urgency, largest = outside_violations(g, penalty.l1, self.term.inside)
        if len(W):
            self.hessians.follow()
            h = smaller_variances(self.hessians.score_variance, run.local_variances)
            v, _ = violations_in_units(g[W], beta[W], *penalty.within(W), h, self.term.pool)
            largest = np.maximum(largest, column_max(v))
        certificate = _certain(np.maximum(largest, self.term.nuisance_error))
        joined, left_out = self._join_urgent(urgency, run.tol)
        run.joined |= joined
        released = self._readmit(run)
        certificate[released] = np.inf
        return ColumnCheck(certificate, joined, left_out, bool(released.any()))

    def _readmit(self, run: DescentState) -> np.ndarray:
        """Release nuisance parameters that should leave their bounds; return whose, (lanes,)."""
        back, W = self.term.readmit(run.tol), self.term.W
        if back.any():
            self.point.objective = self.term.loss + run.penalty.value(self.point.beta[W], W)
            self.point.gradients = None
        return back

    def _admit(self, run: DescentState) -> None:
        """Add violating columns before the first step if the gradients are known."""
        assert self.point.gradients is not None
        g, inside = self.point.gradients, self.term.inside
        self._join_urgent(outside_violations(g, run.penalty.l1, inside)[0], run.tol)

    def _join_urgent(self, urgency: np.ndarray, tol: float) -> tuple[bool, bool]:
        """Add the columns with the largest violations (p,) above ``tol``.

        Returns whether any joined, and whether others were left out.
        """
        urgency[~(urgency > tol)] = 0.0  # Values that are not a number select no column.
        chosen = most_urgent(urgency, len(self.term.W), self._growth)
        left_out = len(chosen) < int(np.count_nonzero(urgency))
        if len(chosen) > self._growth.renewing_share * len(self.term.W):
            self.shared.forget()
        return self.term.join(chosen) > 0, left_out


def _certain(violation: np.ndarray) -> np.ndarray:
    """Replace violations (lanes,) that are not a number by infinity, as nothing is known there.

    Thresholds that are so far out that they have no curvature have no gradient either.
    """
    return np.where(np.isnan(violation), np.inf, violation)
