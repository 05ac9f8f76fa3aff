"""Proximal Newton for a batch of replicates that share X, and mostly the curvature too.

The working set W holds every column that has been nonzero, every column without penalty and
those that the sequential strong rule (Tibshirani and others 2012) expects to enter; all other
columns are only looked at when W is solved, and join it if they violate the KKT conditions.
Each step minimises a quadratic model with the exact gradient of each replicate and one shared
Hessian of W, followed by a line search. What a replicate's gradients say of its own Hessian is
kept as BFGS terms beside the shared one, which is computed again where all that contracts badly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..design.face import DesignLike
from ..likelihoods import Likelihood
from .certificate import units, violations
from .damping import damping
from .fit import Fit
from .learned import Learned
from .quadratic import LowRank, Quadratic
from .thinning import enough, thinned, thinning
from .working import WorkingSet

__all__ = ["Batch"]

ADD_AT_ONCE = 1500  # columns that may join W in one round, or as many as W has
GOOD = 0.3  # contraction of the KKT violation below which a Hessian is kept
ARMIJO = 1e-4
ROUGH = 0.3  # KKT violation that will do for a look at which columns are missing
MANY = 0.05  # of the working set: new columns with which its Hessian is not worth extending
FREE_REACH = 5.0  # times `Likelihood.reach`: the furthest that a column without penalty goes
DAMPEST = 1e4  # of the curvature: damping with which a step that fails is the last
TO_SETTLE = 3  # steps with a thinned Hessian before a whole one, to be near the optimum
SINGLE = 1e-4  # of λ: the tolerance from which a look at all columns is in single precision
ROUNDING = 2e-14  # relative noise of a sum over rows


class Batch:
    """B replicates of one model: same X and outcome, other row weights or offsets.

    Parameters
    ----------
    design : Design
    likelihood : Likelihood
    weights : (n, B) or (n, 1) array
        Row weights of the replicates, in the rows of X.
    offset : (n, B) or (n, 1) array or None
        Added to the linear predictor.
    B : int
        Number of replicates.
    shared : WorkingSet, optional
        A working set and Hessian to share with other batches of the same model.
    """

    def __init__(
        self,
        design: DesignLike,
        likelihood: Likelihood,
        weights: np.ndarray,
        offset: np.ndarray | None = None,
        B: int = 1,
        shared: WorkingSet | None = None,
    ) -> None:
        self.design, self.likelihood = design, likelihood
        self.backend = backend = likelihood.backend
        self.B, self.lanes = B, backend.lanes(B)
        order = likelihood.order
        self.order = order
        take = (lambda x: x) if order is None else (lambda x: x[order])
        weights = np.asarray(weights, np.float64)
        if order is not None and weights.shape[1] == 1 and np.ptp(weights) == 0:
            weights = weights[: len(order)]  # all the same: a view of as many will do
        else:
            weights = take(weights)
        w = self._in_lanes(weights)
        self.weight_sum = w.sum(axis=0)
        self.w = backend.asarray(w)
        self.bound = likelihood.weigh(self.w)
        self.offset = np.zeros((1, 1))
        if offset is not None:
            self.offset = self._in_lanes(likelihood.lift(take(np.asarray(offset, np.float64))))
        self.offset = backend.asarray(self.offset)
        self.work = WorkingSet(design, order, backend) if shared is None else shared
        self._thinned = False  # whether the Hessian is of a part of the rows
        self._alone = B == 1 and shared is None
        self.own: dict[int, Quadratic] = {}  # Hessians of replicates that the shared one fails
        self.beta = np.zeros((design.p, self.lanes))
        self.l1 = np.full((design.p, self.lanes), np.inf)
        self.steps = np.zeros(self.lanes, np.int64)
        self.damp = np.zeros(self.lanes)  # see `damping`
        self.surprised = False  # whether columns were missing from the working set
        self._sigma: tuple[int, np.ndarray] | None = None
        self.learned = Learned()
        self.curvature_of = -1  # the replicate whose curvature the Hessian is
        self._restart()

    # -- state ---------------------------------------------------------------------------

    def _in_lanes(self, x: np.ndarray) -> np.ndarray:
        """One column a lane, the lanes without a replicate zero; a single one is not copied."""
        if self.lanes == 1:
            return np.ascontiguousarray(x)
        out = np.zeros((len(x), self.lanes))
        out[:, : self.B] = x
        return out

    def set_beta(self, beta: np.ndarray) -> None:
        """Start from these coefficients, (p, B), in the scaled columns."""
        self.beta[:, : self.B] = beta
        self.work.join(np.flatnonzero(self.beta.any(axis=1)))
        self._restart()

    def _restart(self) -> None:
        self.eta = self.backend.xp.zeros((self.likelihood.n_eta, self.lanes))
        self.eta += self.offset
        if self.work.k:
            self.eta += self.work.rows.matmul(self.backend.asarray(self.beta[self.work.W]))
        loss, self.r = self.likelihood.evaluate(self.eta, self.bound)
        self.loss = self.backend.to_host(loss)
        self._gW: Any = None
        self.g: Any = None

    @property
    def gW(self) -> np.ndarray:
        """Gradient of the loss over the working set, (k, lanes)."""
        if self._gW is None or len(self._gW) != self.work.k:
            self._gW = self.backend.to_host(self.work.rows.rmatmul(self.r))
        return self._gW

    @property
    def scale(self) -> np.ndarray:
        """Curvature of each replicate relative to the shared Hessian's, (lanes,)."""
        return np.where(self.weight_sum > 0, self.weight_sum / self.work.weight, 1.0)

    @property
    def dispersion(self) -> Any:
        """See `Likelihood.dispersion`."""
        return self.likelihood.dispersion(self.loss, self.weight_sum)

    @property
    def _score_variance(self) -> np.ndarray:
        """Variance of the score of each column of the working set, (k, lanes)."""
        return self.work.h[:, None] * (self.scale * self.dispersion)

    @property
    def sigma(self) -> np.ndarray:
        """Factors σ with which a replicate's Hessian is diag(σ) G diag(σ), (k, lanes)."""
        if self._sigma is None or self._sigma[0] != self.work.version:
            relative = None if self.B == 1 else self.work.relative_diagonal(self.w)
            if relative is None:
                relative = np.broadcast_to(self.scale, (self.work.k, self.lanes))
            self._sigma = (self.work.version, np.sqrt(relative))
        return self._sigma[1]

    @property
    def _free(self) -> np.ndarray:
        """Columns of the working set without any penalty, (k,)."""
        W = self.work.W
        return np.logical_not(np.logical_or(self.l1[W].any(axis=1), self.l2[W].any(axis=1)))

    def prepare(self, columns: np.ndarray) -> None:
        """Let columns into the working set and compute the Hessian at the start."""
        self.work.join(columns)
        if len(self.work.h) != self.work.k:
            self._refresh(0)

    def refresh(self) -> None:
        """Compute the shared Hessian at this batch's first replicate as it stands."""
        self._refresh(0)

    def full_gradient(self, tol: float = 0.0) -> np.ndarray:
        """Gradient of the loss for all p columns, (p, lanes), in the scaled columns.

        Several replicates' residuals do not stay in the cache. Where they are read in single
        precision (outside of the working set, whose gradient is exact) half as much is fetched;
        that is when ``tol``, the violation of interest, is a thousand times the rounding.
        """
        g = np.empty((self.design.p, self.lanes))
        g[self.work.W] = self.gW
        outside = np.flatnonzero(~self.work.inside)
        if len(outside) == 0:
            return g
        r, xp = self.r, self.backend.xp
        single = self.lanes >= 8 and tol >= SINGLE and self.backend.single_precision_sums
        dtype = np.float32 if single else np.float64
        if self.order is not None:
            whole = xp.zeros((self.design.n, self.lanes), dtype)
            whole[self.order] = r
            r = whole
        r = xp.asarray(r, dtype)
        g[outside] = self.backend.to_host(self.design.rmatmul(r, self.backend, outside))
        return g

    # -- the driver ------------------------------------------------------------------------

    def solve(
        self,
        l1: np.ndarray,
        l2: np.ndarray,
        tol: float = 1e-8,
        max_iter: int = 200,
        callback: Callable[[int, float], None] | None = None,
        look: str = "before",
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
        look : {"before", "during", "after"}
            When all columns are looked at for those that are missing from the working set, apart
            from the look at the end that the certificate is from: before the fit, or when it is
            under way and where it leads is clearer; "after" leaves it at the one at the end.
        """
        l1, l2 = self._scaled(l1, 1), self._scaled(l2, 2)
        self._left_out = False
        self.work.rough = bool((l1 > 0).any())
        self.steps[:] = 0
        if look == "before":
            self._screen(l1, l2, tol)
        else:
            self.work.join(np.flatnonzero((l1 == 0).any(axis=1)))
        self.l1, self.l2 = l1, l2
        self.objective = self.loss + self._penalty(self.beta)
        last = np.full(self.lanes, np.inf)
        before = last.copy()
        stuck = np.zeros(self.lanes, bool)
        fresh = idle = False
        self.damp[:] = 0.0
        complete = look != "during" and not self._left_out
        self.surprised = False
        for iteration in range(max_iter + 1):
            kkt, unit = self._working_kkt()
            aim = tol if complete else max(tol, ROUGH)
            todo = (kkt > aim) & ~stuck
            if not todo.any() or iteration == max_iter:
                added = self._check_all(tol)
                self.surprised |= added
                if iteration == max_iter or (complete and not added):
                    break
                complete = not self._left_out
                if added:
                    last[:] = before[:] = np.inf
                    stuck[:] = False
                kkt, unit = self._working_kkt()
                todo = kkt > (tol if complete else max(tol, ROUGH))
                if not todo.any():
                    continue
            if callback is not None:
                callback(iteration, float(kkt.max()))
            ratio = kkt[todo] / last[todo]
            slow = np.flatnonzero(todo)[ratio > GOOD]
            if self.work.wide:
                fresh = True  # each step takes each replicate's own diagonal
            elif not self.work.has_hessian or (
                len(slow) and not fresh and self._worth_it(kkt, last, before, tol)
            ):
                self._refresh(int(np.argmax(np.where(todo, kkt, 0.0))) if self.B > 1 else 0)
                fresh = True
            elif len(slow) and self.B > 1 and fresh:
                for b in slow:
                    if b < self.B and b != self.curvature_of:
                        self.own[b] = self._own_model(b)
            else:
                fresh = fresh and idle
            before = np.full(self.lanes, np.inf) if fresh else np.where(todo, last, before)
            last = np.where(todo, kkt, last)
            moved = self._step(todo, kkt, unit, tol)
            failed = todo & ~moved
            idle = not moved.any()
            self.damp[moved] *= np.where(self.damp[moved] > 0.1, 0.1, 0.0)
            if failed.any():
                if fresh:
                    stuck |= failed & (self.damp >= DAMPEST)
                    self.damp[failed] = np.maximum(1.0, 10 * self.damp[failed])
                else:
                    self._refresh(int(np.flatnonzero(failed)[0]))
                    fresh = True
        return self._fits(tol)

    def _scaled(self, penalty: np.ndarray, power: int) -> np.ndarray:
        penalty = np.asarray(penalty, np.float64)
        if penalty.ndim == 1:
            penalty = penalty[:, None]
        s = self.design.scale[:, None]
        scaled = penalty / s if power == 1 else penalty / s / s
        out = np.empty((self.design.p, self.lanes))
        out[:, : self.B] = scaled
        out[:, self.B :] = scaled[:, :1]
        return out

    def _penalty(self, beta: np.ndarray) -> np.ndarray:
        return (self.l1 * np.abs(beta) + 0.5 * self.l2 * beta**2).sum(axis=0)

    def _screen(self, l1: np.ndarray, l2: np.ndarray, tol: float) -> None:
        """Choose who joins W before the fit: no penalty, ridge alone, or the strong rule."""
        if self.g is None:
            self.g = self.full_gradient()
        slope = np.abs(self.g + l2 * self.beta)
        if np.isfinite(self.l1).all():
            threshold = 2 * l1 - self.l1
        else:
            threshold = l1
        must = ((l1 == 0) & (slope >= 0)).any(axis=1)
        expected = (slope > np.maximum(threshold, 0)).any(axis=1) & ~must
        expected[self.work.W] = False
        with np.errstate(divide="ignore", invalid="ignore"):
            urgency = np.where(expected, (slope / l1).max(axis=1), 0.0)
        chosen = self._most_urgent(urgency)
        if 2 * (len(chosen) + self.work.k) > self.design.p and self.design.p <= ADD_AT_ONCE:
            chosen = np.arange(self.design.p)  # most are in: the rest costs less than a search
        self._left_out = len(chosen) < int(expected.sum())
        new = np.count_nonzero(~self.work.inside[chosen])
        if self.work.has_hessian and new > MANY * self.work.k:
            if np.isfinite(self.l1).all():
                self._advance(l1, l2, tol)
            self.work.forget()
        self.work.join(np.concatenate([np.flatnonzero(must), chosen]))

    def _advance(self, l1: np.ndarray, l2: np.ndarray, tol: float) -> None:
        """Go along the path on the old columns with the old Hessian.

        The Hessian of the larger working set is then computed once, near where the path leads,
        instead of being extended here and computed again there.
        """
        self.l1, self.l2 = l1, l2
        self.objective = self.loss + self._penalty(self.beta)
        kkt, unit = self._working_kkt()
        if (kkt > tol).any():
            self._step(kkt > tol, kkt, unit, tol)

    def _most_urgent(self, urgency: np.ndarray) -> np.ndarray:
        limit = max(ADD_AT_ONCE, self.work.k)
        wanted = np.flatnonzero(urgency > 0)
        if len(wanted) > limit:
            wanted = wanted[np.argsort(-urgency[wanted], kind="stable")[:limit]]
        return np.sort(wanted)

    def _working_kkt(self) -> tuple[np.ndarray, np.ndarray]:
        """Largest violation within W for each lane, and the units of W."""
        W = self.work.W
        if len(W) == 0:
            return np.zeros(self.lanes), np.ones((0, self.lanes))
        if len(self.work.h) != self.work.k:
            self._refresh(0)
        unit = units(self.l1[W], self._score_variance)
        v = violations(self.gW, self.beta[W], self.l1[W], self.l2[W]) / unit
        return v.max(axis=0), unit

    def _check_all(self, tol: float) -> bool:
        """Compute the certificate over all columns; let violators into W and say if any did."""
        self.g = self.full_gradient(tol)
        W = self.work.W
        v = violations(self.g, self.beta, self.l1, self.l2)
        unit = np.where(self.l1 > 0, self.l1, 1.0)
        if len(W):
            unit[W] = units(self.l1[W], self._score_variance)
        self.certificate = (v / unit).max(axis=0, initial=0.0)
        urgency = np.where(~self.work.inside, (v / unit).max(axis=1), 0.0)
        urgency[urgency <= tol] = 0.0
        chosen = self._most_urgent(urgency)
        self._left_out = len(chosen) < int(np.count_nonzero(urgency))
        self.work.join(chosen)
        return len(chosen) > 0

    # -- curvature ---------------------------------------------------------------------------

    def _lane(self, b: int, thin: int = 1) -> Any:
        """The likelihood's curvature of one replicate at its own point, by 1/thin of the rows."""
        w = self.w[:, b : b + 1]
        if thin > 1:
            w = thinned(w, thin, self.backend)
        bound = self.likelihood.weigh(w) if self.lanes > 1 or thin > 1 else self.bound
        return self.likelihood.curvature(self.eta[:, b : b + 1], bound)

    def _refresh(self, b: int) -> None:
        """Compute the shared Hessian again, at replicate b."""
        self.curvature_of = b
        self.work.forget()  # the curvature too, before there is the next
        thin = 1
        if (
            self._alone
            and not self.beta.any()
            and not self.steps.any()
            and (self.l1[self.work.W].any())
        ):
            thin = thinning(self.work.rows, self.likelihood.evidence)
        curvature = self._lane(b, thin)
        self._thinned = thin > 1 and enough(curvature.v, self.work.k)
        if thin > 1 and not self._thinned:
            curvature = self._lane(b)
        self.work.refresh(curvature, self.w[:, b], float(self.weight_sum[b]))
        self.own.clear()

    def _own_model(self, b: int) -> Quadratic:
        """The model with a replicate's own Hessian."""
        return Quadratic(self.work.hessian(self._lane(b)), self._free, self.backend.pool)

    def _worth_it(self, kkt: np.ndarray, last: np.ndarray, before: np.ndarray, tol: float) -> bool:
        """Whether a new Hessian costs less than the steps it is likely to save.

        ``last`` and ``before`` are the violations one and two steps ago: a single step tells
        little of the rate.
        """
        live = np.isfinite(last) & (kkt > tol)
        if not live.any() or (self._thinned and self.steps.max() < TO_SETTLE):
            return False
        rate = kkt[live] / last[live]
        if rate.max() >= 0.9:
            return True
        both = np.isfinite(before[live])
        rate = float(np.where(both, np.sqrt(kkt[live] / before[live]), rate).max())
        if not 0 < rate < 0.9:
            return rate > 0
        left = np.log(tol / kkt[live].max())
        saved = left / np.log(rate) - left / np.log(0.1)
        rows = self.work.rows
        lines = rows.lines
        per_row = lines.nnz / max(rows.n, 1) if lines is not None else 1.0
        cost = per_row / (10.0 * (0.5 + 0.2 * self.lanes)) + 1.0  # a Hessian's, in steps
        return saved > cost

    # -- one step ------------------------------------------------------------------------------

    def _step(self, todo, kkt, unit, tol) -> np.ndarray:
        """Model minimum, line search, update; returns which replicates moved."""
        W, k = self.work.W, self.work.k
        beta = self.beta[W]
        l1, l2 = self.l1[W], self.l2[W]

        D = np.zeros((k, self.lanes))
        # A shared Hessian bounds the rate at which the steps contract; solving the models more
        # exactly than that would be in vain. A single fit's Hessian improves as it goes.
        share = 0.02 if self.B == 1 else 0.1
        tolerance = np.maximum(share * kkt, 0.3 * tol)
        live = [b for b in range(self.B) if todo[b]]
        shared: list[int] = []

        def minimum(model: Quadratic, sigma: Any, lanes: list[int], low: LowRank | None) -> Any:
            h = model.diagonal(sigma[:, lanes], low)
            g, b, first, second = (x[:, lanes] for x in (self.gW, beta, l1, l2))
            mu = damping(h, g, b, first, second, self.likelihood.reach, self.damp[lanes])
            if mu is not None:
                mu[model.f] = 0.0  # their coordinates are others
            if mu is not None:  # ½ μ d² as a ridge: ½ μ (β + d)² − μ β d
                g, second = g - mu * b, second + mu
            return model.minimize(
                sigma[:, lanes], g, b, first, second, unit[:, lanes], tolerance[lanes], low
            )

        if self.work.wide:
            steps = self.backend.pool.map(
                lambda b: self._by_columns(
                    b, beta[:, b], l1[:, b], l2[:, b], unit[:, b], tolerance[b]
                ),
                [(b,) for b in live],
            )
            D[:, live] = np.stack(steps, axis=1)
        else:
            own = [b for b in live if b in self.own and len(self.own[b].G) == k]
            shared = [b for b in live if b not in own]
            for b in own:
                D[:, [b]] = minimum(self.own[b], np.ones((k, self.lanes)), [b], None)
            if shared:
                model = self.work.model(self._free)
                low = self.learned.terms(self.work.version, model, self.sigma)
                D[:, shared] = minimum(model, self.sigma, shared, low.lanes(shared))
        furthest = np.abs(D[self._free]).max(axis=0, initial=0.0)
        limit = FREE_REACH * self.likelihood.reach
        if (furthest > limit).any():  # an intercept that starts far off
            D *= np.minimum(1.0, limit / np.maximum(furthest, limit))
        slope = (self.gW * D).sum(axis=0) + (
            l1 * (np.abs(beta + D) - np.abs(beta)) + l2 * (beta * D + 0.5 * D**2)
        ).sum(axis=0)
        d_eta = self.work.rows.matmul(self.backend.asarray(D))
        self.r = None  # as large as the predictors, and of no more use
        t = np.where(todo, 1.0, 0.0)
        waiting = todo.copy()
        slack = ROUNDING * (np.abs(self.objective) + self.weight_sum * self.dispersion)
        for attempt in range(40):
            # Replicates that are done have no step: t only matters once a step was halved.
            # (NumPy is slow at a product with a short row, n times.)
            trial = self.eta + (d_eta if attempt == 0 else d_eta * self.backend.asarray(t))
            loss, r = self.likelihood.evaluate(trial, self.bound)
            host = self.backend.to_host(loss)
            now = beta + t * D
            penalty = (l1 * np.abs(now) + 0.5 * l2 * now**2).sum(axis=0)
            gain = host + penalty
            good = gain <= self.objective + ARMIJO * t * np.minimum(slope, 0.0) + slack
            waiting &= ~(good & np.isfinite(host))
            if not waiting.any():
                break
            t[waiting] *= 0.5
        t[waiting] = 0.0
        if waiting.any():  # no descent along the model's step: those stay where they are
            trial = self.eta + d_eta * self.backend.asarray(t)
            loss, r = self.likelihood.evaluate(trial, self.bound)
            now = beta + t * D
            host = self.backend.to_host(loss)
            gain = host + (l1 * np.abs(now) + 0.5 * l2 * now**2).sum(axis=0)
        # A coefficient that the model put at zero is at zero exactly.
        now[(t == 1.0) & (beta + D == 0.0)] = 0.0
        old = self.gW
        self.beta[W] = now
        self.eta, self.loss, self.r, self.objective = trial, host, r, gain
        self._gW = None
        self.steps += todo
        lanes = [b for b in shared if t[b] > 0]
        if lanes and l1.any():
            self.learned.learn(self.work.version, t * D, self.gW - old, lanes)
        return (t > 0) & todo

    def _by_columns(self, b, beta, l1, l2, unit, tolerance) -> np.ndarray:
        """Minimum of the model with the replicate's own diagonal curvature."""
        columns, own = self.work.columns, self._lane(b)
        v = self.backend.to_host(own.v)
        curvature = columns.curvature(v, own.grouped, self.backend)
        g = self.gW[:, b]
        mu = damping(curvature[3], g, beta, l1, l2, self.likelihood.reach, self.damp[b])
        if mu is not None:
            g, l2 = g - mu * beta, l2 + mu
        args = (g, beta, l1, l2, unit)
        return columns.minimize(curvature, *(np.ascontiguousarray(x) for x in args), tolerance)

    # -- results -------------------------------------------------------------------------------

    def _fits(self, tol: float) -> list[Fit]:
        return [
            Fit(
                beta=self.beta[:, b] / self.design.scale,
                loss=float(self.loss[b]),
                objective=float(self.objective[b]),
                optimality=float(self.certificate[b]),
                tol=tol,
                n_iter=int(self.steps[b]),
                n_hessian=self.work.n_hessian,
            )
            for b in range(self.B)
        ]
