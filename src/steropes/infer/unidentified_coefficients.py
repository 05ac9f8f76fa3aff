"""Detection of unpenalised coefficients that a replicate does not identify or that diverge.

A bootstrap draw can lack the only cases of an exposure. Its likelihood then has no finite maximum,
or does not depend on the coefficient at all. Where the iterations stopped shows neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..backends.backend_interface import Array
from ..fit import Problem
from ..likelihoods.likelihood_interface import Bound
from ..likelihoods.nuisance_interface import Nuisance
from ..solve import Fit
from ..solve.hessian import hessian
from ..solve.linear_predictor import bound_weights, linear_predictor
from ..solve.separation.separating_direction import (
    SMALL_STEP,
    definite_inverse,
    separating_direction,
    unidentifiable_columns,
)
from ..solve.separation.separation_with_nuisance import information_at_start, rising_direction
from .inference_constants import IDENTIFICATION

__all__ = ["UnidentifiedCoefficients"]


class UnidentifiedCoefficients:
    """A detector of unidentified coefficients in fits of one problem with other row weights.

    Parameters
    ----------
    beta : (p,) array
        Coefficients of the full data in X's units, at which the unpenalised columns are identified.
    free : (f,) int array
        The unpenalised columns, ascending.
    """

    def __init__(self, problem: Problem, beta: np.ndarray, free: np.ndarray) -> None:
        self.problem, self.free = problem.with_known_dispersion(beta), free
        problem = self.problem
        likelihood = problem.likelihood
        self.rows = problem.design.by_rows(free, likelihood.order, likelihood.backend)
        self.h0 = np.diag(self._hessian(*self._state(problem, beta)))

    def _state(self, part: Problem, beta: np.ndarray) -> tuple[Array, Bound]:
        """Compute the linear predictors and bound weights of a replicate's problem."""
        return linear_predictor(part, beta * part.design.scale), bound_weights(part)

    def _hessian(self, eta: Array, weights: Bound) -> np.ndarray:
        """Compute the exact Hessian over the unpenalised columns, (f, f)."""
        likelihood = self.problem.likelihood
        curvature = likelihood.curvature(eta, weights, exact=True)
        return np.asarray(likelihood.backend.to_host(hessian(self.rows, curvature)))

    def mark(self, weights: Callable[[], np.ndarray], fit: Fit) -> np.ndarray | None:
        """Mark the coefficients that a replicate's data do not identify.

        Parameters
        ----------
        weights : callable
            Returns the row weights of the replicate, (n,). It is not called if no coefficient is
            unpenalised.

        Returns
        -------
        (p,) array or None
            ±inf for coefficients that diverge, NaN for those that the likelihood does not depend
            on, zero for all others; in X's units with the intercept at X = 0. None if all are
            identified.
        """
        if len(self.free) == 0:
            return None
        part = replace(self.problem, weights=weights())
        if self._has_finite_optimum(part, fit.beta, fit.nuisance):
            return None
        design, out = part.design, np.zeros(part.design.p)
        unknown = unidentifiable_columns(part, self.free, partners=True)
        out[unknown] = np.nan
        rest = np.setdiff1d(self.free, unknown)
        for _ in range(IDENTIFICATION.max_directions):
            found = self._direction(part, fit, rest) if len(rest) else None
            if found is None:
                break
            direction, size = found
            whole, unit = np.zeros(design.p), np.zeros(design.p)
            whole[rest], unit[rest] = direction, size
            whole = design.uncentered_coefficients(whole / design.scale) * design.scale
            share = np.abs(whole * unit)
            moved = np.flatnonzero(share > IDENTIFICATION.min_direction_share * share.max())
            out[moved] = np.inf * np.sign(whole[moved])
            rest = np.setdiff1d(rest, moved)
        return out if (out != 0).any() else None

    def _direction(
        self, part: Problem, fit: Fit, free: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Find a direction along which the loss never rises, and its units; None if none."""
        if fit.nuisance is None:
            found: tuple[np.ndarray, np.ndarray] | None = separating_direction(part, fit.beta, free)
            return found
        try:  # the nuisance parameters move along with the coefficients
            h0 = information_at_start(part, free)
            vector = rising_direction(part, fit, free, h0)
        except FloatingPointError:  # the nuisance parameters overflow so far out
            return None
        root = np.sqrt(h0)
        return None if vector is None else (vector / root, root)

    def _has_finite_optimum(
        self, part: Problem, beta: np.ndarray, nuisance: Nuisance | None
    ) -> bool:
        """Return whether the final point proves a finite optimum; see `solve.separation`."""
        likelihood = part.likelihood
        eta, weights = self._state(part, beta)
        if nuisance is None:
            H, r = self._hessian(eta, weights), likelihood.evaluate(eta, weights)[1]
        else:  # the nuisance parameters are at their optimum and need not be fitted again
            point = nuisance.at(np.ascontiguousarray(eta[:, 0]))
            r, H = point.gradient()[:, None], hessian(self.rows, point.curvature())
        newton = definite_inverse(H, self.h0)
        if newton is None:
            return False
        if likelihood.quadratic:
            return True
        backend = likelihood.backend
        g = backend.to_host(self.rows.rmatmul(r))[:, 0]
        moved = self.rows.matmul(backend.asarray(newton(g)[:, None]))
        return bool(float(likelihood.extent(moved, part.weights)) < SMALL_STEP)
