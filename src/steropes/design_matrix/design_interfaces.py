"""The interfaces of designs and their rows, on which the other packages rely.

A *design* stores all columns of X by columns; *rows* store some of them by rows in the model's
order for the repeated products of the solver. Both map coefficients to rows of η, of which a row
of X may have several. Special properties are declared (``plain``, ``layout``), so the solver never
tests for a class. Columns are scaled. B is the number of replicates, always the last dimension.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..backends.backend_interface import Array, Backend, SparseLines
from .column_storage import Block

__all__ = [
    "ChannelLike",
    "ColumnStore",
    "ColumnsByRows",
    "DesignLike",
    "PieceLike",
    "PlainDesign",
    "RowsLike",
]


class DesignLike(Protocol):
    """A matrix from coefficients to rows of η, never copied for a fold and never reordered.

    Attributes
    ----------
    plain : bool
        Whether rows of η are rows of X and each column is stored separately (`ColumnStore`).
        Otherwise several rows of η, or several columns, share stored entries.
    n, p : int
        Number of rows of X, to which weights and offsets refer, and of columns.
    names : sequence of str
        Names of the columns.
    scale : (p,) array
        Powers of two by which coefficients in X's units are multiplied for the scaled columns.
    """

    plain: ClassVar[bool]
    n: int
    p: int
    names: list[str]
    scale: NDArray[np.float64]

    @property
    def nnz(self) -> int:
        """Number of stored entries."""

    @property
    def center(self) -> NDArray[np.float64]:
        """Value subtracted from each column, (p,), in the user's units."""

    def centers_at(self, beta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Compute the linear predictor at the columns' centres in each interval of time, (Q,).

        β is in X's units. Q is 1 unless effects change with time.
        """

    def uncentered_coefficients(self, beta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert coefficients (p,) or (p, m), in X's units, to uncentred columns."""

    def uncentered(self) -> DesignLike:
        """Return the design with uncentred columns."""

    def matmul(self, D: NDArray[np.float64], backend: Backend) -> Array:
        """Compute X D: D (p, B) → (rows of η, B)."""

    def rmatmul(self, R: Array, backend: Backend, chosen: NDArray[np.int64] | None = None) -> Array:
        """Compute X[:, chosen]' R: R (rows of η, B) → (len(chosen), B); default all columns."""

    def by_rows(
        self, chosen: NDArray[np.int64], order: NDArray[np.int64] | None, backend: Backend
    ) -> ColumnsByRows:
        """Store chosen columns by rows; ``order`` is the row of X for each row of the model."""


class ColumnStore(DesignLike, Protocol):
    """A plain design with access to individual columns."""

    blocks: list[Block]

    def columns(
        self, chosen: NDArray[np.int64]
    ) -> Iterable[tuple[Block, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield (block, columns within it, positions in ``chosen``) for each block used."""


class _Rows(Protocol):
    """Products of chosen columns in the model's order of rows, common to all layouts.

    Attributes
    ----------
    layout : str
        The kind of rows.
    n, k : int
        Number of rows of η and of columns.
    chosen : (k,) int array
        Columns of the design.
    lines : sparse lines or None
        Entries of X's sparse columns, which several rows of η may share.
    """

    backend: Backend
    n: int
    k: int
    chosen: NDArray[np.int64]
    lines: SparseLines | None

    @property
    def entries(self) -> int:
        """Number of stored entries, including those of dense columns."""

    def grown(self, design: Any, chosen: NDArray[np.int64], order: NDArray[np.int64] | None) -> Any:
        """Build the rows of ``chosen``, which begins with these columns; replaces the object."""

    def matmul(self, D: Array) -> Array:
        """Compute X D: (k, B) → (n, B)."""

    def rmatmul(self, R: Array) -> Array:
        """Compute X' R: (n, B) → (k, B)."""

    def diagonal(self, v: Array) -> Array:
        """Compute Σ_i v_i x_ij² of each column, (k,)."""


class RowsLike(_Rows, Protocol):
    """Rows with one row of X for each row of η.

    Attributes
    ----------
    dense : (n, d) array or None
        The dense columns, at the positions ``dense_at``; those of ``lines`` are at ``sparse_at``.
    """

    layout: ClassVar[Literal["rows"]]
    dense: Array | None
    sparse_at: NDArray[np.int64]
    dense_at: NDArray[np.int64]

    def gram(self, v: Array, first: int = 0, rough: bool = False) -> Array:
        """Compute Σ_i v_i x_i x_i', (k, k); rows before ``first`` need not be computed.

        With ``rough``, single precision suffices.
        """

    def diagonals(self, V: Array) -> Array:
        """Compute `diagonal` for several v: (n, B) → (k, B)."""

    def sums(
        self, u: Array, pointers: NDArray[np.int64], lines: NDArray[np.int64] | None = None
    ) -> Array:
        """Compute Σ u_i x_i over each run of rows pointers[s] … pointers[s + 1] − 1, (s, k).

        With ``lines`` (L,), a stream of row numbers, ``u`` (L,) and the pointers refer to the
        stream.
        """

    def taken(self, people: NDArray[np.int64]) -> RowsLike:
        """Select rows, each at most once."""

    def between(self, first: int, last: int) -> NDArray[np.float64]:
        """Return the rows first … last − 1 as a dense array, (last − first, k)."""


class PlainDesign(DesignLike, Protocol):
    """A design with one row of X for each row of η, local or in shards."""

    def centered(self, counted: NDArray[np.bool_] | None = None) -> PlainDesign:
        """Return the design with dense columns centred, if possible over ``counted``."""

    def uncentered(self) -> PlainDesign:
        """See `DesignLike.uncentered`."""

    def by_rows(
        self, chosen: NDArray[np.int64], order: NDArray[np.int64] | None, backend: Backend
    ) -> RowsLike:
        """See `DesignLike.by_rows`."""


class PieceLike(_Rows, Protocol):
    """Rows of X in pieces, one for each interval of time, where columns act in some intervals."""

    layout: ClassVar[Literal["pieces"]]

    def intervals(
        self, first: int = 0
    ) -> Iterator[
        tuple[slice, RowsLike, NDArray[np.int64], NDArray[np.int64], int, np.ndarray | None]
    ]:
        """Yield the data of each interval for its part of a Hessian.

        These are its contiguous rows of η, their rows of X, the positions of the columns that act
        in it, the corresponding columns of X, the first of the latter that the columns from
        ``first`` on need, and the factors of the columns, None for ones.
        """


class ChannelLike(_Rows, Protocol):
    """Several linear predictors (channels) per row of X, stacked, followed by a baseline.

    Attributes
    ----------
    X : rows
        The columns of X that occur, each once.
    places : list of (int array, int array)
        The columns of each channel and the corresponding columns of X.
    baseline_at, baseline : (M,) int array, (K, M) array
        Positions and values of the columns of the baseline.
    has_rest : bool
        Whether columns of X also have entries in the rows of the baseline.
    """

    layout: ClassVar[Literal["channels"]]
    X: RowsLike
    places: list[tuple[NDArray[np.int64], NDArray[np.int64]]]
    baseline_at: NDArray[np.int64]
    baseline: NDArray[np.float64]

    @property
    def has_rest(self) -> bool:
        """Whether columns of X have entries in the rows of the baseline."""

    def extended(self) -> ChannelLike:
        """Move the entries in the rows of the baseline to separate columns at the end."""

    def fold(self, H: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert a Hessian over the `extended` columns to one over these columns, (k, k)."""


ColumnsByRows = RowsLike | PieceLike | ChannelLike
