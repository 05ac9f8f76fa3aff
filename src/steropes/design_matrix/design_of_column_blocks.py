"""The design matrix as blocks of columns, never copied for a fold and never reordered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from ..backends.backend_interface import Backend
from ..backends.reductions_of_tall_arrays import transposed_product
from ..data.html_representations import TextInHtml
from ..data.input_types import LabelsLike, TableLike
from ..errors import DataError
from .category_coding import CategoryCoding
from .column_storage import Block, ConstantBlock, DenseBlock, SparseBlock
from .design_from_long_tables import blocks_of_long
from .design_from_positions_of_ones import block_of_entries
from .design_interfaces import RowsLike
from .memory_estimate import Columns
from .single_predictor_design import PlainColumns

__all__ = ["Design"]


class Design(PlainColumns, TextInHtml):
    """The matrix X of a model, (n, p), as blocks of columns.

    Estimators accept arrays, sparse matrices and data frames, so most users need no `Design`. Build
    one to stream 0/1 covariates from a database (`from_entries`) or to use one X for many fits
    without repeated conversion (`steropes.as_design`).

    Parameters
    ----------
    blocks : sequence of blocks
        Columns of each kind, with the same number of rows.
    names : sequence of str, optional
        Names of the columns, by default ``x0``, ``x1`` and so on.

    Attributes
    ----------
    n : int
        Number of rows.
    p : int
        Number of columns.
    names : list of str
        Names of the columns.
    scale : (p,) array
        Powers of two by which the stored columns are divided.

    Raises
    ------
    DataError
        If blocks differ in rows, or names in number from columns.

    See Also
    --------
    as_design : Convert a matrix or table.
    ShardedDesign : A matrix in blocks of rows.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> X = steropes.as_design(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), names=["a", "b"])
    >>> X.shape, X.names
    ((3, 2), ['a', 'b'])
    >>> steropes.LogisticRegression(prior=steropes.Normal()).fit(X, [0, 1, 1]).coef_.shape
    (2,)
    """

    plain: ClassVar[bool] = True  # rows of η are rows of X, and columns are stored as they are
    # Levels of the columns of labels in the table from which the design was made.
    coding: CategoryCoding | None = None
    # Whether no one else holds the dense columns, so that they may be centred where they are.
    fresh: bool = False

    def __init__(self, blocks: Sequence[Block], names: Sequence[str] | None = None) -> None:
        self.blocks = list(blocks)
        if not self.blocks:
            raise DataError("A design needs at least one block of columns.")
        if not all(isinstance(b, Block) for b in self.blocks):
            raise DataError(
                "A Design consists of blocks of columns; convert a matrix or table by as_design(X)."
            )
        self.n = self.blocks[0].n
        if any(b.n != self.n for b in self.blocks):
            raise DataError(f"Blocks differ in rows: {[b.n for b in self.blocks]}.")
        sizes = [b.p for b in self.blocks]
        self.p = int(sum(sizes))
        self.block_start = np.concatenate([[0], np.cumsum(sizes)])
        self.scale = np.concatenate([b.scale for b in self.blocks])
        names = [f"x{j}" for j in range(self.p)] if names is None else [str(s) for s in names]
        if len(names) != self.p:
            raise DataError(f"{len(names)} names for {self.p} columns.")
        self.names = names
        self._has_intercept = isinstance(self.blocks[0], ConstantBlock)

    def __repr__(self) -> str:
        return f"Design({self.n} x {self.p}, {self.nnz} stored entries)"

    @property
    def nnz(self) -> int:
        """Number of stored entries."""
        return int(sum(b.entries if isinstance(b, SparseBlock) else b.n * b.p for b in self.blocks))

    @classmethod
    def from_entries(
        cls, batches: Iterable[tuple[np.ndarray, np.ndarray]], n_rows: int, names: Sequence[str]
    ) -> Design:
        """Build 0/1 columns from a stream of the positions of the ones.

        Parameters
        ----------
        batches : iterable of (rows, columns)
            Integer arrays, sorted by column and then row over the whole stream, no duplicates.
        n_rows : int
            Number of rows of X.
        names : sequence of str
            Names of the p columns; a column that never occurs is zero.

        Returns
        -------
        Design
            A design of indicator columns.

        Raises
        ------
        DataError
            If entries are out of range, out of order or repeated.

        Examples
        --------
        >>> import numpy as np
        >>> import steropes
        >>> batches = [(np.array([0, 2]), np.array([0, 0])), (np.array([1]), np.array([1]))]
        >>> X = steropes.Design.from_entries(batches, n_rows=3, names=["a", "b"])
        >>> X
        Design(3 x 2, 3 stored entries)
        """
        return cls([block_of_entries(batches, n_rows, names)], names)

    @classmethod
    def from_long(
        cls,
        table: TableLike,
        rows: LabelsLike,
        *,
        row: str = "rowId",
        covariate: str = "covariateId",
        value: str | None = "covariateValue",
        names: Mapping[str, str] | Mapping[int, str] | None = None,
    ) -> Design:
        """Build a design from a table with a row for each covariate of a person.

        This is the format of OHDSI's FeatureExtraction: ``rowId, covariateId, covariateValue``. A
        missing entry means the value 0.

        Parameters
        ----------
        table : pandas, polars or pyarrow table
            The long table.
        rows : (n,) labels
            Ids of all people in the order of y. People without covariates get a row of zeros;
            entries of people who are not listed raise an error.
        row, covariate : str
            The columns of the table that hold the person and the covariate.
        value : str or None
            The column with the values; None if all of them are one.
        names : mapping, optional
            Maps covariates to names of columns. Default: their ids as text.

        Returns
        -------
        Design
            Columns in the order of the covariates' ids.

        Raises
        ------
        DataError
            If a pair of person and covariate occurs twice, a person is not in ``rows`` or values
            are missing.

        Examples
        --------
        >>> import pandas as pd, steropes
        >>> table = pd.DataFrame({"rowId": [7, 9, 9], "covariateId": [1002, 1002, 8507],
        ...                       "covariateValue": [61.0, 48.0, 1.0]})
        >>> steropes.Design.from_long(table, rows=[9, 8, 7]).names
        ['1002', '8507']
        """
        found = blocks_of_long(table, rows, row=row, covariate=covariate, value=value, names=names)
        return cls(*found)

    def stored(self) -> Columns:
        """Count the stored entries of each column.

        Returns
        -------
        Columns
            The number of rows, the stored entries of each column, and whether they have values.
        """
        entries, values = [], []
        for b in self.blocks:
            if isinstance(b, SparseBlock):
                entries.append(np.diff(b.indptr))
                values.append(np.full(b.p, len(b.data) > 0))
            else:
                entries.append(np.full(b.p, b.n))
                values.append(np.ones(b.p, bool))
        return Columns(self.n, np.concatenate(entries), np.concatenate(values))

    # -- columns -----------------------------------------------------------------------------

    def with_intercept(self) -> Design:
        """Return the same design with a column of ones in front.

        Returns
        -------
        Design
            A design that shares the columns.
        """
        return Design([ConstantBlock(self.n), *self.blocks], ["intercept", *self.names])

    def only(self, kept: np.ndarray) -> Design:
        """Return a design of some columns.

        Parameters
        ----------
        kept : (k,) int array
            Positions of the columns, ascending.

        Returns
        -------
        Design
            A design of k columns.
        """
        blocks = [block.only(local) for block, local, _ in self.columns(kept)]
        return Design(blocks, [self.names[j] for j in kept])

    def centered(self, counted: np.ndarray | None = None, led: bool = False) -> Design:
        """Return the same design with dense columns centred, for models that allow a shift.

        Parameters
        ----------
        counted : (n,) bool array, optional
            Rows from which centre and scale are computed. Default: all.
        led : bool, default False
            Whether dense columns, if they are one block, are stored with a column of ones for an
            intercept.

        Returns
        -------
        Design
            A design with other ``center`` and ``scale``.
        """
        return self._standardized(True, counted, led)

    def scaled_by(self, counted: np.ndarray) -> Design:
        """Return the same design scaled by the size of its columns in some rows.

        Parameters
        ----------
        counted : (n,) bool array
            Rows from which the scale is computed.

        Returns
        -------
        Design
            A design with another ``scale``.
        """
        return self._standardized(False, counted)

    def _standardized(self, center: bool, counted: np.ndarray | None, led: bool = False) -> Design:
        """Scale columns by the rows ``counted`` and centre dense ones if requested."""
        blocks: list[Block] = []
        led = led and sum(isinstance(b, DenseBlock) for b in self.blocks) == 1
        for b in self.blocks:
            if isinstance(b, DenseBlock):
                z = DenseBlock.standardized(b.values, center, counted, reuse=self.fresh, led=led)
                b = replace(z, center=b.center + z.center * b.scale, scale=b.scale * z.scale)
            elif isinstance(b, SparseBlock) and counted is not None and counted.any():
                b = b.scaled_by(counted)
            blocks.append(b)
        out = self.with_blocks(blocks)
        if self.fresh:  # Both designs share the columns, to keep one copy.
            self.blocks, self.scale, self.fresh = out.blocks, out.scale, False
        return out

    def with_blocks(self, blocks: Sequence[Block]) -> Design:
        """Return a design of the same columns in other storage.

        Parameters
        ----------
        blocks : sequence of blocks
            The columns in the same order.

        Returns
        -------
        Design
            A design with the same names.
        """
        return Design(blocks, self.names)

    @property
    def center(self) -> np.ndarray:
        """Value subtracted from each column, (p,), in the user's units."""
        return np.concatenate(
            [b.center if isinstance(b, DenseBlock) else np.zeros(b.p) for b in self.blocks]
        )

    def uncentered(self) -> Design:
        """Return the same design with every column as the user gave it.

        Returns
        -------
        Design
            A design with ``center`` zero.
        """
        if not self.center.any():
            return self
        blocks = [
            replace(b, values=b.values + b.center / b.scale, center=np.zeros(b.p), led=None)
            if isinstance(b, DenseBlock)
            else b
            for b in self.blocks
        ]
        return self.with_blocks(blocks)

    def columns(self, chosen: np.ndarray) -> Iterable[tuple[Block, np.ndarray, np.ndarray]]:
        """Yield the blocks that contain chosen columns.

        Parameters
        ----------
        chosen : (k,) int array
            Positions of columns.

        Yields
        ------
        block : Block
            Columns of one kind.
        local : int array
            Positions of the chosen columns within the block.
        at : int array
            Their positions in ``chosen``.
        """
        chosen = np.asarray(chosen)
        if len(self.blocks) == 1:
            if len(chosen):
                yield self.blocks[0], chosen, np.arange(len(chosen))
            return
        block = np.searchsorted(self.block_start, chosen, side="right") - 1
        by = np.argsort(block, kind="stable")
        ends = np.cumsum(np.bincount(block, minlength=len(self.blocks)))
        for b, at in enumerate(np.split(by, ends[:-1])):
            if len(at):
                yield self.blocks[b], chosen[at] - self.block_start[b], at

    def by_rows(self, chosen: np.ndarray, order: np.ndarray | None, backend: Backend) -> RowsLike:
        """Store chosen columns by rows in the model's row order.

        Parameters
        ----------
        chosen : (k,) int array
            Positions of columns.
        order : (n,) int array or None
            The row of X for each row of the model; None for the order of X.
        backend : Backend
            The backend that computes products.

        Returns
        -------
        RowMatrix
            The columns by rows.
        """
        from .working_columns_by_row import RowMatrix  # avoids a circular import

        return RowMatrix(self, chosen, order, backend)

    # -- products, in the scaled columns -------------------------------------------------------

    def rmatmul(
        self, R: np.ndarray, backend: Backend, chosen: np.ndarray | None = None
    ) -> np.ndarray:
        """Compute X[:, chosen]' R in the scaled columns.

        Parameters
        ----------
        R : (n, B) array
            Vectors over rows.
        backend : Backend
            The backend that computes the product.
        chosen : (k,) int array, optional
            Positions of columns. Default: all.

        Returns
        -------
        (k, B) array
            The products.
        """
        chosen = np.arange(self.p) if chosen is None else chosen
        out = backend.xp.zeros((len(chosen), R.shape[1]))
        for b, local, at in self.columns(chosen):
            if isinstance(b, SparseBlock):
                out[at] = backend.gather(backend.lines(b.taken(local)), R)
            elif isinstance(b, DenseBlock):
                x = b.taken(local, backend)
                out[at] = transposed_product(x, R) if backend.on_host else x.T @ R
            else:
                whole = R.dtype == np.float64
                out[at] = backend.column_sum(R) if whole else R.sum(axis=0, dtype=np.float64)
        return out

    def matmul(self, D: np.ndarray, backend: Backend) -> np.ndarray:
        """Compute X D in the scaled columns, skipping zero rows of D.

        Parameters
        ----------
        D : (p, B) array
            Vectors over columns.
        backend : Backend
            The backend that computes the product.

        Returns
        -------
        (n, B) array
            The products.
        """
        out = None  # the product of the first block, so that no further array is needed
        chosen = np.flatnonzero(np.any(backend.to_host(D) != 0, axis=1))
        for b, local, at in self.columns(chosen):
            d = backend.asarray(D[chosen[at]])
            if isinstance(b, SparseBlock):
                product = backend.scatter(backend.lines(b.taken(local)), d)
            elif isinstance(b, DenseBlock):
                here = backend.on_host
                product = b.times(local, d) if here else b.taken(local, backend) @ d
            else:
                product = backend.xp.zeros((self.n, D.shape[1])) + d
            if out is None:
                out = product
            else:
                out += product
        return backend.xp.zeros((self.n, D.shape[1])) if out is None else out
