"""Cyclic coordinate descent as published, a small and independent check of the main solver.

Each coordinate in turn takes a one-dimensional Newton step with its exact gradient and Hessian. The
step is at most the half-width Δ_j of its trust region, which then becomes max(2|δ_j|, Δ_j/2). With
a Laplace prior, a coefficient may not cross zero in one step. Columns and the updates of the linear
predictor are sparse. The algorithm is serial, without screening and without a line search.

References
----------
Genkin, Lewis and Madigan (2007), Technometrics 49:291–304, §4.
Suchard, Simpson, Zorych, Ryan and Madigan (2013), ACM TOMACS 23:10, §3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from ..backends.cpu.descent import cyclic_descent_kernels as kernels
from ..design_matrix import Design
from ..design_matrix.column_storage import Block, DenseBlock, SparseBlock
from ..errors import DataError
from ..likelihoods import ConditionalPoissonLikelihood, CoxLikelihood
from .fit_result import Fit
from .fit_trace import FitTrace
from .optimality.optimality_certificate import units, violations

__all__ = ["solve_ccd"]

# A coefficient of a column of unit size has diverged beyond this value.
DIVERGED = 1e100
# Trust intervals Δ_j of columns of unit size begin with this half-width, as published.
INITIAL_HALF_WIDTH = 1.0

FAMILIES = {"linear": kernels.LINEAR, "logistic": kernels.LOGISTIC, "poisson": kernels.POISSON}


def solve_ccd(
    problem: Any,
    l1: np.ndarray,
    l2: np.ndarray,
    tol: float,
    max_iter: int,
    trace: FitTrace | None = None,
) -> Fit:
    """Fit one model by cyclic coordinate descent.

    Parameters
    ----------
    problem : steropes.fit.Problem
    l1, l2 : (p,) arrays
        λ and κ of all columns, in X's units.
    tol : float
        Largest KKT violation (`steropes.solve.optimality.optimality_certificate`) of all columns,
        by the likelihood's own gradient, at which the sweeps end.
    max_iter : int
        Sweeps over all coordinates.
    trace : FitTrace, optional
        Where the sweeps are recorded.

    Returns
    -------
    Fit
        ``n_iter`` counts sweeps.

    Raises
    ------
    DataError
        For likelihoods, entry times and devices that the algorithm is not defined for.
    """
    design, likelihood = problem.design, problem.likelihood
    backend = likelihood.backend
    if not backend.on_host:
        raise DataError("solver='ccd' runs on the CPU; use device='cpu' or solver='newton'.")
    if likelihood.ccd is None:
        raise DataError(
            f"solver='ccd' is not defined for {type(likelihood).__name__}; use solver='newton'."
        )
    order = slice(None) if likelihood.order is None else likelihood.order
    X = _columns(design)[order].tocsc()
    X.sort_indices()
    w = np.ascontiguousarray(problem.weights[order])
    offset = np.zeros(len(w)) if problem.offset is None else problem.offset[order]
    sweep = _sweeper(likelihood, X, w)
    bound = likelihood.weigh(w[:, None])
    l1, l2 = l1 / design.scale, l2 / design.scale**2
    beta, hessian = np.zeros(design.p), np.zeros(design.p)
    half_width = np.full(design.p, INITIAL_HALF_WIDTH)
    n_iter, optimality = 0, np.inf
    while True:
        eta = offset + X @ beta  # Recomputed to remove rounding errors of sparse updates.
        loss, r = likelihood.evaluate(eta[:, None], bound)
        if not (np.abs(beta) < DIVERGED).all() or np.isnan(loss[0]):
            raise DataError(
                f"solver='ccd' overflowed after {n_iter} sweeps: its steps have no line search. "
                "Use solver='newton'."
            )
        if n_iter:
            g = design.rmatmul(_in_rows_of_x(r, likelihood, design), backend)[:, 0]
            noise = likelihood.dispersion(loss[0], w.sum())
            v = violations(g, beta, l1, l2) / units(l1, hessian * noise)
            optimality = float(v.max(initial=0.0)) if np.isfinite(loss[0]) else np.inf
            if optimality <= tol or n_iter == max_iter:
                break
        if trace is not None:
            objective = float(loss[0] + _penalty(beta, l1, l2))
            trace.record(objective, optimality, design.p, int(np.count_nonzero(beta)), 0)
        sweep(eta, beta, l1, l2, half_width, hessian)
        n_iter += 1
    return Fit(
        beta=beta / design.scale,
        loss=float(loss[0]),
        objective=float(loss[0] + _penalty(beta, l1, l2)),
        optimality=optimality,
        tol=tol,
        n_iter=n_iter,
    )


def _penalty(beta: np.ndarray, l1: np.ndarray, l2: np.ndarray) -> float:
    """Return the penalty at β."""
    return float((l1 * np.abs(beta) + 0.5 * l2 * beta**2).sum())


def _columns(design: Design) -> sparse.csr_array:
    """Return the scaled columns of all blocks as one sparse matrix."""
    return sparse.hstack([_sparse(b) for b in design.blocks], format="csr")


def _sparse(block: Block) -> sparse.csc_array:
    """Return one block as a sparse matrix."""
    if isinstance(block, SparseBlock):
        data = block.data if block.data.size else np.ones(block.entries)
        return sparse.csc_array((data, block.indices, block.indptr), shape=(block.n, block.p))
    if isinstance(block, DenseBlock):
        return sparse.csc_array(block.values)
    return sparse.csc_array(np.ones((block.n, block.p)))


def _in_rows_of_x(r: np.ndarray, likelihood: Any, design: Design) -> np.ndarray:
    """Return residuals in the order of X's rows."""
    if likelihood.order is None:
        return r
    whole = np.zeros((design.n, 1))
    whole[likelihood.order] = r
    return whole


# A sweep over all columns, in place: η, β, λ, κ, half-widths of the trust regions, Hessian.
Sweep = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray], None]


def _sweeper(likelihood: Any, X: sparse.csc_array, w: np.ndarray) -> Sweep:
    """Return a function of (η, β, λ, κ, Δ, h) that performs one sweep in place."""
    if likelihood.ccd == "cox":
        return _cox_sweeper(likelihood, X, w)
    if likelihood.ccd == "strata":
        return _strata_sweeper(likelihood, X, w)
    family = FAMILIES[likelihood.ccd]
    y = np.ascontiguousarray(likelihood.y[:, 0])

    def sweep(
        eta: np.ndarray,
        beta: np.ndarray,
        l1: np.ndarray,
        l2: np.ndarray,
        half_width: np.ndarray,
        hessian: np.ndarray,
    ) -> None:
        """Update every coefficient once, for rows that are independent given X."""
        kernels.sweep(
            family, X.indptr, X.indices, X.data, y, w, eta, beta, l1, l2, half_width, hessian
        )

    return sweep


def _strata_sweeper(
    likelihood: ConditionalPoissonLikelihood, X: sparse.csc_array, w: np.ndarray
) -> Sweep:
    """Return the sweep of a conditional Poisson model."""
    start = likelihood.pointers
    stratum = np.repeat(np.arange(len(start) - 1), np.diff(start))
    wy = np.zeros(len(w))
    wy[likelihood.rows] = w[likelihood.rows] * likelihood.y[:, 0]
    total, linear = np.add.reduceat(wy, start[:-1]), X.T @ wy

    def sweep(
        eta: np.ndarray,
        beta: np.ndarray,
        l1: np.ndarray,
        l2: np.ndarray,
        half_width: np.ndarray,
        hessian: np.ndarray,
    ) -> None:
        """Update every coefficient once, for conditional likelihoods of strata."""
        kernels.strata_sweep(
            X.indptr, X.indices, X.data, stratum, start, total, w, eta, linear,
            beta, l1, l2, half_width, hessian,
        )  # fmt: skip

    return sweep


def _cox_sweeper(likelihood: CoxLikelihood, X: sparse.csc_array, w: np.ndarray) -> Sweep:
    """Return the sweep of Cox's model."""
    if likelihood.entry is not None:
        raise DataError(
            "solver='ccd' is not defined for entry times: its risk-set sums only ever grow as "
            "time runs back. Use solver='newton'."
        )
    time, event = likelihood.time, likelihood.event
    stratum = np.ascontiguousarray(likelihood.stratum)
    efron = likelihood.ties == "efron"
    n, S = len(time), int(stratum[-1]) + 1
    start = np.searchsorted(stratum, np.arange(S + 1))
    at = np.flatnonzero(event)
    new = np.ones(len(at), bool)
    new[1:] = (np.diff(time[at]) != 0) | (np.diff(stratum[at]) != 0)
    first = at[new]  # Tied events of a group are adjacent.
    group = np.cumsum(new) - 1
    stop = first + np.bincount(group)
    groups = np.searchsorted(stratum[first], np.arange(S + 1))
    next_group = np.minimum(np.searchsorted(stop, np.arange(n), side="right"), groups[stratum + 1])
    total = np.bincount(group, w[at])
    counted = np.bincount(group, w[at] > 0).astype(np.int64)
    shares = counted if efron else (total > 0).astype(np.int64)
    weight = total / np.maximum(shares, 1)
    linear = X.T @ (w * event)
    shift, r = np.empty(S), np.empty(n)
    N, E = np.empty(len(first)), np.empty(len(first))

    def sweep(
        eta: np.ndarray,
        beta: np.ndarray,
        l1: np.ndarray,
        l2: np.ndarray,
        half_width: np.ndarray,
        hessian: np.ndarray,
    ) -> None:
        """Update every coefficient once, for Cox's likelihood."""
        kernels.cox_state(start, groups, first, stop, w, eta, shift, r, N, E)
        kernels.cox_sweep(
            X.indptr, X.indices, X.data, stratum, start, groups, first, stop, next_group, shares,
            weight, efron, w, eta, shift, r, N, E, linear, beta, l1, l2, half_width, hessian,
        )  # fmt: skip

    return sweep
