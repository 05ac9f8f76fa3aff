"""The loss as a function of the unpenalised coefficients, with the others fixed."""

from __future__ import annotations

import numpy as np

from ...backends.backend_interface import Array
from ...design_matrix.design_interfaces import ColumnsByRows
from ..checked_problem_interface import SolverProblem
from ..hessian import diagonal, hessian
from ..linear_predictor import bound_weights, linear_predictor

__all__ = ["UnpenalisedLoss"]

# Slopes below this share of the local slope come from other components of a direction.
FOREIGN_SLOPE = 1e-5
# Differences of probabilities have this rounding error per unit of row weight.
PROBABILITY_ROUNDING = 2e-15
# Noise above this share of the local slope proves nothing.
MAX_NOISE_SHARE = 0.01


class UnpenalisedLoss:
    """The loss as a function of some columns' coefficients, b (f,) in the scaled columns.

    Parameters
    ----------
    base : (rows of η, 1) array
        Linear predictors without these columns.
    columns : (f,) int array
        Ascending.
    rows : RowsLike, optional
        These columns by rows, if they are available.
    """

    def __init__(
        self,
        problem: SolverProblem,
        base: Array,
        columns: np.ndarray,
        rows: ColumnsByRows | None = None,
    ) -> None:
        self.likelihood = problem.likelihood
        self.backend, self.base = self.likelihood.backend, base
        self.rows = _by_rows(problem, columns) if rows is None else rows
        self.weights, self.row_weights = bound_weights(problem), problem.weights
        self.noise = PROBABILITY_ROUNDING * float(problem.weights.sum())

    @classmethod
    def at_coefficients(
        cls,
        problem: SolverProblem,
        columns: np.ndarray,
        scaled: np.ndarray,
        eta: Array | None = None,
    ) -> UnpenalisedLoss:
        """Create the loss with the other columns' coefficients at ``scaled`` (p,).

        ``eta`` (rows of η, 1) holds the linear predictors of all columns at ``scaled``, if known.
        """
        if eta is None:
            others = scaled.copy()
            others[columns] = 0.0
            return cls(problem, linear_predictor(problem, others), columns)
        rows = _by_rows(problem, columns)
        own = rows.matmul(problem.likelihood.backend.asarray(scaled[columns, None]))
        return cls(problem, eta - own, columns, rows)

    def flat_slope(self, slope: float, extent: float) -> float:
        """Return the slope far out below which a direction counts as flat.

        ``slope`` is the local slope and ``extent`` the change of η. Where 1 − p cancels, a slope of
        zero is the rounding error of the rows' weights.
        """
        noise = self.noise * extent
        return max(FOREIGN_SLOPE * slope, noise if noise < MAX_NOISE_SHARE * slope else 0.0)

    def __call__(self, b: np.ndarray) -> float:
        """Evaluate the loss, infinite where it is not a number."""
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(self.likelihood.loss(self.eta(b), self.weights)[0])
        return value if np.isfinite(value) else np.inf

    def overflows(self, b: np.ndarray) -> bool:
        """Return whether a row's mean overflows, as opposed to risk sets that underflow."""
        with np.errstate(all="ignore"):
            _, r = self.likelihood.evaluate(self.eta(b), self.weights)
        r = self.backend.to_host(r)
        return bool(np.isinf(r).any() and not np.isnan(r).any())

    def eta(self, b: np.ndarray) -> Array:
        """Compute linear predictors, (rows of η, 1)."""
        return self.base + self.rows.matmul(self.backend.asarray(b[:, None]))

    def gradient(self, b: np.ndarray) -> np.ndarray:
        """Compute derivatives in b, (f,), which may not be finite far out."""
        with np.errstate(all="ignore"):  # The callers check for finite values.
            _, r = self.likelihood.evaluate(self.eta(b), self.weights)
        return self.backend.to_host(self.rows.rmatmul(r))[:, 0]

    def slope(self, b: np.ndarray, s: np.ndarray) -> float:
        """Compute the derivative along s, infinite where the loss is."""
        if not np.isfinite(self(b)):
            return np.inf
        with np.errstate(over="ignore", invalid="ignore"):
            slope = float(self.gradient(b) @ s)
        return slope if np.isfinite(slope) else np.inf

    def hessian(self, b: np.ndarray, levelled: bool = False) -> np.ndarray:
        """Compute the exact Hessian; pooled event times would show information where there is none.

        ``levelled``: with a constant added to η that brings the means to the outcome's size.
        """
        with np.errstate(all="ignore"):
            eta = self._levelled_predictors(b) if levelled else self.eta(b)
            curvature = self.likelihood.curvature(eta, self.weights, exact=True)
            return np.asarray(self.backend.to_host(hessian(self.rows, curvature)))

    def lower_bound(self, b: np.ndarray) -> np.ndarray:
        """Compute a lower bound of the exact Hessian, which may be the Hessian itself."""
        share = self.likelihood.min_curvature_ratio
        if not share:
            return self.hessian(b)
        with np.errstate(all="ignore"):
            curvature = self.likelihood.curvature(self.eta(b), self.weights)
            return share * np.asarray(self.backend.to_host(hessian(self.rows, curvature)))

    def diagonal(self, b: np.ndarray) -> np.ndarray:
        """Compute the levelled Hessian's diagonal, approximately."""
        curvature = self.likelihood.curvature(self._levelled_predictors(b), self.weights)
        return np.asarray(self.backend.to_host(diagonal(self.rows, curvature)))

    def unit(self) -> np.ndarray:
        """Compute the Hessian's diagonal, approximately, at linear predictors of zero."""
        curvature = self.likelihood.curvature(0.0 * self.base, self.weights)
        h = np.asarray(self.backend.to_host(diagonal(self.rows, curvature)))
        return np.where(h > 0, h, 1.0)

    def _levelled_predictors(self, b: np.ndarray) -> Array:
        """Compute linear predictors with a constant that brings the means to the outcome's size."""
        eta = self.eta(b)
        return eta + self.likelihood.level(eta, self.weights)

    def extent(self, s: np.ndarray) -> float:
        """Compute how far a step moves the linear predictors."""
        d = self.rows.matmul(self.backend.asarray(s[:, None]))
        return float(self.likelihood.extent(d, self.row_weights))


def _by_rows(problem: SolverProblem, columns: np.ndarray) -> ColumnsByRows:
    """Return the columns by rows, in the model's order."""
    likelihood = problem.likelihood
    return problem.design.by_rows(columns, likelihood.order, likelihood.backend)
