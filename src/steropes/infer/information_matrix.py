"""The information matrix at a fit, its inverse, and the refusals where there is none."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy import linalg

from ..errors import DataError, SeparationError, listed
from ..likelihoods.curvature import GroupedCurvature, SubdistributionCurvature
from ..priors import GroupPenalty
from ..solve import Batch
from ..solve.hessian import hessian
from ..solve.linear_predictor import bound_weights, linear_predictor
from ..solve.separation.extreme_offsets import refuse_for_offsets
from ..solve.separation.separating_direction import (
    named,
    separating_direction,
    separating_without_others,
)

__all__ = ["Information", "refuse_collinear", "refuse_separated", "refuse_undetermined"]

COLLINEAR = 1e-10  # share of a column's information that the other columns leave it
LOST = 1e-2  # of a column's information that may be rounding where one takes its inverse


class Information:
    """Hessian of the objective at the coefficients, for columns with a smooth penalty.

    Parameters
    ----------
    problem : steropes.fit.Problem
    beta : (p,) array
        Coefficients in X's units, the intercept first where there is one.
    l1, l2 : (p,) arrays
        Penalties in X's units.
    """

    def __init__(self, problem: Any, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray) -> None:
        self.scale = problem.design.scale
        self.design = problem.design
        self.smooth = l1 == 0
        self.likelihood = likelihood = problem.likelihood
        self.columns = np.flatnonzero(self.smooth | (beta != 0))
        self.joined = problem.group_penalty(problem.prior)
        if self.joined is not None:
            self.columns = self.joined.closed(self.columns)
        self.rows = problem.design.by_rows(self.columns, likelihood.order, likelihood.backend)
        self.eta = linear_predictor(problem, beta * self.scale)
        self.weights = bound_weights(problem)
        self.kappa = (l2 / self.scale / self.scale)[self.columns]
        self.beta, self.term = beta, problem.smooth_term()

    @cached_property
    def H(self) -> Any:
        """Exact Hessian of the loss, and of a smooth prior, over ``columns``, which are scaled."""
        data, joint = self._parts
        return data if joint is None else data + joint

    @cached_property
    def _curvature(self) -> Any:
        return self.likelihood.curvature(self.eta, self.weights, exact=True)

    @cached_property
    def _parts(self) -> tuple[Any, Any]:
        data = self.likelihood.backend.to_host(hessian(self.rows, self._curvature))
        if self.term is None:
            return data, None
        scale = self.scale[self.columns]
        return data, self.term.hessian(self.beta, self.columns) / scale / scale[:, None]

    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Hessians of the loss and of the penalty over ``columns``, which are scaled: (k, k)."""
        data, joint = self._parts
        kappa = np.diag(self.kappa)
        return np.asarray(data), kappa if joint is None else kappa + joint

    def vcov(self) -> np.ndarray:
        """Inverse of the information, (p, p) in X's units; NaN where a Laplace prior acts."""
        p = len(self.scale)
        if not self.smooth.all():
            return np.full((p, p), np.nan)
        V = self._to_units.T @ self.influence()
        return 0.5 * (V + V.T)

    def _refuse_rounding(self) -> None:
        """Raise where what risk sets or strata leave of a column's information is rounding.

        A ridge may hold a coefficient where one row has all but 10⁻¹⁴ of its risk set's share:
        the second moment less the square of the mean then has no digit left.
        """
        curvature = self._curvature
        if not isinstance(curvature, GroupedCurvature | SubdistributionCurvature):
            return
        if not curvature.grouped:
            return
        raw = self.likelihood.backend.to_host(self.rows.diagonal(curvature.v))
        left = np.abs(np.diag(self.H)) + self.kappa
        lost = np.finfo(float).eps * raw > LOST * left
        if lost.any():
            bad = [self.design.names[j] for j in self.columns[lost]]
            raise DataError(
                f"Standard errors of {listed(bad)} are lost in rounding: in nearly every risk "
                "set or stratum one row has the whole likelihood, and a weak prior alone holds "
                "the coefficient. Give these columns a stronger prior, or drop them."
            )

    def influence(self) -> np.ndarray:
        """The inverse information times what turns scaled coefficients into X's units, (p, p).

        A unit's score times it is the change of the coefficients, to first order, where the unit
        weighs more. Under a Laplace prior that is with the support as it is: coefficients at
        zero stay there.
        """
        if self.joined is not None:
            return self._along_steps(self.joined)
        self._refuse_rounding()
        H = self.H + np.diag(self.kappa)
        size = np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
        inverse = _inverse(H / size / size[:, None]) / size / size[:, None]
        out = np.zeros((len(self.scale), len(self.scale)))
        out[self.columns] = inverse @ self._to_units[self.columns]
        return out

    def _along_steps(self, joined: GroupPenalty) -> np.ndarray:
        """The same where only steps that are not zero, or have no penalty, move."""
        scale = self.scale[self.columns]
        part, theta = joined.only(self.columns), joined.steps(self.beta[:, None])[self.columns, 0]
        at = np.flatnonzero((theta != 0) | (part.l1 == 0))
        H = part.in_steps(np.asarray(self.H) * scale * scale[:, None])[np.ix_(at, at)]
        H += part.hessian(theta)[np.ix_(at, at)]
        size = np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
        inverse = _inverse(H / size / size[:, None]) / size / size[:, None]
        C = part.coefficients(np.eye(len(self.columns))[:, at])  # what a step moves
        out = np.zeros((len(self.scale), len(self.scale)))
        moved = (C @ inverse @ C.T) * scale * scale[:, None]  # of the scaled columns
        out[self.columns] = moved @ self._to_units[self.columns]
        return out

    @property
    def _to_units(self) -> np.ndarray:
        """Columns: what one of the coefficients in X's units is of the scaled ones, (p, p)."""
        return self.design.uncentered_coefficients(np.diag(1.0 / self.scale)).T


def _inverse(H: np.ndarray) -> np.ndarray:
    """The inverse of an information; a fit that ended nowhere may have one without any."""
    try:
        return np.asarray(linalg.inv(H))
    except (linalg.LinAlgError, ValueError):
        raise DataError(
            "There are no standard errors where the fit ended: the information there has no "
            "inverse. See that the fit converges (converged_), with other units or offsets, "
            "without collinear columns, or under a prior."
        ) from None


def refuse_separated(
    problem: Any, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray, eta: Any = None
) -> None:
    """Raise `SeparationError` where the likelihood rises for ever along some direction.

    Parameters
    ----------
    problem : steropes.fit.Problem
    beta : (p,) array
        Where the fit ended, in X's units.
    l1, l2 : (p,) arrays
        Penalties. Only columns without any can run away, so only they are looked at.
    eta : (rows of η, 1) array, optional
        Linear predictors at ``beta``, where they are known.
    """
    free = np.flatnonzero((l1 == 0) & (l2 == 0))
    found = separating_direction(problem, beta, free, eta)
    if found is None:
        return
    # Of several directions the end of a fit tells one; the start, which all fits share, the same.
    again = separating_without_others(problem, free)
    names = named(problem, free, found if again is None else again)
    raise SeparationError(
        "The likelihood has no finite maximum: it keeps rising as the coefficients "
        f"of {listed(names)} go to infinity (the outcome is separated by them). "
        "Drop or merge these columns, or give them a prior.",
        names,
    )


def refuse_undetermined(problem: Any, batch: Batch, l1: np.ndarray, l2: np.ndarray) -> None:
    """Raise `SeparationError` for columns without penalty that are zero or collinear.

    Looks at the Hessian where the batch starts, which the fit needs anyway unless there are many
    thousands of such columns.
    """
    free = np.flatnonzero((l1 == 0) & (l2 == 0))
    if len(free) == 0:
        return
    refuse_for_offsets(_refuse_at_start, problem, batch, free)


def _refuse_at_start(problem: Any, batch: Batch, free: np.ndarray) -> None:
    """`refuse_collinear` by the Hessian where the batch starts."""
    G, raw = batch.prepare(free, whole=True), batch.uncentred()
    by = np.argsort(batch.term.W, kind="stable")
    at = by[np.searchsorted(batch.term.W[by], free)]
    counted = int((problem.weights > 0).sum())
    refuse_collinear(problem.design.names, free, G[np.ix_(at, at)], raw[at], counted)


def refuse_collinear(
    names: list[str], free: np.ndarray, H: np.ndarray, raw: np.ndarray, counted: int
) -> None:
    """Raise `SeparationError` for columns that a Hessian says are zero or collinear.

    Parameters
    ----------
    names : list of str
        Of all columns.
    free : (f,) int array
        Those without penalty.
    H : (f, f) array
        Their Hessian at some point.
    raw : (f,) array
        Its diagonal before terms that may cancel it are taken out.
    counted : int
        Rows with a positive weight.
    """
    h = np.diag(H)
    empty = ~(h > COLLINEAR * np.where(raw > 0, raw, 1.0)) | ~(raw > 0)
    if empty.any():
        bad = [names[j] for j in free[empty]]
        raise SeparationError(
            f"The data say nothing about the coefficients of {listed(bad)}: constant, or zero, "
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
            f"Collinear columns: {listed(bad)} can be written as a combination of "
            f"{listed(with_) if with_ else 'other columns'}. Drop one or give them a prior.",
            bad,
        )
