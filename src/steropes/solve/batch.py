"""Proximal Newton for a batch of replicates that share X, and mostly the curvature too.

Each step minimises a quadratic model with the exact gradient of each replicate and one shared
Hessian over the working set, and searches along the line; what a replicate's gradients say of its
own Hessian is kept as BFGS terms. All columns are looked at now and then: those that violate the
optimality conditions join the working set, and at the end the look is the certificate.

A fit that starts from nothing goes there by way of stronger penalties, each solved loosely: from
the end of one, the next one's columns are told far better than from zero.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..likelihoods.nuisance import Nuisance
from .bfgs import BfgsPairs
from .certificate import units, violations
from .data_term import DataTerm
from .fit import Fit, fits
from .growth import idle, most_urgent
from .point import Penalty, Point, on_the_way
from .quadratic import Quadratic
from .response import Response
from .run import EARLY_LOOKS, Run
from .shared_hessian import SharedHessian
from .step import Curvatures, commit, propose, search
from .trace import Trace
from .units import smaller, variances_here
from .worth import in_single_precision, one_row_in, too_wide

__all__ = ["Batch"]

LOOSE = 1.0  # KKT violation to which the penalties on the way are solved
MANY = 500  # columns that violate at the start from which on there is a way
TO_SETTLE = 3  # steps with a thinned Hessian before a whole one, to be near the optimum
CHEAP = 1.3  # steps that a Hessian may cost for each step to have its own
DEAR = 4000  # columns from which on Hessians and replicates' models cost more than a look at the
DEAR_SHARE = 0.2  # data: of the violation that is left then; any more would look like their fault
MANY_FREE = 0.1  # share of the working set without penalty, which descent by columns is slow for
RENEWED = 0.5  # share of the working set: with more new columns the Hessian is computed anew

Callback = Callable[[int, float], None]


class Batch:
    """B replicates of one model, fitted together.

    Parameters
    ----------
    term : DataTerm
    shared : SharedHessian, optional
        To share with other batches of the same model, whose terms share a working set.
    apart : bool
        Whether replicates are of different outcomes: their supports have little in common, and
        the one Hessian, of all columns, is kept whatever it is worth to each.

    Attributes
    ----------
    surprised : bool
        Whether columns were missing from the working set in the last fit.
    """

    def __init__(
        self, term: DataTerm, shared: SharedHessian | None = None, apart: bool = False
    ) -> None:
        self.term, self.apart = term, apart
        self.alone = shared is None and term.B == 1
        self.shared = SharedHessian(term.pool) if shared is None else shared
        self.bfgs = BfgsPairs()
        # Of replicates that the shared Hessian fails, each with the columns it is of.
        self.own: dict[int, tuple[np.ndarray, Quadratic]] = {}
        self.curvature_of = -1  # the replicate whose curvature the Hessian is
        self.point = Point.zero(term.p, term.lanes)
        self.penalty: Penalty | None = None  # of the last fit
        self.certificate = np.full(term.lanes, np.inf)
        self.surprised = False
        self.thinner = 0.0  # thinned Hessians that there may still be
        self._sigma: tuple[int, np.ndarray] | None = None
        self._here: np.ndarray | None = None  # scores' variances where replicates stopped
        self._exact = False  # whether a coarse Hessian was found to be too coarse
        self._moved = False  # whether the points have moved since the Hessian was computed
        self.trace: Trace | None = None  # where steps are recorded, if anyone wants to know
        self._left_out = False  # whether columns that look urgent had to wait

    # -- where the replicates are ----------------------------------------------------------------

    @property
    def beta(self) -> np.ndarray:
        """Coefficients of the scaled columns, (p, B); a copy."""
        return self.point.beta[:, : self.term.B].copy()

    def start_at(self, beta: np.ndarray, like: Nuisance | None = None) -> None:
        """Start from these coefficients, (p, B), of the scaled columns.

        Nuisance parameters stay where they are, or start near those of ``like``.
        """
        self.point.beta[:, : self.term.B] = beta
        self._moved = True
        self.term.join(np.flatnonzero(self.point.beta.any(axis=1)))
        self.term.place(self.point.beta, like)
        self.point.gradients = None

    def gradients(self, tol: float = 0.0) -> np.ndarray:
        """Gradient of the loss over all columns, (p, B); ``tol`` as in `DataTerm.gradients`."""
        if self.point.gradients is None:
            self.point.gradients = self.term.gradients(tol)
        return self.point.gradients[:, : self.term.B]

    def keep(self, at: np.ndarray) -> None:
        """Let only these places of the working set stay; the others have β = 0."""
        self.term.keep(at)
        self.shared.keep(at)

    def prepare(self, columns: np.ndarray, whole: bool = False) -> np.ndarray:
        """Let columns into the working set; return the Hessian over it where the points are.

        Of a working set too wide for models with a matrix it is the diagonal alone, (k,), unless
        it has to be ``whole``.
        """
        self.term.join(columns)
        self._have_diagonal()
        if self.shared.at is None:  # forgotten: its diagonal was enough until now
            self.refresh()
        if self.shared.G is not None:
            return self.shared.G
        assert self.shared.at is not None
        return self.shared.at.matrix() if whole else self.shared.h

    def refresh(self) -> None:
        """Compute the shared Hessian again, where the first replicate is."""
        self._compute(0, self._rough)

    def uncentred(self) -> np.ndarray:
        """See `CurvatureAt.uncentred`, of the shared Hessian's curvature."""
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
        """Fit all replicates with penalties λ (p,) or (p, B) and κ alike, in X's units.

        Starts from where the last call ended, so a path of penalties is a row of calls.

        Parameters
        ----------
        tol : float
            Largest KKT violation, in the units of `steropes.solve.certificate`.
        max_iter : int
            Newton steps.
        callback : callable, optional
            Called with the step and the largest violation after each step.
        look : {"during", "after"}
            When all columns are looked at for those that are missing from the working set: when
            the fit is under way, or only at its end.
        """
        term = self.term
        penalty = Penalty.of(l1, l2, term.scale, term.B, term.lanes)
        self.point.steps[:] = 0
        self.surprised = False
        term.join(np.flatnonzero((penalty.l1 == 0).any(axis=1)))
        self.thinner = np.inf if self.alone and self.penalty is None else 0
        for factor in self._way(penalty):
            left = max_iter - int(self.point.steps.max())
            self._descend(penalty.times(factor), LOOSE, left, callback, True, factor)
        left = max_iter - int(self.point.steps.max())
        everything = self.alone and penalty.lasso and len(term.W) == term.p > MANY
        if everything:  # there is no search half way, and the Hessian after the first one is near
            self.thinner = min(self.thinner, 1)
        self._descend(penalty, tol, left, callback, look == "after" or everything)
        return fits(term, self.point, self.certificate, tol, self.shared.count)

    def _way(self, penalty: Penalty) -> list[float]:
        """Factors of the penalties on the way, largest first; none where the way is short."""
        if not self.alone or self.penalty is not None or not (penalty.l1 > 0).any():
            return []
        term, beta = self.term, self.point.beta[:, :1]
        l1 = penalty.l1[:, :1]
        urgency = np.where(l1 > 0, np.abs(self.gradients() + penalty.l2[:, :1] * beta), 0.0)
        urgency = urgency / np.where(l1 > 0, l1, 1.0)
        if np.count_nonzero(urgency > 1) < MANY:
            return []
        if term.p <= 3 * MANY:  # most will be in: the rest costs less than a search
            term.join(np.arange(term.p))
            self.shared.forget()
            return []
        return on_the_way(float(urgency.max()))

    def _descend(
        self,
        penalty: Penalty,
        tol: float,
        max_iter: int,
        callback: Callback | None,
        complete: bool,
        factor: float = 1.0,
    ) -> None:
        """Take steps until each replicate's certificate is at or below ``tol``."""
        self.penalty, point, self._here = penalty, self.point, None
        # Replicates that share a Hessian differ in their factors: no ridge is that of all.
        self.shared.ridge = penalty.l2[:, 0] if self.alone else None
        point.objective = self.term.loss + penalty.value(point.beta[self.term.W], self.term.W)
        run = Run(tol, complete, self.term.lanes)
        if point.gradients is not None:
            self._admit(run)  # who is missing is known without another look
        while True:
            violation, unit = self._violation()
            todo = (violation > run.aim) & ~run.stuck
            last = run.steps == max_iter
            if not last and not todo.any() and self._stale_units(run):
                continue
            if not todo.any() or last:
                added = self._look(run)
                if last or (run.complete and not added):
                    return
                self._next_level(run, added)
                if added:
                    run.rates.reset()
                    run.stuck[:] = False
                continue
            if callback is not None:
                callback(int(point.steps.max()), float(violation.max()))
            if self.trace is not None:
                nonzero = int(np.count_nonzero(point.beta[:, 0]))
                now = float(point.objective[0]), float(violation[0])
                self.trace.record(*now, len(self.term.W), nonzero, self.shared.count, factor)
            self._renew(run, violation, todo)
            self._step(run, violation, unit, todo)
            run.steps += 1

    def _next_level(self, run: Run, added: bool) -> None:
        """How far to go before the next look, after one that found missing columns or none."""
        if run.complete or self._left_out:
            run.complete = run.complete and not self._left_out
            return
        if added and self.alone:
            run.level = min(run.level + 1, len(EARLY_LOOKS) - 1)
        else:
            run.complete = True
        if run.tol < LOOSE:  # the last penalty is in sight
            self.thinner = 0 if self.shared.known else 1

    def _step(self, run: Run, violation: np.ndarray, unit: np.ndarray, todo: np.ndarray) -> None:
        """Propose, search, commit; and take note of those whose step failed."""
        assert self.penalty is not None
        term, point, penalty = self.term, self.point, self.penalty
        reach = run.rates.reach(violation, run.fresh)
        run.rates.record(violation, todo, run.fresh)
        # A shared Hessian bounds the rate at which the steps contract; solving the models more
        # exactly than that would be in vain. A single fit's Hessian improves as it goes.
        share = DEAR_SHARE if len(term.W) > DEAR and term.B > 1 else 0.1
        if term.B == 1 and run.near and not self.shared.thinned:
            share = reach
        tolerance = np.maximum(share * violation, 0.3 * run.aim)
        curvatures = self._curvatures()
        proposal = propose(term, point, penalty, curvatures, run.damping, todo, unit, tolerance)
        trial, t = search(term, point, penalty, proposal, todo)
        commit(term, point, penalty, proposal, trial, t, curvatures)
        point.steps += todo
        moved = t > 0
        failed = todo & ~moved
        run.idle = not moved.any()
        run.damping.moved(moved)
        run.damping.stepped(proposal.held, t)
        self._moved |= not run.idle
        if failed.any():
            if run.fresh:
                run.stuck |= run.damping.hopeless(failed)
                run.damping.failed(failed)
            else:
                self._compute(int(np.flatnonzero(failed)[0]), self._rough)
                run.fresh = True

    def response(self, l1: np.ndarray, l2: np.ndarray) -> Response:
        """How the points move on as penalties a little unlike those of the last fit move optima.

        They are as `solve` takes them.
        """
        assert self.penalty is not None
        then = Penalty.of(l1, l2, self.term.scale, self.term.B, self.term.lanes)
        _, unit = self._violation()
        self._moved = True
        return Response(self.term, self.point, self.penalty, then, self._curvatures(), unit)

    # -- the working set -------------------------------------------------------------------------

    def _violation(self) -> tuple[np.ndarray, np.ndarray]:
        """Largest violation within W for each lane, and the units of W."""
        assert self.penalty is not None
        term, W = self.term, self.term.W
        self._have_diagonal()
        l1, l2 = self.penalty.l1[W], self.penalty.l2[W]
        unit = units(l1, smaller(self._score_variance, self._here))
        v = violations(term.gradient(), self.point.beta[W], l1, l2) / unit
        return np.maximum(v.max(axis=0, initial=0.0), term.unsettled), unit

    def _stale_units(self, run: Run) -> bool:
        """Whether replicates are not yet at the aim in the units of where they are.

        Single fits are certified by themselves.
        """
        if self.alone or self._lasso or not len(self.term.W):
            return False
        self._here = variances_here(self.term)
        return bool(((self._violation()[0] > run.aim) & ~run.stuck).any())

    def _look(self, run: Run) -> bool:
        """Compute the certificate over all columns; let violators in and say if any did."""
        assert self.penalty is not None
        if self.point.gradients is None:
            self.point.gradients = self.term.gradients(run.tol)
        v = violations(self.point.gradients, self.point.beta, self.penalty.l1, self.penalty.l2)
        unit = np.where(self.penalty.l1 > 0, self.penalty.l1, 1.0)
        W = self.term.W
        if len(W):
            self._have_diagonal()
            unit[W] = units(self.penalty.l1[W], smaller(self._score_variance, self._here))
        self.certificate = np.maximum((v / unit).max(axis=0, initial=0.0), self.term.unsettled)
        added = self._join_urgent(v / unit, run.tol)
        self.surprised |= added
        return self._readmit(run.tol) or added

    def _readmit(self, tol: float) -> bool:
        """Let nuisance parameters in that should leave their bounds, and say if any did."""
        assert self.penalty is not None
        back, W = self.term.readmit(tol), self.term.W
        if not back.any():
            return False
        self.certificate[back] = np.inf
        self.point.objective = self.term.loss + self.penalty.value(self.point.beta[W], W)
        self.point.gradients = None
        return True

    def _admit(self, run: Run) -> None:
        """Let violators in before the first step, where the gradients are known."""
        assert self.penalty is not None
        assert self.point.gradients is not None
        l1, l2 = self.penalty.l1, self.penalty.l2
        v = violations(self.point.gradients, self.point.beta, l1, l2)
        if self.alone:
            self.prune()
        self._join_urgent(v / np.where(l1 > 0, l1, 1.0), run.tol)

    def _join_urgent(self, urgency: np.ndarray, tol: float) -> bool:
        outside = np.where(self.term.inside, 0.0, urgency.max(axis=1, initial=0.0))
        outside[outside <= tol] = 0.0
        chosen = most_urgent(outside, len(self.term.W))
        self._left_out = len(chosen) < int(np.count_nonzero(outside))
        if len(chosen) > RENEWED * len(self.term.W):
            self.shared.forget()
        return self.term.join(chosen) > 0

    def prune(self) -> None:
        """Let columns go that are zero and not about to move."""
        assert self.penalty is not None
        W = self.term.W
        kept = idle(
            self.point.beta[W], self.term.gradient(), self.penalty.l1[W], self.penalty.l2[W]
        )
        if kept is not None:
            self.keep(kept)

    # -- curvature -------------------------------------------------------------------------------

    @property
    def _lasso(self) -> bool:
        return self.penalty is not None and self.penalty.lasso

    @property
    def _rough(self) -> bool:
        """Whether a Hessian may be rounded to single precision."""
        return in_single_precision(self.term, self._lasso)

    def _have_diagonal(self) -> None:
        """Let the shared Hessian be of the working set as it is, or at least its diagonal."""
        if self._wide():
            self.shared.forget()
        else:
            self.shared.follow(self.term, self._rough)
        if len(self.shared.h) != len(self.term.W):
            self._compute(max(self.curvature_of, 0) if self.alone else 0, self._rough)

    def _wide(self) -> bool:
        """Whether there are too many columns for a Gram matrix; models are by columns then."""
        penalty, W = self.penalty, self.term.W
        free = penalty is None or bool(np.count_nonzero(penalty.free[W]) > MANY_FREE * len(W))
        return too_wide(self.term, self._lasso or free, self.shared.grouped)

    def _compute(self, lane: int, rough: bool) -> None:
        """Compute the shared Hessian again, where a replicate is."""
        self.curvature_of = lane
        self.shared.forget()  # the curvature too, before there is the next
        thin = self._thin()
        at = self.term.curvature(lane, thin) if thin > 1 else None
        self.shared.thinned = at is not None
        self.thinner -= thin > 1
        if at is None:
            at = self.term.curvature(lane, coarse=not self._exact)
        assert at is not None
        self.shared.compute(self.term, at, lane, rough, matrix=not self._wide())
        self._moved = False
        self.own.clear()

    def _thin(self) -> int:
        """The rows of which one goes into the Hessian, 1 for all."""
        if self.thinner <= 0 or self.penalty is None:
            return 1
        return one_row_in(self.term, self.penalty)

    def _renew(self, run: Run, violation: np.ndarray, todo: np.ndarray) -> None:
        """See to the Hessians: keep the shared one, compute it again, or give some their own."""
        slow = run.rates.slow(violation, todo)
        if len(slow) and self.shared.known and violation.max(where=todo, initial=0.0) < LOOSE:
            self._exact = True
        settled = run.fresh and run.steps >= TO_SETTLE
        if settled and self.shared.thinned and run.rates.stand(violation, todo):
            self.thinner = 0  # the part of the rows has none of a rare column's ones, perhaps
            self.shared.forget()
        if self._wide() or (self.apart and self.shared.known):
            run.fresh = True  # each step takes each replicate's own diagonal, or there is no other
        elif (
            not self.shared.known
            or self._newton
            or (len(slow) and not run.fresh and self._worth_it(run, violation))
        ):
            worst = int(np.argmax(np.where(todo, violation, 0.0))) if self.term.B > 1 else 0
            self._compute(worst, self._rough)
            run.fresh = True
            run.renewed += 1
        elif (
            len(slow)
            and self.term.B > 1
            and run.fresh
            and run.may_differ(len(self.term.W), violation, todo)
        ):
            for b in slow:
                if b < self.term.B and b != self.curvature_of:
                    self.own[int(b)] = self.term.W.copy(), self._own_model(int(b))
            # The shared one is of a point that its replicate has left since.
            run.fresh = run.idle
        else:
            run.fresh = run.fresh and run.idle

    @property
    def _newton(self) -> bool:
        """Whether each step has a Hessian of its own, which costs little more than the step.

        Under an ℓ1 penalty it is not needed, and summed over groups of rows it takes as long again.
        """
        one = self.term.B == 1 and self._moved and not (self._lasso and self.shared.grouped)
        return one and self.term.hessian_cost(not self._exact) < CHEAP

    def _worth_it(self, run: Run, violation: np.ndarray) -> bool:
        if self.shared.thinned and run.steps < TO_SETTLE:
            return False
        cost = self.term.hessian_cost(not self._exact)
        patient = not self.alone and len(self.term.W) > DEAR
        return run.rates.worth_hessian(violation, run.tol, cost, patient)

    def _own_model(self, b: int) -> Quadratic:
        """The model with a replicate's own Hessian."""
        assert self.penalty is not None
        at = self.term.curvature(b, coarse=not self._exact)
        assert at is not None
        self.shared.count += 1
        G = at.matrix(rough=self._rough)
        G = self.shared.usable(self.term, at, G, self.penalty.l2[:, b])
        return Quadratic(G, self.penalty.free[self.term.W], self.term.pool)

    def _curvatures(self) -> Curvatures:
        k = len(self.term.W)
        own = {b: model for b, (W, model) in self.own.items() if np.array_equal(W, self.term.W)}
        sigma = np.ones((k, self.term.lanes)) if self._wide() else self._factors()
        return Curvatures(self.shared, sigma, self.bfgs, own, self._wide(), self.apart)

    def _factors(self) -> np.ndarray:
        """Factors σ with which a replicate's Hessian is diag(σ) G diag(σ), (k, lanes)."""
        if self._sigma is None or self._sigma[0] != self.shared.version:
            relative = None
            if self.term.B > 1 and self.shared.at is not None:
                relative = self.term.relative(self.shared.at)
            if relative is None:
                relative = np.broadcast_to(self._weights, (len(self.term.W), self.term.lanes))
            self._sigma = (self.shared.version, np.sqrt(relative))
        return self._sigma[1]

    @property
    def _weights(self) -> np.ndarray:
        """Row weight of each replicate relative to that of the shared Hessian, (lanes,)."""
        return np.where(self.term.total > 0, self.term.total / self.shared.weight, 1.0)

    @property
    def _score_variance(self) -> np.ndarray:
        """Variance of the score of each column of the working set, (k, lanes)."""
        own = self._factors() ** 2 if self.apart else self._weights
        h = self.shared.h if self._lasso else self.shared.information
        return h[:, None] * (own * self.term.dispersion)
