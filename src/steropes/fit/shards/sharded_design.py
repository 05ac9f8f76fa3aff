"""A design with rows in blocks, on disk or in other processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ...backends.backend_interface import Backend
from ...data.html_representations import TextInHtml
from ...design_matrix import design_of_numbers
from ...design_matrix.memory_estimate import Columns
from ...design_matrix.single_predictor_design import PlainColumns
from ...errors import DataError
from ...solve.data_term.sharded.shard_messages import joined_rows, sum_in_order
from ..multi_fit_constants import TRANSFER
from .block_interface import Blocks
from .block_sources import FunctionSource, MatrixSource, Source, parquet_sources
from .block_store import BlockStore
from .sharded_columns_by_row import ShardedRows, split_by_block

if TYPE_CHECKING:
    from distributed import Client

    from .dask_worker_blocks import DaskCollection

__all__ = ["ShardedDesign"]


class ShardedDesign(PlainColumns, TextInHtml):
    """The matrix X in blocks of rows, in memory, in files or on the workers of a Dask cluster.

    Estimators accept it as X. They compute sums over rows in the blocks and add them in the order
    of the blocks. The result is therefore that of a single machine up to rounding in the order of
    the sums, and bitwise the same wherever the blocks are.

    Create one with `from_parquet`, `from_blocks` or `from_dask`.

    Parameters
    ----------
    store : private
        Blocks of rows, which the class methods create.
    center : bool
        Whether dense columns are centred.
    intercept : bool
        Whether a column of ones is in front.

    Attributes
    ----------
    n, p : int
        Numbers of rows and columns.
    names : list of str
        Names of the columns.
    nnz : int
        Number of stored entries.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> X = steropes.ShardedDesign.from_blocks([np.array([[0.0], [1.0]]), np.array([[2.0]])])
    >>> X
    ShardedDesign(3 x 1 in 2 blocks)
    >>> steropes.LinearRegression().fit(X, [1.0, 3.0, 5.0]).coef_.round(6).tolist()
    [2.0]
    """

    plain: ClassVar[bool] = False  # columns cannot be read one by one

    def __init__(self, store: BlockStore, center: bool = False, intercept: bool = False) -> None:
        if not isinstance(store, BlockStore):
            raise DataError(
                "Blocks of rows are given as ShardedDesign.from_blocks(blocks), files as "
                "ShardedDesign.from_parquet(path), a Dask collection as "
                "ShardedDesign.from_dask(collection, client)."
            )
        self._store, self._centered, self._has_intercept = store, center, intercept
        self.n = int(sum(store.rows))
        self.names = [*(["intercept"] if intercept else []), *store.names]
        self.p = len(self.names)
        own = store.moments.scale(center)
        self.scale = np.append(1.0, own) if intercept else own
        self.nnz = store.nnz + (self.n if intercept else 0)

    # -- constructors --------------------------------------------------------------------------

    @classmethod
    def from_parquet(
        cls,
        path: str | Path | Iterable[str | Path],
        *,
        columns: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        rows: int = TRANSFER.rows_per_block,
        client: Client | None = None,
        folder: str | Path | None = None,
        memory: float | None = None,
    ) -> ShardedDesign:
        """Create a design from columns of Parquet files.

        Parameters
        ----------
        path : path, or sequence of paths
            Files, or folders whose ``*.parquet`` files are used in the order of their names.
        columns : sequence of str, optional
            Columns of X; by default all that are not in ``exclude``.
        exclude : sequence of str, default=()
            Columns that do not belong to X, such as outcome, weights and strata; see `read`.
        rows : int, default=250000
            Approximate number of rows of a block. Blocks consist of whole row groups, so the rows
            of a person or stratum are in one block if they are in one row group.
        client : dask.distributed.Client, optional
            Cluster with workers that read, keep and process the blocks and have access to the
            files. By default this process does.
        folder : path, optional
            Without a client, a folder in which blocks are kept in files that are read when needed,
            so that X may be larger than memory. The files are deleted with the design.
        memory : float, optional
            With ``folder``, the bytes of memory for columns of the working set; by default 2 GB.
            Blocks beyond it are read from the files in each step.

        Returns
        -------
        ShardedDesign
            The columns of the files.

        Raises
        ------
        DataError
            A file or column is missing, or `as_design` rejects the data, or a column has labels.

        Examples
        --------
        >>> import tempfile
        >>> import pandas as pd
        >>> import steropes
        >>> table = pd.DataFrame({"exposed": [0.0, 1.0, 0.0, 1.0], "y": [1.0, 3.0, 1.0, 3.0]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     table.to_parquet(f"{folder}/people.parquet")
        ...     X = steropes.ShardedDesign.from_parquet(folder, exclude=["y"])
        ...     model = steropes.LinearRegression().fit(X, X.read("y"))
        >>> model.coef_.round(6).tolist()
        [2.0]
        """
        sources: list[Source] = [*parquet_sources(path, columns, exclude, rows)]
        return cls(BlockStore.of(sources, None, client, folder, memory))

    @classmethod
    def from_blocks(
        cls,
        blocks: Iterable[object],
        *,
        names: Sequence[str] | None = None,
        client: Client | None = None,
        folder: str | Path | None = None,
        memory: float | None = None,
    ) -> ShardedDesign:
        """Create a design from blocks, one below the other.

        Parameters
        ----------
        blocks : iterable of matrices, tables or functions
            Blocks with the same columns. Each is a matrix or table that estimators accept as X, or
            a function without arguments that returns one at each call (with a client, on the
            worker).
        names : sequence of str, optional
            Names of the columns, instead of the blocks' own.
        client : dask.distributed.Client, optional
            Cluster with workers that keep and process the blocks. By default this process does.
        folder : path, optional
            Without a client, a folder in which blocks are kept in files that are read when needed,
            so that X may be larger than memory. The files are deleted with the design.
        memory : float, optional
            With ``folder``, the bytes of memory for columns of the working set; by default 2 GB.
            Without it, 0 calls blocks that are functions again whenever their rows are needed, so
            that one block is in memory at a time. The functions must go on returning the same rows.

        Returns
        -------
        ShardedDesign
            The rows of all blocks.

        Raises
        ------
        DataError
            No blocks are given, their columns differ, `as_design` rejects one, or a column has
            labels.

        Examples
        --------
        >>> import numpy as np
        >>> import steropes
        >>> blocks = [np.array([[0.0], [1.0]]), lambda: np.array([[2.0]])]
        >>> steropes.ShardedDesign.from_blocks(blocks).shape
        (3, 1)
        """
        sources: list[Source] = [
            FunctionSource(block) if callable(block) else _matrix_source(number, block, names)
            for number, block in enumerate(blocks)
        ]
        return cls(BlockStore.of(sources, names, client, folder, memory))

    @classmethod
    def from_dask(cls, collection: DaskCollection, client: Client) -> ShardedDesign:
        """Create a design from a Dask data frame or array with one block per partition.

        Parameters
        ----------
        collection : dask.dataframe.DataFrame or dask.array.Array
            A collection that has not been persisted, chunked by rows only. Workers compute its
            partitions, and compute them again if a worker is lost.
        client : dask.distributed.Client
            The cluster with workers that keep and process the blocks.

        Returns
        -------
        ShardedDesign
            The rows of all partitions.
        """
        from .dask_worker_blocks import partitions

        sources: list[Source] = [FunctionSource(part) for part in partitions(collection)]
        return cls(BlockStore.of(sources, None, client, None, None))

    # -- for users -----------------------------------------------------------------------------

    @property
    def rows(self) -> list[int]:
        """The number of rows of each block."""
        return list(self._store.rows)

    def __repr__(self) -> str:
        """Describe the size of the design."""
        return f"ShardedDesign({self.n} x {self.p} in {len(self.rows)} blocks)"

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """Raise `DataError`, since the rows may not fit into memory or are elsewhere."""
        raise DataError(
            "A ShardedDesign is for fit, predict and score, but this needs rows in memory. Give "
            "the rows of interest as a table or matrix."
        )

    def read(self, column: str) -> np.ndarray:
        """Read a column of the files, such as the outcome, in the order of the rows.

        Parameters
        ----------
        column : str
            Name of a column.

        Returns
        -------
        (n,) array
            The values.
        """
        return np.concatenate([s.column(column) for s in self._store.sources])

    def stored(self) -> Columns:
        """Count the stored entries of each column.

        Returns
        -------
        Columns
            The number of rows, the stored entries of each column, and whether they have values.
        """
        m = self._store.moments
        return Columns(self.n, m.counts, ~m.ones)

    # -- for models, see `DesignLike` ------------------------------------------------------------

    @property
    def blocks(self) -> Blocks:
        """The blocks, with their common scale and centre."""
        return self._store.blocks(self._centered, self._has_intercept)

    @property
    def center(self) -> np.ndarray:
        """Value subtracted from each column, (p,), in the user's units."""
        own = self._store.moments.center() if self._centered else np.zeros(len(self._store.names))
        return np.append(0.0, own) if self._has_intercept else own

    def centered(self, counted: np.ndarray | None = None) -> ShardedDesign:
        """Return the design with dense columns centred.

        Parameters
        ----------
        counted : (n,) bool array, optional
            Rows that determine centre and scale. Default: all.

        Returns
        -------
        ShardedDesign
            A design with other ``center`` and ``scale``.
        """
        return ShardedDesign(self._store.scaled_by_rows(counted), True, self._has_intercept)

    def scaled_by(self, counted: np.ndarray) -> ShardedDesign:
        """Return the design scaled by the size of its columns in some rows.

        Parameters
        ----------
        counted : (n,) bool array
            Rows that determine the scale.

        Returns
        -------
        ShardedDesign
            A design with another ``scale``.
        """
        return ShardedDesign(
            self._store.scaled_by_rows(counted), self._centered, self._has_intercept
        )

    def uncentered(self) -> ShardedDesign:
        """Return the design without centring.

        Returns
        -------
        ShardedDesign
            A design with ``center`` zero.
        """
        return ShardedDesign(self._store, False, self._has_intercept)

    def with_intercept(self) -> ShardedDesign:
        """Return the design with a column of ones in front.

        Returns
        -------
        ShardedDesign
            A design that shares the blocks' data.
        """
        return ShardedDesign(self._store, self._centered, True)

    def matmul(self, D: np.ndarray, backend: Backend) -> np.ndarray:
        """Compute X D in the scaled columns; the blocks send n × B numbers.

        Parameters
        ----------
        D : (p, B) array
            Vectors over columns.
        backend : Backend
            Ignored; blocks multiply on the CPU, or on the device of the fit.

        Returns
        -------
        (n, B) array
            The products.
        """
        D = np.asarray(D)
        chosen = np.flatnonzero(np.any(D != 0, axis=1))
        blocks = self.blocks
        own: list[tuple[object, ...]] = [()] * len(blocks.rows)
        return joined_rows(blocks.call("products", (chosen, D[chosen]), own), blocks.rows)

    def rmatmul(
        self, R: np.ndarray, backend: Backend, chosen: np.ndarray | None = None
    ) -> np.ndarray:
        """Compute X[:, chosen]' R in the scaled columns; the blocks receive n × B numbers.

        Parameters
        ----------
        R : (n, B) array
            Vectors over rows.
        backend : Backend
            Ignored; blocks multiply on the CPU, or on the device of the fit.
        chosen : (k,) int array, optional
            Positions of columns. Default: all.

        Returns
        -------
        (k, B) array
            The products.
        """
        blocks = self.blocks
        parts = blocks.call("transposed", (chosen,), [(r,) for r in split_by_block(R, blocks.rows)])
        return sum_in_order(parts)

    def by_rows(
        self, chosen: np.ndarray, order: np.ndarray | None, backend: Backend
    ) -> ShardedRows:
        """Select chosen columns by rows in the model's row order.

        Parameters
        ----------
        chosen : (k,) int array
            Positions of columns.
        order : (n,) int array or None
            The row of X for each row of the model; None for the order of X.
        backend : Backend
            The backend of the model.

        Returns
        -------
        ShardedRows
            Products with these columns in all blocks.
        """
        return ShardedRows(self.blocks, chosen, order, backend)


def _matrix_source(number: int, block: object, names: Sequence[str] | None) -> MatrixSource:
    """Convert a block that is a matrix or table; errors name the block."""
    try:
        return MatrixSource(design_of_numbers(block, names))
    except DataError as error:
        raise DataError(f"Block {number}: {error}") from None
