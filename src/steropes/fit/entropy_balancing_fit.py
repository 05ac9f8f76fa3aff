"""Entropy balancing: weights with given means, or means within tolerances, of many covariates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ..backends.backend_interface import Backend
from ..design_matrix import Design, null_design
from ..likelihoods.entropy_balancing_likelihood import EntropyBalancingLikelihood
from ..solve import Batch
from ..solve.certified_fit import certified_fit
from ..solve.data_term import LocalTerm
from ..solve.separation.separating_direction import unidentifiable_columns
from .replicate_fits import Replicates, Weights, lanes_of_draws
from .solver_problem import Problem

__all__ = ["EntropyFit", "balance_by_entropy", "balance_draws"]

# Half the digits of a sum, not a tuned number: a separation below this share of the range of the
# linear predictor may be rounding.
PROOF = 1e-9


@dataclass(frozen=True)
class EntropyFit:
    """Coefficients of the weights of one arm.

    Attributes
    ----------
    problem : Problem
        The dual problem without the columns that are combinations of others.
    base : (n,) array
        The base weights.
    columns : (k,) int array
        The positions of the problem's columns among all.
    beta : (k,) array
        Coefficients λ of these columns in X's units.
    optimality : float
        The certificate of `steropes.solve.optimality.optimality_certificate`.
    n_iter : int
        Number of Newton steps.
    infeasible : bool
        Whether the coefficients prove that no weights of the base rows have such means: they are
        a direction in which all base rows are on one side of the targets.
    """

    problem: Problem
    base: np.ndarray
    columns: np.ndarray
    beta: np.ndarray
    optimality: float
    n_iter: int
    infeasible: bool


class _NoWeights(Exception):
    """The coefficients prove that there are no weights."""


def balance_by_entropy(
    design: Design, base: np.ndarray, target: np.ndarray, tolerance: np.ndarray, backend: Backend,
    tol: float, max_iter: int,
) -> EntropyFit:  # fmt: skip
    """Find the weights nearest to base weights with means within a tolerance of the target's.

    Parameters
    ----------
    base, target : (n,) arrays
        Base weights, positive in the rows to weigh, and weights of the target's rows.
    tolerance : (p,) array
        Largest absolute differences of means, in X's units. Means of columns with a tolerance of
        zero become equal; of such columns that are combinations of others in the base rows,
        only some are in the dual problem, so that the caller must check their balance.
    tol, max_iter
        As in `steropes.solve.certified_fit.certified_fit`.
    """
    counted = base > 0
    centered = design.centered(counted)
    likelihood = EntropyBalancingLikelihood(base, target, backend)
    problem = Problem(centered, likelihood, np.ones(design.n), None, None, design.names)
    columns = np.arange(design.p)
    free = np.flatnonzero(tolerance == 0)
    redundant = unidentifiable_columns(problem, free) if len(free) else free
    if len(redundant):
        columns = np.setdiff1d(columns, redundant)
        kept = centered.only(columns) if len(columns) else null_design(design.n)
        problem = replace(problem, design=kept, names=kept.names)
    total = float(base.sum())
    batch = problem.batch()

    def watch(step: int, violation: float) -> None:
        if _separates(batch, counted, target, tolerance[columns]):
            raise _NoWeights

    penalty, nothing = total * tolerance[columns], np.zeros(len(columns))
    try:
        fit = certified_fit(problem, batch, penalty, nothing, tol, max_iter, watch)
    except _NoWeights:
        return EntropyFit(problem, base, columns, _position(batch), np.inf, max_iter, True)
    apart = not fit.converged and _separates(batch, counted, target, tolerance[columns])
    return EntropyFit(problem, base, columns, fit.beta, fit.optimality, fit.n_iter, apart)


def balance_draws(
    fit: EntropyFit, tolerance: np.ndarray, weights: Weights, count: int, tol: float
) -> Iterator[np.ndarray | None]:
    """Fit the problem again under other row weights, as replicates.

    Parameters
    ----------
    tolerance : (k,) array
        Largest absolute differences of means of the fit's columns, in X's units.
    weights : callable
        Maps numbers of replicates to their row weights, (n, b).
    count : int
        Number of replicates.
    tol : float
        Largest violation of the optimality conditions.

    Yields
    ------
    (n,) array or None
        Linear predictors; None if a replicate has no certified optimum.
    """
    problem = fit.problem
    nothing = np.zeros(len(fit.columns))
    penalty = float(fit.base.sum()) * tolerance
    start = (fit.beta * problem.design.scale)[:, None]
    common = problem.common()
    full = problem.batch(common=common)
    full.start_at(start)
    full.solve(penalty, nothing, tol=tol, look="after")  # only computes the Hessian
    lanes = lanes_of_draws(problem)
    replicates = Replicates(problem, common, count, weights, memory=0.0, lanes=lanes)
    look = "during" if tolerance.any() else "after"
    for group in replicates.solve(penalty, nothing, tol, lambda _: start, look):
        term = group.batch.term
        assert isinstance(term, LocalTerm)
        eta = term.backend.to_host(term.eta)
        for k, each in enumerate(group.fits):
            yield eta[:, k] if each.converged else None


def _separates(
    batch: Batch, counted: np.ndarray, target: np.ndarray, tolerance: np.ndarray
) -> bool:
    """Return whether the coefficients λ prove that there are no weights.

    Weighted means within δ of the target t have λ'(Σ w x − t) ≥ −Σ δ_j |λ_j|. This is impossible
    if λ'(x − t) is below −Σ δ_j |λ_j| in all base rows (Farkas' lemma).
    """
    term = batch.term
    assert isinstance(term, LocalTerm)
    eta = term.backend.to_host(term.eta)[:, 0]
    size = float(np.ptp(eta))
    largest = float(eta[counted].max() - (target @ eta) / target.sum())
    return largest + float(tolerance @ np.abs(_position(batch))) < -PROOF * size


def _position(batch: Batch) -> np.ndarray:
    """Return the coefficients of a batch of one replicate, (k,), in X's units."""
    return batch.beta[:, 0] / batch.term.scale
