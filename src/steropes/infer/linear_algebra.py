"""Linear algebra of inference: bases of equations, roots of covariances, nested sets of columns."""

from __future__ import annotations

import numpy as np

from ..backends.backend_interface import Backend
from ..fit import Problem
from ..likelihoods import CoxLikelihood

__all__ = ["columns_outside", "row_space", "square_root"]

# Directions below this share of the largest are rounding errors.
ROUNDING = 1e-8
# Columns are combinations of others up to this relative distance.
DISTANCE = 1e-6
# Random combinations of rows that are computed at a time, and beyond the number of columns.
SKETCHES, MORE_SKETCHES = 32, 8


def row_space(rows: np.ndarray) -> np.ndarray:
    """Return a basis of the space of rows, whatever the units of the columns."""
    size = np.abs(rows).max(axis=0)
    some = size > 0
    if not some.any():
        return np.empty((0, rows.shape[1]))
    _, values, vectors = np.linalg.svd(rows[:, some] / size[some], full_matrices=False)
    kept = vectors[values > ROUNDING * values[0]]
    out = np.zeros((len(kept), rows.shape[1]))
    out[:, some] = kept * size[some]
    return out


def square_root(V: np.ndarray) -> np.ndarray:
    """Compute L with V = L L' of a covariance matrix, from the eigenvalues of its correlations."""
    size = np.sqrt(np.where(np.diag(V) > 0, np.diag(V), 1.0))
    values, vectors = np.linalg.eigh(V / size / size[:, None])
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)) * size[:, None])


def columns_outside(small: Problem, large: Problem, backend: Backend) -> np.ndarray:
    """Find the columns of a problem that are no linear combinations of those of a larger one.

    Random combinations of the rows, more than there are columns, have the linear dependences of
    all rows with probability one, and need no dense copy of X. Combinations that add up to zero,
    in each stratum if the model has any, do not see constants, which an intercept contains.

    Parameters
    ----------
    small, large : Problem
        With the same rows.
    backend : Backend
        That multiplies with X.

    Returns
    -------
    (p,) bool array
        Whether each column of ``small`` is outside.
    """
    X, Z = (getattr(problem.design, "X", problem.design) for problem in (small, large))
    if X is Z:
        return np.zeros(X.p, bool)
    used = small.weights > 0
    constant = bool(large.n_free) or large.likelihood.shift_invariant
    group = _strata_of(large) if constant else None
    random = np.random.default_rng(0)
    left, right = [], []
    size = backend.lanes(SKETCHES)
    for _ in range(-(-(X.p + Z.p + MORE_SKETCHES) // size)):
        R = random.standard_normal((len(used), size)) * used[:, None]
        if constant:
            R -= _means(R, used, group)
        left.append(X.rmatmul(R, backend))
        right.append(Z.rmatmul(R, backend))
    A, B = np.concatenate(left, axis=1).T, np.concatenate(right, axis=1).T
    length = np.linalg.norm(B, axis=0)
    B = B / np.where(length > 0, length, 1.0)
    gap = A - B @ np.linalg.lstsq(B, A, rcond=None)[0]
    return np.asarray(np.linalg.norm(gap, axis=0) > DISTANCE * np.linalg.norm(A, axis=0))


def _means(R: np.ndarray, used: np.ndarray, group: np.ndarray | None) -> np.ndarray:
    """Return the means of the columns over the used rows, of each group, with zero elsewhere."""
    codes = np.zeros(len(R), np.int64) if group is None else group
    count = np.maximum(np.bincount(codes, used), 1.0)
    sums = np.zeros((len(count), R.shape[1]))
    np.add.at(sums, codes, R)
    return (sums / count[:, None])[codes] * used[:, None]


def _strata_of(problem: Problem) -> np.ndarray | None:
    """Return the codes of the strata, within which constants do not count; None without strata."""
    likelihood = problem.likelihood
    if isinstance(likelihood, CoxLikelihood):
        strata = np.zeros(len(problem.weights), np.int64)
        strata[likelihood.row_of_x] = likelihood.stratum
        return strata
    return problem.fold_together
