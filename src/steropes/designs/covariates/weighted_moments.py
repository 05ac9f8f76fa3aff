"""Means and variances of columns under weights of people, from which balance is computed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from steropes.backends.thread_pool import balanced_chunks
from steropes.designs.covariates.covariates_by_column import Covariates, IntoCovariates

__all__ = [
    "CovariateMoments", "Moments", "mean_difference", "moments_of", "sparse_chunks",
    "standardized_difference",
]  # fmt: skip

# The number of values that are converted to double precision at a time.
VALUES_AT_ONCE = 1_000_000


@dataclass(frozen=True, repr=False)
class Moments:
    """Means and variances of p columns under each of k sets of weights that sum to one.

    Attributes
    ----------
    mean, variance : ndarray, shape (p, k)
        Σ w x and Σ w (x − mean)².
    rest : ndarray, shape (k,)
        1 − Σ w².
    """

    mean: NDArray
    variance: NDArray
    rest: NDArray

    @classmethod
    def of(cls, chunks: Iterable[tuple[Any, Any]], p: int, shares: NDArray) -> Moments:
        """Compute the moments of p columns that are given in chunks.

        Parameters
        ----------
        chunks : iterable of (int array or slice, array)
            Positions of columns, and their values: an array or a sparse array by column, (n, m).
        shares : ndarray, shape (n, k)
            Weights that sum to one in each column.
        """
        mean = np.empty((p, shares.shape[1]))
        variance = np.empty_like(mean)
        for at, x in chunks:
            mean[at], variance[at] = moments_of(x, shares)
        return cls(mean, variance, rest_of(shares))

    @property
    def corrected(self) -> NDArray:
        """Variances with 1 − Σ w² in the denominator, which is n − 1 for equal weights, (p, k)."""
        return np.where(self.rest > 0, self.variance / np.where(self.rest > 0, self.rest, 1), 0.0)

    def take(self, columns: slice) -> Moments:
        """Select sets of weights."""
        return Moments(self.mean[:, columns], self.variance[:, columns], self.rest[columns])


def rest_of(shares: NDArray) -> NDArray:
    """Compute 1 − Σ w² of weights that sum to one in each column, (k,)."""
    return np.asarray(1.0 - np.einsum("ij,ij->j", shares, shares))


def moments_of(x: Any, shares: NDArray) -> tuple[NDArray, NDArray]:
    """Compute means and variances of columns under weights that sum to one, (m, k) each.

    Parameters
    ----------
    x : ndarray or sparse array by column, shape (n, m)
    shares : ndarray, shape (n, k)
    """
    if sp.issparse(x):
        mean = x.T @ shares
        of_squares = mean.copy()
        other = np.searchsorted(x.indptr, np.flatnonzero(x.data != 1), side="right") - 1
        if len(other):  # Zeros and ones are their own squares.
            numeric = np.unique(other)
            of_squares[numeric] = x[:, numeric].power(2).T @ shares
        variance = of_squares - mean**2
        rounding = 1e-14 * mean**2
    else:  # Deviations from the plain mean keep digits that large values would lose.
        # Others than people with a share would leave a rounding error in a column that is constant.
        used = shares.any(axis=1).astype(float)
        middle = used @ x / used.sum()
        shift, variance = np.empty((2, x.shape[1], shares.shape[1]))
        step = max(1, VALUES_AT_ONCE // max(len(x), 1))
        for a in range(0, x.shape[1], step):
            some = slice(a, a + step)
            z = x[:, some] - middle[some]
            shift[some] = z.T @ shares
            np.multiply(z, z, out=z)
            variance[some] = z.T @ shares - shift[some] ** 2
        mean = middle[:, None] + shift
        rounding = 1e-28 * mean**2 + 1e-14 * shift**2
    return mean, np.where(variance > rounding, variance, 0.0)


def sparse_chunks(
    n: int, ends: NDArray, rows: NDArray, values: NDArray, scale: NDArray | None = None
) -> Iterable[tuple[slice, Any]]:
    """Yield ranges of sparse columns with their values in double precision, (n, m).

    All columns in double precision would need more memory than they do.

    Parameters
    ----------
    ends : ndarray of int, shape (p + 1,)
        Start of the entries of each column, and the end of the last one.
    rows, values : ndarray
        Of each entry; without values they are 1.
    scale : ndarray, shape (p,), optional
        Factors of the columns.
    """
    for a, b in balanced_chunks(ends, 1 + int(ends[-1] - ends[0]) // VALUES_AT_ONCE):
        begin, end = int(ends[a]), int(ends[b])
        own = values[begin:end].astype(float) if len(values) else np.ones(end - begin)
        if scale is not None:
            own *= np.repeat(scale[a:b], np.diff(ends[a : b + 1]))
        entries = (own, rows[begin:end], ends[a : b + 1] - begin)
        yield slice(a, b), sp.csc_array(entries, shape=(n, b - a))


def mean_difference(a: NDArray, b: NDArray) -> NDArray:
    """Subtract means; differences within rounding error are zero."""
    difference = a - b
    return np.where(np.abs(difference) < 1e-12 * np.maximum(np.abs(a), np.abs(b)), 0.0, difference)


def standardized_difference(a: NDArray, b: NDArray, spread: NDArray) -> NDArray:
    """Divide differences of means by a spread; no difference is 0 even without a spread."""
    difference = mean_difference(a, b)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(difference == 0, 0.0, difference / spread)


class CovariateMoments:
    """Means and variances of covariates under weights of people.

    Parameters
    ----------
    features : Covariates, data frame, sparse matrix or array_like, shape (n, p)
        As in `covariate_balance`.

    Attributes
    ----------
    n : int
        Number of people.
    columns : DataFrame
        ``covariate_id``, ``name`` and ``analysis_id`` of each covariate.
    numeric : ndarray of bool, shape (p,)
        Covariates with other values than 0 and 1.
    """

    def __init__(self, features: IntoCovariates) -> None:
        found = Covariates.of(features, "balance")
        self.n, self._values, self._rows, self._ends = (
            found.n, found.values, found.rows, found.indptr,
        )  # fmt: skip
        self.columns = found.columns[["covariate_id", "name", "analysis_id"]].reset_index(drop=True)
        other = np.flatnonzero((self._values != 0) & (self._values != 1))
        self.numeric = np.zeros(len(self.columns), dtype=bool)
        self.numeric[np.searchsorted(self._ends, other, side="right") - 1] = True

    def __call__(self, shares: NDArray, rows: NDArray | None) -> Moments:
        """Compute the moments under each column of shares of some rows, or of all.

        Parameters
        ----------
        shares : ndarray, shape (m, k)
            Weights that sum to one in each column.
        rows : ndarray of int, shape (m,), or None
        """
        if rows is not None:
            spread = np.zeros((self.n, shares.shape[1]))
            spread[rows] = shares
            shares = spread
        return Moments.of(self._chunks(), len(self.columns), shares)

    def _chunks(self) -> Iterable[tuple[slice, sp.csc_array]]:
        return sparse_chunks(self.n, self._ends, self._rows, self._values)

    def within(self, sets: NDArray, rows: NDArray, factor: NDArray) -> NDArray:
        """Sum squared deviations from the means of sets, times the factors of the sets, (p,).

        Parameters
        ----------
        sets, rows : ndarray of int, shape (m,)
            The sets of some people, from 0, and their rows.
        factor : ndarray, shape (s,)
        """
        sizes = np.bincount(sets)
        members = sp.csr_array((np.ones(len(rows)), (rows, sets)), shape=(self.n, len(sizes)))
        made = np.empty(len(self.columns))
        for at, x in self._chunks():
            squares = x.T.power(2) @ (members @ factor)
            made[at] = squares - (x.T @ members).power(2) @ (factor / sizes)
        return np.maximum(made, 0.0)
