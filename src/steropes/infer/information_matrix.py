"""The information matrix at a fit, its inverse, and errors for separated or collinear columns."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import linalg

from ..errors import DataError, SeparationError, listed
from ..fit import Problem
from ..likelihoods.hessian_structures import Curvature, GroupedCurvature, SubdistributionCurvature
from ..priors import GroupPenalty
from ..solve import Batch
from ..solve.hessian import hessian
from ..solve.linear_predictor import bound_weights, linear_predictor
from ..solve.separation.collinearity import collinear_columns
from ..solve.separation.extreme_offsets import refuse_for_offsets
from ..solve.separation.separating_direction import (
    separated_column_names,
    separating_direction,
    separating_direction_without_fit,
)
from ..solve.separation.separation_error import separation_error
from .inference_constants import IDENTIFICATION

__all__ = ["Information", "refuse_collinear", "refuse_separated", "refuse_undetermined"]


class Information:
    """The Hessian of the objective at a fit, and its inverse.

    It covers the columns without an ℓ1 penalty, and those with one whose coefficients are nonzero.

    Parameters
    ----------
    beta : (p,) array
        Coefficients in X's units, starting with the intercept, if any.
    l1, l2 : (p,) arrays
        Penalties in X's units.
    """

    def __init__(self, problem: Problem, beta: np.ndarray, l1: np.ndarray, l2: np.ndarray) -> None:
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
    def H(self) -> np.ndarray:
        """Exact Hessian of the loss and of a smooth prior over the scaled ``columns``, (k, k)."""
        data, joint = self._parts
        return data if joint is None else data + joint

    @cached_property
    def _curvature(self) -> Curvature:
        """The likelihood's exact curvature at the fit."""
        return self.likelihood.curvature(self.eta, self.weights, exact=True)

    @cached_property
    def _parts(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Hessians of the loss and of the prior's smooth term, None if it has none."""
        data = self.likelihood.backend.to_host(hessian(self.rows, self._curvature))
        if self.term is None:
            return data, None
        scale = self.scale[self.columns]
        return data, self.term.hessian(self.beta, self.columns) / scale / scale[:, None]

    def hessian_parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Compute the Hessians of loss and penalty over the scaled ``columns``, (k, k) each."""
        data, joint = self._parts
        kappa = np.diag(self.kappa)
        return np.asarray(data), kappa if joint is None else kappa + joint

    def vcov(self) -> np.ndarray:
        """Compute the inverse information, (p, p) in X's units; all NaN under a Laplace prior."""
        p = len(self.scale)
        if not self.smooth.all():
            return np.full((p, p), np.nan)
        V = self._to_units.T @ self.influence()
        return 0.5 * (V + V.T)

    def _refuse_rounding(self) -> None:
        """Raise an error if a column's information within risk sets or strata is only rounding.

        A ridge may keep a coefficient finite although one row has all but 10⁻¹⁴ of the weight of
        its risk set. The second moment minus the square of the mean then has no digit left.
        """
        curvature = self._curvature
        if not isinstance(curvature, GroupedCurvature | SubdistributionCurvature):
            return
        if not curvature.grouped:
            return
        raw = self.likelihood.backend.to_host(self.rows.diagonal(curvature.v))
        left = np.abs(np.diag(self.H)) + self.kappa
        lost = np.finfo(float).eps * raw > IDENTIFICATION.max_rounding_share * left
        if lost.any():
            bad = [self.design.names[j] for j in self.columns[lost]]
            raise DataError(
                f"Standard errors of {listed(bad)} are lost in rounding: in nearly every risk "
                "set or stratum one row has the whole likelihood, and only a weak prior keeps "
                "the coefficient finite. Give these columns a stronger prior, or drop them."
            )

    def influence(self) -> np.ndarray:
        """Compute the inverse information times the map from scaled coefficients to X's units.

        The result is (p, p).

        A unit's score times this matrix is the first-order change of the coefficients as the
        unit's weight increases. Under a Laplace prior the support stays fixed: coefficients at
        zero remain there.
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
        """Compute `influence` with a group penalty: only nonzero or unpenalised steps move."""
        scale = self.scale[self.columns]
        part, theta = joined.only(self.columns), joined.steps(self.beta[:, None])[self.columns, 0]
        at = np.flatnonzero(part.moves(theta))
        H = part.in_steps(np.asarray(self.H) * scale * scale[:, None])[np.ix_(at, at)]
        H += part.hessian(theta)[np.ix_(at, at)]
        size = np.sqrt(np.where(np.diag(H) > 0, np.diag(H), 1.0))
        inverse = _inverse(H / size / size[:, None]) / size / size[:, None]
        C = part.coefficients(np.eye(len(self.columns))[:, at])  # coefficients per step
        out = np.zeros((len(self.scale), len(self.scale)))
        moved = (C @ inverse @ C.T) * scale * scale[:, None]  # in the scaled columns
        out[self.columns] = moved @ self._to_units[self.columns]
        return out

    @property
    def _to_units(self) -> np.ndarray:
        """The map from scaled coefficients to X's units, one column per coefficient, (p, p)."""
        return self.design.uncentered_coefficients(np.diag(1.0 / self.scale)).T


def _inverse(H: np.ndarray) -> np.ndarray:
    """Invert an information matrix, which may be singular if the fit did not converge."""
    try:
        return np.asarray(linalg.inv(H))
    except (linalg.LinAlgError, ValueError):
        raise DataError(
            "There are no standard errors at the fit, because its information matrix is singular. "
            "Check that the fit converges (converged_): change units or offsets, remove collinear "
            "columns, or use a prior."
        ) from None


def refuse_separated(
    problem: Problem,
    beta: np.ndarray,
    l1: np.ndarray,
    l2: np.ndarray,
    eta: np.ndarray | None = None,
) -> None:
    """Raise `SeparationError` if the likelihood has no finite maximum along some direction.

    Parameters
    ----------
    beta : (p,) array
        Final coefficients of the fit, in X's units.
    l1, l2 : (p,) arrays
        Penalties in X's units. Only unpenalised columns can diverge, so only these are examined.
    eta : (rows of η, 1) array, optional
        Linear predictors at ``beta``, if they are known.
    """
    problem = problem.with_known_dispersion(beta)
    free = np.flatnonzero((l1 == 0) & (l2 == 0))
    found = separating_direction(problem, beta, free, eta)
    if found is None:
        return
    # If there are several directions, the one found at the end depends on the fit. The start is
    # the same for all fits, so the direction found there names the same columns each time.
    again = separating_direction_without_fit(problem, free)
    names = separated_column_names(problem, free, found if again is None else again)
    raise separation_error(problem, names)


def refuse_undetermined(problem: Problem, batch: Batch, l1: np.ndarray, l2: np.ndarray) -> None:
    """Raise `SeparationError` for unpenalised columns that are zero or collinear.

    The check uses the Hessian at the batch's starting point, which the fit needs anyway unless
    there are many thousands of such columns.
    """
    free = np.flatnonzero((l1 == 0) & (l2 == 0))
    if len(free) == 0:
        return
    refuse_for_offsets(_refuse_at_start, problem, batch, free)


def _refuse_at_start(problem: Problem, batch: Batch, free: np.ndarray) -> None:
    """Apply `refuse_collinear` to the Hessian at the batch's starting point."""
    G, raw = batch.prepare(free, whole=True), batch.uncentred()
    by = np.argsort(batch.term.W, kind="stable")
    at = by[np.searchsorted(batch.term.W[by], free)]
    counted = int((problem.weights > 0).sum())
    refuse_collinear(problem.design.names, free, G[np.ix_(at, at)], raw[at], counted)


def refuse_collinear(
    names: list[str], free: np.ndarray, H: np.ndarray, raw: np.ndarray, counted: int
) -> None:
    """Raise `SeparationError` for columns that are zero or collinear according to a Hessian.

    Parameters
    ----------
    free : (f,) int array
        The unpenalised columns.
    H : (f, f) array
        Their Hessian at some point.
    raw : (f,) array
        Its diagonal before the subtraction of terms that may cancel it.
    counted : int
        Number of rows with a positive weight.
    """
    h = np.diag(H)
    empty = ~(h > IDENTIFICATION.min_information * np.where(raw > 0, raw, 1.0)) | ~(raw > 0)
    if empty.any():
        bad = [names[j] for j in free[empty]]
        raise SeparationError(
            f"The data do not identify the coefficients of {listed(bad)}: the columns are constant "
            f"or zero among the rows with weight (n_samples = {counted}). Drop these columns or "
            "give them a prior.",
            bad,
        )
    size = np.sqrt(h)
    redundant, partner = collinear_columns(H / size / size[:, None])
    if len(redundant):
        bad = [names[free[j]] for j in sorted(redundant)]
        with_ = [names[free[j]] for j in sorted(partner)]
        raise SeparationError(
            f"Collinear columns: {listed(bad)} can be written as a combination of "
            f"{listed(with_) if with_ else 'other columns'}. Drop one or give them a prior.",
            bad,
        )
