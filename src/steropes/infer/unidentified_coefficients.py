"""Which coefficients without penalty a replicate's data do not determine, and which run away.

A draw can lack the only cases of an exposure. Its likelihood then rises for ever, or says nothing
about the coefficient; neither is seen in where the steps happened to stop.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg

from ..likelihoods.nuisance import Nuisance
from ..solve import Fit
from ..solve.determined import information_at_start, rising_direction
from ..solve.hessian import hessian
from ..solve.predictor import bound_weights, linear_predictor
from ..solve.separation import SINGULAR, SMALL, WORN, separating_direction, undetermined_columns

__all__ = ["UnidentifiedCoefficients"]

MOVED = 1e-3  # of a direction's largest part: a column that runs away with it
TIMES = 8  # directions, one after another


class UnidentifiedCoefficients:
    """Looks for loose coefficients among the columns without penalty, at fits with other weights.

    Parameters
    ----------
    problem : steropes.fit.Problem
    beta : (p,) array
        Coefficients in X's units at which all data determine those columns.
    free : (f,) int array
        Columns without any penalty, ascending.
    """

    def __init__(self, problem: Any, beta: np.ndarray, free: np.ndarray) -> None:
        self.problem, self.free = problem, free
        likelihood = problem.likelihood
        self.rows = problem.design.by_rows(free, likelihood.order, likelihood.backend)
        self.h0 = np.diag(self._hessian(*self._state(problem, beta)))

    def _state(self, part: Any, beta: np.ndarray) -> tuple[Any, Any]:
        return linear_predictor(part, beta * part.design.scale), bound_weights(part)

    def _hessian(self, eta: Any, weights: Any) -> np.ndarray:
        likelihood = self.problem.likelihood
        curvature = likelihood.curvature(eta, weights, exact=True)
        return np.asarray(likelihood.backend.to_host(hessian(self.rows, curvature)))

    def mark(self, weights: np.ndarray, fit: Fit) -> np.ndarray | None:
        """What loose coefficients are: ±inf, or NaN where the data say nothing; others zero.

        Parameters
        ----------
        weights : (n,) array
            Row weights of the replicate.
        fit : Fit
            Where it ended.

        Returns
        -------
        (p,) array or None
            In X's units with the intercept at X = 0; None where nothing is loose.
        """
        if len(self.free) == 0:
            return None
        part = replace(self.problem, weights=weights)
        if self._firm(part, fit.beta, fit.nuisance):
            return None
        design, out = part.design, np.zeros(part.design.p)
        unknown = undetermined_columns(part, self.free, partners=True)
        out[unknown] = np.nan
        rest = np.setdiff1d(self.free, unknown)
        for _ in range(TIMES):
            found = self._direction(part, fit, rest) if len(rest) else None
            if found is None:
                break
            direction, size = found
            whole, unit = np.zeros(design.p), np.zeros(design.p)
            whole[rest], unit[rest] = direction, size
            whole = design.uncentered_coefficients(whole / design.scale) * design.scale
            share = np.abs(whole * unit)
            moved = np.flatnonzero(share > MOVED * share.max())
            out[moved] = np.inf * np.sign(whole[moved])
            rest = np.setdiff1d(rest, moved)
        return out if (out != 0).any() else None

    def _direction(
        self, part: Any, fit: Fit, free: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """A direction along which the loss falls for ever, as of `separating_direction`."""
        if fit.nuisance is None:
            found: tuple[np.ndarray, np.ndarray] | None = separating_direction(part, fit.beta, free)
            return found
        try:  # here the likelihood's own parameters go along
            h0 = information_at_start(part, free)
            vector = rising_direction(part, fit, free, h0)
        except FloatingPointError:  # so far out that these have no numbers
            return None
        root = np.sqrt(h0)
        return None if vector is None else (vector / root, root)

    def _firm(self, part: Any, beta: np.ndarray, nuisance: Nuisance | None) -> bool:
        """Whether the end proves that there is a finite optimum: see `solve.separation`."""
        likelihood = part.likelihood
        eta, weights = self._state(part, beta)
        if nuisance is None:
            H, r = self._hessian(eta, weights), likelihood.evaluate(eta, weights)[1]
        else:  # which need not be fitted again
            point = nuisance.at(np.ascontiguousarray(eta[:, 0]))
            r, H = point.gradient()[:, None], hessian(self.rows, point.curvature())
        h = np.diag(H)
        if not np.isfinite(H).all() or not (h > WORN * self.h0).all():
            return False
        size = np.sqrt(h)
        try:
            L = linalg.cholesky(H / size / size[:, None], lower=True, check_finite=False)
        except linalg.LinAlgError:
            return False
        if np.diag(L).min() ** 2 < SINGULAR:
            return False
        if likelihood.quadratic:
            return True
        backend = likelihood.backend
        g = backend.to_host(self.rows.rmatmul(r))[:, 0]
        step = linalg.cho_solve((L, True), g / size, check_finite=False) / size
        moved = self.rows.matmul(backend.asarray(step[:, None]))
        return bool(float(likelihood.extent(moved, part.weights)) < SMALL)
