"""Newton's method for (α, β) together: α is eliminated exactly, β is proximal.

Each step minimises the quadratic model of loss and penalty over both. With T the thresholds'
block and S = V − C'T⁻¹C, the step of β minimises the model with Hessian S and gradient
g_β − C'T⁻¹g_α, to which `minimize_quadratic` adds the prior, and Δα = −T⁻¹(g_α + C Δβ). A line
search along a path that keeps α increasing guarantees descent. Columns with a Laplace prior
stay out of the working set until the certificate over all columns calls for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..design import Design, RowMatrix
from ..likelihoods.cumulative import CumulativeLikelihood, Evaluation, Thresholds
from .certificate import units, violations
from .cumulative_block import Block, make_block
from .quadratic import minimize_quadratic

__all__ = ["CumulativeFit", "CumulativeNewton", "centered_rows"]

ARMIJO = 1e-4
ROUNDING = 2e-14  # relative noise of a sum over rows
ADD_AT_ONCE = 256
WIDE, MANY = 32, 5000  # columns and thresholds from which on steps pool the thresholds
SLOW = 0.3  # contraction of the certificate above which they no longer do
EMPTY = 1e-5  # difference of thresholds below which a level that still shrinks is dropped


@dataclass
class CumulativeFit:
    """Where the optimisation ended; coefficients of the design's scaled columns.

    Attributes
    ----------
    beta : (p,) array
    at : Thresholds
        α for the columns less ``center``.
    center : (p,) array
        What the optimisation subtracted from the scaled columns.
    loss, objective : float
        Negative log-likelihood, and with the penalty.
    optimality : float
        The largest of: violations of the KKT conditions over all p columns with α profiled
        out, in the units of `certificate.units`; and the thresholds' Newton decrement
        √(g_α'T⁻¹g_α), which bounds the distance of any function of α from its optimum in its
        own standard errors, over √K.
    n_iter : int
    """

    beta: np.ndarray
    at: Thresholds
    center: np.ndarray
    loss: float
    objective: float
    optimality: float
    tol: float
    n_iter: int

    @property
    def converged(self) -> bool:
        """Whether the certificate is at or below the tolerance."""
        return bool(self.optimality <= self.tol)


class CumulativeNewton:
    """One model's optimisation; calls of `solve` go on from where the last one ended.

    Parameters
    ----------
    design : Design
    likelihood : CumulativeLikelihood
    offset : (n,) array or None
        In the likelihood's row order.
    """

    def __init__(
        self, design: Design, likelihood: CumulativeLikelihood, offset: np.ndarray | None = None
    ) -> None:
        self.design, self.likelihood = design, likelihood
        self.backend = likelihood.backend
        self.offset = np.zeros(likelihood.n) if offset is None else offset
        self.beta = np.zeros(design.p)
        self.center = np.zeros(design.p)  # of the scaled columns, where they are dense
        self.at = likelihood.start(None if offset is None else offset)
        self.W = np.empty(0, np.int64)
        self.rows: Any = None  # a `RowMatrix` once columns have joined
        self.S: Any = None
        self.n_iter = 0
        self.eta = self.offset.copy()
        self.l1_last: np.ndarray | None = None
        self.stuck = False
        self._pool = True
        self._last: Any = None  # evaluation and block at the present point, if known
        self.droppable: np.ndarray | None = None  # levels that may end without mass, (M,) bool
        self.dropped: np.ndarray | None = None

    # -- state ---------------------------------------------------------------------------------

    def set(self, beta: np.ndarray, at: Thresholds) -> None:
        """Start from another model's end."""
        self.beta, self.at, self._last = beta.copy(), at, None
        self._join(np.flatnonzero(beta))
        self.eta = self.offset + self._matmul(beta[self.W])

    def _join(self, columns: np.ndarray) -> None:
        new = np.setdiff1d(columns, self.W)
        if len(new) or self.rows is None:
            self.W = np.concatenate([self.W, new])
            self.rows, self.center[self.W] = centered_rows(
                self.design, self.W, self.likelihood.levels.order, self.backend
            )
            self.S = None

    def _matmul(self, d: np.ndarray) -> np.ndarray:
        if len(d) == 0:
            return np.zeros(self.likelihood.n)
        return self.rows.matmul(d[:, None])[:, 0]

    def _rmatmul(self, r: np.ndarray) -> np.ndarray:
        """X' r over all p columns."""
        whole = np.zeros((self.design.n, 1))
        whole[self.likelihood.levels.order, 0] = r
        return self.design.rmatmul(whole, self.backend)[:, 0]

    def curvature(self, ev: Evaluation) -> tuple[Block, bool]:
        """The thresholds' block and whether it is the exact one."""
        block = make_block(self.likelihood, ev)
        if block is not None:
            return block, True
        block = make_block(self.likelihood, ev.clipped())
        if block is None:
            raise FloatingPointError("the curvature of the thresholds is not finite")
        return block, False

    def information(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """S over W, which ``columns`` join first, at the present point, and the diagonal of V."""
        self._join(columns)
        ev = self.likelihood.evaluate(self.at, self.eta)
        rows = self.rows
        assert rows is not None
        if not self._concave():  # columns are judged by a curvature that none can be without
            block = make_block(self.likelihood, ev.rectified())
            assert block is not None
            return block.schur(rows), rows.diagonal(block.v)
        block, _ = self.curvature(ev)
        self.S = self._schur(block)
        self._last = (ev, block)
        return self.S, rows.diagonal(block.v)

    # -- the driver ------------------------------------------------------------------------------

    def solve(
        self,
        l1: np.ndarray,
        l2: np.ndarray,
        tol: float = 1e-8,
        max_iter: int = 200,
        callback: Callable[[int, float], None] | None = None,
    ) -> CumulativeFit:
        """Fit with penalties λ and κ (p,) of the scaled columns."""
        self._join(np.flatnonzero((l1 == 0) | (self.beta != 0)))
        self._screened, self.dropped = False, None
        ev, block = self._last or (self.likelihood.evaluate(self.at, self.eta), None)
        fresh = self._last is not None and self.S is not None  # whether S is for this point
        self._last = None
        optimality, steps, last, before = np.inf, 0, np.inf, np.inf
        while True:
            block = self.curvature(ev)[0] if block is None else block
            g_alpha = -self.likelihood.to_thresholds(ev.la, ev.lb)
            t = block.solve(g_alpha)
            r = ev.s + block.project(t)  # the loss's derivative in η, α profiled out
            g = self._rmatmul(r) if len(self.W) < self.design.p else None  # else all are in W
            gW = self.rows.rmatmul(r[:, None])[:, 0]
            if g is not None and not self._screened:
                self._screen(g, l1, l2)
                gW = self.rows.rmatmul(r[:, None])[:, 0]
            alpha_part = float(np.sqrt(max(g_alpha @ t, 0.0) / self.likelihood.K))
            if self.S is None:
                self.S, fresh = self._schur(block), True
            optimality = self._violation(gW, l1, l2, g)
            inside = max(self._inside, alpha_part)
            optimality = max(optimality, alpha_part)
            if callback is not None:
                callback(steps, optimality)
            if inside <= tol:
                if g is None or optimality <= tol or not self._admit(g, l1, l2, tol):
                    break
                self.stuck, last, before = False, np.inf, np.inf
                continue
            if steps >= max_iter or (self.stuck and inside >= 0.5 * last):
                break
            if self._pool and inside < 1 and inside > SLOW * before:
                self._pool, self.S, fresh = False, None, False
            before = inside
            last = inside if self.stuck else last
            if not fresh:
                self.S = self._schur(block)
            fresh = False
            d = self._model_step(gW, l1, l2, block, inside, tol)
            ev, moved = self._move(ev, block, g_alpha, t, d, l1, l2)
            block = None
            steps += 1
            if not moved or self.dropped is not None:
                break
        self.n_iter += steps
        penalty = float((l1 * abs(self.beta) + 0.5 * l2 * self.beta**2).sum())
        self.l1_last = l1
        return CumulativeFit(
            self.beta.copy(), self.at, self.center.copy(), ev.loss, ev.loss + penalty,
            optimality, tol, self.n_iter,
        )  # fmt: skip

    def _schur(self, block: Block) -> np.ndarray:
        rows = self.rows
        if len(self.W) == 0 or rows is None:
            return np.zeros((0, 0))
        if self._pool and rows.lines is not None and rows.k >= WIDE and block.K > MANY:
            return block.pooled_schur(rows)
        return block.schur(rows)

    def _violation(
        self, gW: np.ndarray, l1: np.ndarray, l2: np.ndarray, g: np.ndarray | None
    ) -> float:
        W = self.W
        self._inside = 0.0
        if len(W):
            unit = units(l1[W], np.diag(self.S))
            v = violations(gW, self.beta[W], l1[W], l2[W]) / unit
            self._inside = float(v.max())
        if g is None:
            return self._inside
        outside = np.ones(len(l1), bool)
        outside[W] = False
        excess = np.maximum(np.abs(g[outside]) - l1[outside], 0.0) / l1[outside]
        return max(self._inside, float(excess.max(initial=0.0)))

    def _screen(self, g: np.ndarray, l1: np.ndarray, l2: np.ndarray) -> None:
        """The sequential strong rule: let in what is expected to leave zero."""
        self._screened = True
        threshold = l1 if self.l1_last is None else np.maximum(2 * l1 - self.l1_last, 0.0)
        self._join(self._urgent(g, l1, np.maximum(threshold, 1e-300)))

    def _admit(self, g: np.ndarray, l1: np.ndarray, l2: np.ndarray, tol: float) -> bool:
        """Let violators of the KKT conditions in; False where there are none."""
        before = len(self.W)
        self._join(self._urgent(g, l1, l1 * (1 + tol)))
        return len(self.W) > before

    def _urgent(self, g: np.ndarray, l1: np.ndarray, threshold: np.ndarray) -> np.ndarray:
        outside = np.ones(len(g), bool)
        outside[self.W] = False  # with all columns without penalty, whose threshold is zero
        size = np.divide(np.abs(g), threshold, out=np.zeros(len(g)), where=outside)
        chosen = np.flatnonzero(size > 1.0)
        limit = max(ADD_AT_ONCE, len(self.W))
        if len(chosen) > limit:
            chosen = np.sort(chosen[np.argsort(-size[chosen], kind="stable")[:limit]])
        return chosen

    # -- one step --------------------------------------------------------------------------------

    def _model_step(
        self, gW: np.ndarray, l1: np.ndarray, l2: np.ndarray, block: Any, inside: float, tol: float
    ) -> np.ndarray:
        W, S = self.W, self.S
        if len(W) == 0 or S is None:
            return np.zeros(0)
        low = float(np.linalg.eigvalsh(S / _outer_root(S))[0]) if not self._concave() else 1.0
        rows = self.rows
        if (
            low <= 1e-10 and rows is not None
        ):  # the Cauchy link far from an optimum: a curvature that is positive
            clipped = make_block(self.likelihood, block.ev.clipped())
            S = clipped.schur(rows) if clipped is not None else S
            S = S + np.diag(1e-10 * np.diag(S) + 1e-300)
        unit = units(l1[W], np.diag(S))
        tolerance = max(min(0.1, inside) * inside * 0.5, 0.1 * tol)
        return minimize_quadratic(
            np.ascontiguousarray(S), 1.0, gW, self.beta[W], l1[W], l2[W], unit, tolerance
        )

    def _concave(self) -> bool:
        return self.likelihood.link != "cauchit"

    def _move(
        self,
        ev: Evaluation,
        block: Any,
        g_alpha: np.ndarray,
        t: np.ndarray,
        d: np.ndarray,
        l1: np.ndarray,
        l2: np.ndarray,
    ) -> tuple[Evaluation, bool]:
        """Line search along the step; returns the evaluation at the end and whether it moved."""
        W, lik = self.W, self.likelihood
        beta = self.beta[W]
        d_eta = self._matmul(d)
        d_alpha = -(t + block.solve(block.cross_times(d_eta)))
        lam, kap = l1[W], l2[W]

        def penalty(b: np.ndarray) -> float:
            return float((lam * np.abs(b) + 0.5 * kap * b**2).sum())

        slope = float(g_alpha @ d_alpha + ev.s @ d_eta)
        slope += float((lam * (np.abs(beta + d) - np.abs(beta)) + kap * (beta * d)).sum())
        start = ev.loss + penalty(beta)
        slack = ROUNDING * (abs(start) + lik.weight_sum)
        step = 1.0
        for trial in range(50):
            at = self.at.moved(d_alpha, step)
            eta = self.eta + step * d_eta
            now = beta + step * d
            new = lik.evaluate(at, eta) if trial == 0 else None
            loss = new.loss if new is not None else lik.loss(at, eta)
            if np.isfinite(loss) and loss + penalty(now) <= (
                start + ARMIJO * step * min(slope, 0.0) + slack
            ):
                break
            step *= 0.5
        else:
            return ev, False
        now[(step == 1.0) & (beta + d == 0.0)] = 0.0
        gain = start - (loss + penalty(now))
        self.stuck = bool(abs(gain) <= slack)  # from here on rounding decides
        self.beta[W] = now
        if self.droppable is not None:
            shrinks = np.diff(d_alpha, prepend=0.0) < -0.3 * self.at.delta
            empty = np.flatnonzero(shrinks & (at.delta < EMPTY) & self.droppable[:-1])
            self.dropped = empty[empty > 0] if (empty > 0).any() else None
        self.at, self.eta = at, eta
        return (new if new is not None else lik.evaluate(at, eta)), True


def centered_rows(
    design: Design, columns: np.ndarray, order: np.ndarray, backend: Any
) -> tuple[RowMatrix, np.ndarray]:
    """Columns by rows, the dense ones less their means, and the means (k,).

    A shift of a column only shifts α; without it C'T⁻¹C is the difference of nearly equal
    numbers where a column's mean is large against its spread.
    """
    rows = RowMatrix(design, columns, order, backend)
    center = np.zeros(rows.k)
    if rows.dense is not None:
        m = rows.dense.mean(axis=0)
        rows.dense -= m
        spread = np.maximum(rows.dense.max(axis=0), -rows.dense.min(axis=0))
        rows.dense[:, spread < 1e-13 * np.abs(m)] = 0.0  # a constant column, up to rounding
        center[rows.dense_at] = m
    return rows, center


def _outer_root(S: np.ndarray) -> np.ndarray:
    root = np.sqrt(np.maximum(np.abs(np.diag(S)), 1e-300))
    return root[:, None] * root
