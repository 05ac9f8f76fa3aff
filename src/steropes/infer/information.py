"""The information matrix at a fit, its inverse, and the refusals where there is none."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from ..errors import SeparationError
from ..solve import Batch
from ..solve.curvature import hessian

__all__ = ["Information", "refuse_undetermined"]

COLLINEAR = 1e-10  # share of a column's information that the other columns leave it
FLAT = 1e-6  # information along a direction, relative to that at the start
FAR = 10.0  # how far to walk in η along a direction that looks flat
NAMED = 8  # columns listed in a message


class Information:
    """Hessian of the objective at the coefficients, for columns with a smooth penalty.

    Parameters
    ----------
    problem : steropes.select.problem.Problem
    beta : (p,) array
        Coefficients in X's units, the intercept first where there is one.
    l1, l2 : (p,) arrays
        Penalties in X's units.
    batch : Batch, optional
        The batch that was fitted: its rows and last Hessian then serve the look for separation.
    """

    def __init__(
        self,
        problem: Any,
        beta: np.ndarray,
        l1: np.ndarray,
        l2: np.ndarray,
        batch: Batch | None = None,
    ) -> None:
        self.scale = problem.design.scale
        self.center = problem.design.center
        self.n_free = problem.n_free
        self.names = problem.design.names
        self.smooth = l1 == 0
        self.penalised = l2 > 0
        self.likelihood = likelihood = problem.likelihood
        backend = likelihood.backend
        self.approximate: Any = None
        if batch is not None and batch.work.has_hessian:
            self.columns, self.rows = batch.work.W, batch.work.rows
            self.eta, self.weights = batch.eta, batch.bound
            self.approximate = batch.work.G
            self.kappa = (l2 / self.scale / self.scale)[self.columns]
            return
        self.columns = np.flatnonzero(self.smooth | (beta != 0))
        self.rows = problem.design.by_rows(self.columns, likelihood.order, backend)
        take = (lambda x: x) if likelihood.order is None else (lambda x: x[likelihood.order])
        self.beta = (beta * self.scale)[self.columns]
        eta = self.rows.matmul(backend.asarray(self.beta[:, None]))
        if problem.offset is not None:
            eta = eta + backend.asarray(likelihood.lift(take(problem.offset)[:, None]))
        self.eta = eta
        self.weights = likelihood.weigh(backend.asarray(take(problem.weights)[:, None]))
        self.kappa = (l2 / self.scale / self.scale)[self.columns]

    @cached_property
    def H(self) -> Any:
        """Exact Hessian of the loss over ``columns``, in the scaled columns."""
        return self._hessian(exact=True)

    def _hessian(self, exact: bool) -> Any:
        if not exact and self.approximate is not None:
            return self.approximate
        curvature = self.likelihood.curvature(self.eta, self.weights, exact=exact)
        return self.likelihood.backend.to_host(hessian(self.rows, curvature))

    def vcov(self) -> np.ndarray:
        """Inverse of the information, (p, p) in X's units; NaN where a Laplace prior acts."""
        p = len(self.scale)
        out = np.full((p, p), np.nan)
        if not self.smooth.all():
            return out
        H = self.H + np.diag(self.kappa)
        size = np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
        inverse = linalg.inv(H / size / size[:, None]) / size / size[:, None]
        T = np.diag(1.0 / self.scale)
        if self.n_free:  # the intercept at X = 0, not at the centres
            T[0, 1:] = -self.center[1:] / self.scale[1:]
        V = T @ inverse @ T.T
        return 0.5 * (V + V.T)

    def refuse_flat(self, problem: Any) -> None:
        """Raise `SeparationError` where the likelihood rises for ever along some direction.

        The direction with the least information, relative to that at β = 0, is walked in both
        senses: at a finite maximum the likelihood falls by the time the linear predictor has
        changed by ten; along a direction of separation it does not.
        """
        free = np.flatnonzero(self.smooth[self.columns] & (self.kappa == 0))
        if len(free) == 0:
            return
        likelihood, backend = problem.likelihood, problem.likelihood.backend
        start = backend.xp.zeros_like(self.eta)
        if problem.offset is not None:
            order = likelihood.order
            offset = problem.offset if order is None else problem.offset[order]
            start = start + backend.asarray(likelihood.lift(offset[:, None])) + problem.start
        spread = np.ptp(backend.to_host(self.eta - start)) if likelihood.shift_invariant else (
            np.abs(backend.to_host(self.eta - start)).max(initial=0.0)
        )  # fmt: skip
        H = self._hessian(exact=False)  # orders of magnitude are asked for, not digits
        h = np.diag(H)[free]
        first = likelihood.curvature(start, self.weights)
        h0 = backend.to_host(self.rows.diagonal(first.v))[free]
        h0 = np.where(h0 > 0, h0, 1.0)
        if spread < 12 and (h > 1e-4 * h0).all():
            return
        root = np.sqrt(h0)
        C = H[np.ix_(free, free)] / root / root[:, None]
        value, vector = linalg.eigh(C, subset_by_index=[0, 0])
        if value[0] > FLAT:
            return
        d = np.zeros((len(self.columns), 1))
        d[free, 0] = vector[:, 0] / root
        step = self.rows.matmul(backend.asarray(d))
        size = backend.to_host(step)
        reach = float(np.ptp(size) if likelihood.shift_invariant else abs(size).max())
        if reach == 0:
            return
        here = float(likelihood.loss(self.eta, self.weights)[0])
        slack = 1e-3 * float(problem.weights.max()) + 1e-9 * abs(here)
        for sense in (1.0, -1.0):
            there = likelihood.loss(self.eta + sense * FAR / reach * step, self.weights)
            if float(there[0]) <= here + slack:
                share = np.abs(self._in_users_units(d[:, 0])[free] * root)
                names = [
                    self.names[self.columns[free[j]]]
                    for j in np.argsort(-share, kind="stable")
                    if share[j] > 0.1 * share.max()
                ]
                raise SeparationError(
                    "The likelihood has no finite maximum: it keeps rising as the coefficients "
                    f"of {_listed(names)} go to infinity (the outcome is separated by them). "
                    "Drop or merge these columns, or give them a prior.",
                    names,
                )

    def _in_users_units(self, d: np.ndarray) -> np.ndarray:
        """The direction with the intercept at X = 0 instead of at the columns' centres."""
        if not self.n_free:
            return d
        out = d.copy()
        out[0] -= (self.center / self.scale)[self.columns] @ d
        return out


def refuse_undetermined(batch: Batch, names: list[str], l1: np.ndarray, l2: np.ndarray) -> None:
    """Raise `SeparationError` for columns without penalty that are zero or collinear.

    Looks at the Hessian at the start, which the fit needs anyway.
    """
    free = np.flatnonzero((l1 == 0) & (l2 == 0))
    if len(free) == 0:
        return
    batch.prepare(free)
    work = batch.work
    at = np.searchsorted(np.sort(work.W), free)
    at = np.argsort(work.W, kind="stable")[at]
    H = work.G[np.ix_(at, at)]
    raw = batch.backend.to_host(work.rows.diagonal(work.curvature.v))[at]
    h = np.diag(H)
    empty = ~(h > COLLINEAR * np.where(raw > 0, raw, 1.0)) | ~(raw > 0)
    if empty.any():
        bad = [names[j] for j in free[empty]]
        counted = int((batch.backend.to_host(batch.w)[:, 0] > 0).sum())
        raise SeparationError(
            f"The data say nothing about the coefficients of {_listed(bad)}: constant, or zero, "
            f"among the rows that count (n_samples = {counted}). Drop these columns or give them "
            "a prior.",
            bad,
        )
    size = np.sqrt(h)
    C = H / size / size[:, None]
    # Columns with little of their own are pivoted last, those at the end first among equals.
    _, pivot, rank, _ = linalg.lapack.dpstrf(C, tol=COLLINEAR, lower=1)
    if rank < len(free):
        pivot = pivot - 1
        loose, kept = pivot[rank:], pivot[:rank]
        bad = [names[free[j]] for j in sorted(loose)]
        weight = linalg.lstsq(C[np.ix_(kept, kept)], C[np.ix_(kept, loose)])[0]
        partner = kept[np.flatnonzero(np.abs(weight).max(axis=1) > 1e-6)]
        with_ = [names[free[j]] for j in sorted(partner)]
        raise SeparationError(
            f"Collinear columns: {_listed(bad)} can be written as a combination of "
            f"{_listed(with_) if with_ else 'other columns'}. Drop one or give them a prior.",
            bad,
        )


def _listed(names: list[str]) -> str:
    text = ", ".join(repr(s) for s in names[:NAMED])
    return text + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
