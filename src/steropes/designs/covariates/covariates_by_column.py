"""The covariates of people, stored column by column, with statistics of each column."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias

import narwhals as nw
import numpy as np
import pandas as pd
import scipy.sparse as sp
from narwhals.exceptions import DuplicateError
from narwhals.typing import IntoDataFrame
from numpy.typing import ArrayLike, NDArray

from steropes.data.html_representations import TextInHtml
from steropes.design_matrix import Design, as_design
from steropes.errors import DataError

__all__ = ["Covariates", "IntoCovariates", "with_statistics"]

IntoCovariates: TypeAlias = "Covariates | IntoDataFrame | sp.sparray | sp.spmatrix | ArrayLike"


@dataclass(frozen=True, repr=False, eq=False)
class Covariates(TextInHtml):
    """Covariates of people by columns: nothing is dropped or scaled.

    Attributes
    ----------
    n : int
        Number of people.
    indptr : ndarray of int, shape (p + 1,)
        Start of the entries of each column in ``rows`` and ``values``, and their end.
    rows : ndarray of int
        Row of each entry; zeros are not stored.
    values : ndarray
        Value of each entry: column j has ``values[indptr[j]:indptr[j + 1]]``.
    columns : DataFrame
        One row per column, by id: ``covariate_id``, ``name``, ``analysis_id`` (the family of the
        covariate, 0 for none), ``people`` (the number with a value), ``largest`` and ``binary``.

    Raises
    ------
    DataError
        A value is not finite.

    See Also
    --------
    covariate_balance : Compare the covariates of two arms.
    fit_scores : Fit a propensity model to them.

    Examples
    --------
    >>> import pandas as pd
    >>> from steropes.designs import Covariates
    >>> covariates = Covariates.of(pd.DataFrame({"male": [1, 0, 1], "age": [70, 64, 51]}))
    >>> covariates.take([0, 2]).column(1)
    array([70., 51.])
    """

    n: int
    indptr: NDArray
    rows: NDArray
    values: NDArray
    columns: pd.DataFrame

    def __post_init__(self) -> None:
        """Refuse values that are not finite."""
        finite = np.isfinite(self.values)
        if not finite.all():
            at = int(np.argmin(finite))
            column = int(np.searchsorted(self.indptr, at, side="right")) - 1
            raise DataError(
                f"covariate {self.columns['covariate_id'].iloc[column]} has a value that is not "
                f"finite in row {self.rows[at]}; leave the value out or correct it"
            )

    def __repr__(self) -> str:
        return f"Covariates({len(self.columns):,} covariates)"

    @classmethod
    def of(cls, values: IntoCovariates, label: str = "covariates") -> Covariates:
        """Create covariates from a table or matrix of people by columns.

        Parameters
        ----------
        values : Covariates, data frame, sparse matrix or array_like, shape (n, p)
            Numbers. Columns without names are called x0, x1 and so on; ids are 0 to p − 1, and
            ``analysis_id`` is 0.
        label : str, default "covariates"
            Use of the values, for error messages.

        Returns
        -------
        Covariates
            The covariates; the argument itself if it is one.

        Raises
        ------
        DataError
            A value is not a finite number, or there are not two dimensions.

        Examples
        --------
        >>> import pandas as pd
        >>> from steropes.designs import Covariates
        >>> people = pd.DataFrame({"male": [1, 0, 1], "age": [70, 64, 51]})
        >>> Covariates.of(people).columns[["name", "people", "largest", "binary"]]
           name  people  largest  binary
        0  male       2      1.0    True
        1   age       3     70.0   False
        """
        if isinstance(values, Covariates):
            return values
        try:
            frame = nw.from_native(values, pass_through=True, eager_only=True)
        except DuplicateError:
            raise DataError(
                f"{label}: two covariates have the same name; rename or drop those that repeat"
            ) from None
        given: Any
        if isinstance(frame, nw.DataFrame):
            names, given = list(map(str, frame.columns)), frame.to_numpy()
        else:
            given = values if sp.issparse(values) else np.asarray(values)
            if given.ndim != 2:
                raise DataError(f"{label}: covariates of shape {given.shape}; (n, p) is needed")
            names = [f"x{j}" for j in range(given.shape[1])]
        try:
            x = sp.csr_array(given.T, dtype=float, copy=True)
        except (TypeError, ValueError):
            raise DataError(
                f"{label}: covariates must be numbers; encode categories as 0/1"
            ) from None
        if not np.isfinite(x.data).all():
            entry = int(np.argmin(np.isfinite(x.data)))
            name = names[int(np.searchsorted(x.indptr, entry, side="right")) - 1]
            raise DataError(
                f"{label}: covariate {name!r} of row {x.indices[entry]} is no finite number"
            )
        x.sum_duplicates()
        x.eliminate_zeros()
        ids = np.arange(len(names), dtype=np.int64)
        columns = pd.DataFrame({"covariate_id": ids, "name": names, "analysis_id": 0})
        indptr = x.indptr.astype(np.int64)
        table = with_statistics(columns, indptr, x.data)
        return Covariates(x.shape[1], indptr, x.indices.astype(np.int32), x.data, table)

    def take(self, people: NDArray) -> Self:
        """Select people; all columns are kept.

        Parameters
        ----------
        people : ndarray of int, shape (k,)
            Row numbers, ascending.

        Returns
        -------
        Covariates
            The covariates of these people; this object if they are all.

        Raises
        ------
        DataError
            The numbers do not ascend, or there are no such rows.
        """
        people = np.asarray(people)
        if people.dtype == bool or not (np.diff(people, prepend=-1, append=self.n) > 0).all():
            raise DataError(f"people must be ascending numbers of rows from 0 to {self.n - 1}")
        if len(people) == self.n:
            return self
        place = np.full(self.n, -1, dtype=np.int32)
        place[people] = np.arange(len(people), dtype=np.int32)
        kept = place[self.rows] >= 0
        counts = np.zeros(len(kept) + 1, dtype=np.int64)
        np.cumsum(kept, out=counts[1:])
        indptr = counts[self.indptr]
        del counts
        rows, values = place[self.rows[kept]], self.values[kept]
        return replace(
            self,
            n=len(people),
            indptr=indptr,
            rows=rows,
            values=values,
            columns=with_statistics(self.columns, indptr, values),
        )

    def select(self, columns: NDArray) -> Self:
        """Select columns.

        Parameters
        ----------
        columns : ndarray of int, shape (k,)
            Positions of the columns.

        Returns
        -------
        Covariates
            These columns of all people.
        """
        sizes = np.diff(self.indptr)[columns]
        indptr = np.concatenate(([0], np.cumsum(sizes)))
        at = np.repeat(self.indptr[columns] - indptr[:-1], sizes) + np.arange(indptr[-1])
        table = self.columns.iloc[columns].reset_index(drop=True)
        return replace(
            self, indptr=indptr, rows=self.rows[at], values=self.values[at], columns=table
        )

    def column(self, covariate_id: int) -> NDArray:
        """Return one covariate of all people.

        Parameters
        ----------
        covariate_id : int
            Id of the covariate.

        Returns
        -------
        ndarray, shape (n,)
            Its values, zero for people without a record.

        Raises
        ------
        DataError
            None of these people has the covariate.
        """
        found = np.flatnonzero(self.columns["covariate_id"] == covariate_id)
        if len(found) == 0:
            raise DataError(f"unknown covariate {covariate_id}: nobody among these people has it")
        at = slice(self.indptr[found[0]], self.indptr[found[0] + 1])
        dense = np.zeros(self.n)
        dense[self.rows[at]] = self.values[at]
        return dense

    def matrix(self) -> Any:
        """Return the covariates as a sparse matrix.

        Returns
        -------
        csc_array, shape (n, p)
            The values in double precision.
        """
        from scipy.sparse import csc_array

        shape = (self.n, len(self.columns))
        # Packages with compiled code often need indices of 32 bits.
        small = len(self.rows) <= np.iinfo(np.int32).max
        indptr = self.indptr.astype(np.int32) if small else self.indptr
        return csc_array((self.values.astype(float), self.rows, indptr), shape=shape)

    def design(self) -> Design:
        """Return the columns with their names, for models and methods of adjustment.

        Returns
        -------
        Design
            The columns, (n, p).

        Raises
        ------
        DataError
            A value is too large or too small for a model.

        Examples
        --------
        >>> import pandas as pd
        >>> from steropes.designs import Covariates
        >>> Covariates.of(pd.DataFrame({"male": [1, 0, 1], "age": [70, 64, 51]})).design().names
        ['male', 'age']
        """
        return as_design(self.matrix(), list(map(str, self.columns["name"])))

    def beside(self, other: IntoCovariates) -> Covariates:
        """Add the columns of other covariates of the same people.

        Parameters
        ----------
        other : Covariates, data frame, sparse matrix or array_like, shape (n, q)
            Covariates in the same order of people, such as age and sex.

        Returns
        -------
        Covariates
            The columns of both, numbered from 0; ``analysis_id`` of the others is kept.

        Raises
        ------
        DataError
            The numbers of people differ, or a name occurs twice.

        Examples
        --------
        >>> import pandas as pd
        >>> from steropes.designs import Covariates
        >>> codes = Covariates.of(pd.DataFrame({"I10": [1, 0, 1]}))
        >>> codes.beside(pd.DataFrame({"age": [70, 64, 51]})).columns["name"].tolist()
        ['I10', 'age']
        """
        more = Covariates.of(other)
        if more.n != self.n:
            raise DataError(f"covariates of {more.n} people cannot join those of {self.n}")
        columns = pd.concat([self.columns, more.columns], ignore_index=True)
        twice = columns["name"].duplicated().to_numpy()
        if twice.any():
            name = columns["name"].iloc[int(twice.argmax())]
            raise DataError(f"both covariates have the name {name!r}; rename one")
        indptr = np.concatenate((self.indptr, more.indptr[1:] + self.indptr[-1]))
        return Covariates(
            self.n,
            indptr,
            np.concatenate((self.rows, more.rows)),
            np.concatenate((self.values, more.values)),
            columns.assign(covariate_id=np.arange(len(columns), dtype=np.int64)),
        )


def with_statistics(columns: pd.DataFrame, indptr: NDArray, values: NDArray) -> pd.DataFrame:
    """Add the number of people, the largest value and the 0/1 property of each column."""
    sizes = np.diff(indptr)
    filled = np.flatnonzero(sizes)
    largest = np.zeros(len(sizes))
    smallest = np.zeros(len(sizes))
    if len(filled):
        largest[filled] = np.maximum.reduceat(values, indptr[filled])
        smallest[filled] = np.minimum.reduceat(values, indptr[filled])
    return columns.assign(
        people=sizes, largest=largest, binary=(sizes == 0) | ((largest == 1) & (smallest == 1))
    )
