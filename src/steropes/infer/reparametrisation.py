"""Models rewritten such that a linear combination of coefficients becomes a coefficient.

For r combinations Rβ let P be r columns (the pivots) with an invertible R_P, and N the other
columns of R. With W = R_P⁻¹ R_N and γ_P = β_P + W β_N,

    x_P β_P + x_N β_N = x_P γ_P + (x_N − x_P W) β_N,

so that the design with x_N − x_P W in place of x_N has the coefficients γ_P = R_P⁻¹ (Rβ) and β_N.
A profile or a restriction of Rβ is one of the coefficients γ_P. The change of coefficients has
determinant one, so that determinants of the information do not change either.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import linalg

from ..design_matrix.linearly_combined_columns import subtract_columns
from ..errors import DataError, listed
from ..fit import Problem

__all__ = ["Reparametrisation", "reparametrise"]


@dataclass(frozen=True)
class Reparametrisation:
    """A problem with the coefficients γ instead of β.

    Attributes
    ----------
    problem : Problem
        The problem in terms of γ, with the same names, weights and prior.
    columns : (k,) int array
        All columns in the combinations.
    pivots : (r,) int array
        The columns whose coefficients are γ_P = `from_values` (Rβ).
    others : (k − r,) int array
        The other columns of the combinations.
    W : (r, k − r) array
    R_P : (r, r) array
    """

    problem: Problem
    columns: np.ndarray
    pivots: np.ndarray
    others: np.ndarray
    W: np.ndarray
    R_P: np.ndarray

    def from_values(self, q: np.ndarray) -> np.ndarray:
        """Convert values of the combinations, (r,) or (r, m), to γ_P."""
        return np.asarray(linalg.solve(self.R_P, q))

    def gamma(self, beta: np.ndarray) -> np.ndarray:
        """Convert coefficients β (p,) of the original columns to γ."""
        out = beta.copy()
        out[self.pivots] += self.W @ beta[self.others]
        return out

    def beta(self, gamma: np.ndarray) -> np.ndarray:
        """Convert coefficients γ (p,) to those of the original columns."""
        out = gamma.copy()
        out[self.pivots] -= self.W @ gamma[self.others]
        return out


def reparametrise(problem: Problem, R: np.ndarray) -> Reparametrisation:
    """Rewrite a problem so that linear combinations of its coefficients are coefficients.

    Parameters
    ----------
    problem : steropes.fit.Problem
        If a combination has the intercept, columns must not be centred (`Problem.uncentered`).
    R : (r, p) array
        Linearly independent combinations.

    Raises
    ------
    DataError
        If the design cannot hold the combinations of columns.
    """
    columns = np.flatnonzero(R.any(axis=0))
    pivots = _pivots(R, columns, problem)
    others = np.setdiff1d(columns, pivots)
    W = (
        np.asarray(linalg.solve(R[:, pivots], R[:, others]))
        if len(others)
        else np.zeros((len(R), 0))
    )
    changed = others[W.any(axis=0)]
    design = None
    if not (changed < problem.n_free).any():
        design = subtract_columns(problem.design, changed, pivots, W[:, W.any(axis=0)])
    if design is None:
        names = [problem.design.names[j] for j in columns]
        raise DataError(
            f"A combination of {listed(names)} cannot be profiled or held at a value in this "
            "model, because these effects act in different periods of time or on several classes, "
            "belong to the baseline, or X is in blocks of rows. Use method='bootstrap', or without "
            "a prior method='wald'."
        )
    return Reparametrisation(
        replace(problem, design=design), columns, pivots, others, W, R[:, pivots]
    )


def _pivots(R: np.ndarray, columns: np.ndarray, problem: Problem) -> np.ndarray:
    """Choose columns with an invertible part of R by complete pivoting, (r,).

    Leading columns without a prior (the intercept, a baseline) come first, because they have to
    stay as they are. Among the others the sizes of the scaled columns decide.
    """
    A = R[:, columns] / problem.design.scale[columns]
    free = columns < problem.n_free
    rows, out = list(range(len(R))), []
    while rows:
        size = np.abs(A[rows])
        best = size.max(axis=0)
        allowed = free if best[free].any() else np.ones(len(columns), bool)
        at = int(np.argmax(np.where(allowed, best, -1.0)))
        i = rows[int(np.argmax(size[:, at]))]
        rows.remove(i)
        A[rows] -= np.outer(A[rows, at] / A[i, at], A[i])
        A[rows, at] = 0.0
        out.append(int(columns[at]))
    return np.array(out, np.int64)
