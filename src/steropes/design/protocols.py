"""What a design and its rows owe: the one list of what the other rooms may ask of X.

A *design* is X by columns, whole; *rows* are some of its columns by rows, in the model's order,
which is what the solver reads again and again. Both map coefficients to rows of η, of which there
may be several for a row of X: what is special about a design is declared (``plain``, ``layout``),
never a question for its class. All columns are the scaled ones. B is the number of replicates,
always the last dimension.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..backends.protocols import Array, Backend, SparseLines
from .column_storage import Block

__all__ = [
    "AnyRows",
    "ChannelLike",
    "ColumnStore",
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
        Whether rows of η are rows of X and each column is stored as it is (`ColumnStore`);
        otherwise several rows of η, or several columns, share what is stored.
    n, p : int
        Rows of X, which weights and offsets go with; columns.
    names : sequence of str
    scale : (p,) array
        A coefficient in X's units times this is that of the scaled column; powers of two.
    """

    plain: ClassVar[bool]
    n: int
    p: int
    names: list[str]
    scale: NDArray[np.float64]

    @property
    def nnz(self) -> int:
        """Stored entries."""

    @property
    def center(self) -> NDArray[np.float64]:
        """What was subtracted from each column, (p,), in the user's units."""

    def centers_at(self, beta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Linear predictor of the columns' centres in each interval of time, (Q,); Q is 1 mostly.

        β is in X's units.
        """

    def uncentered_coefficients(self, beta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Coefficients (p,) or (p, m), in X's units, as those of the columns at X = 0."""

    def uncentered(self) -> DesignLike:
        """The same design with every column as the user gave it."""

    def matmul(self, D: NDArray[np.float64], backend: Backend) -> Array:
        """X D: D (p, B) → (rows of η, B)."""

    def rmatmul(self, R: Array, backend: Backend, chosen: NDArray[np.int64] | None = None) -> Array:
        """X[:, chosen]' R: R (rows of η, B) → (len(chosen), B), all columns by default."""

    def by_rows(
        self, chosen: NDArray[np.int64], order: NDArray[np.int64] | None, backend: Backend
    ) -> AnyRows:
        """Chosen columns by rows; ``order`` has the row of X for each row of the model."""


class ColumnStore(DesignLike, Protocol):
    """A plain design: its columns can be read one by one."""

    blocks: list[Block]

    def columns(
        self, chosen: NDArray[np.int64]
    ) -> Iterable[tuple[Block, NDArray[np.int64], NDArray[np.int64]]]:
        """Yield (block, its columns, their places in ``chosen``) for every block concerned."""


class _Rows(Protocol):
    """Products of chosen columns, in the model's order of the rows: what all rows owe.

    Attributes
    ----------
    layout : str
        What tells the three kinds of rows apart.
    n, k : int
        Rows of η; columns.
    chosen : (k,) int array
        Columns of the design.
    lines : sparse lines or None
        Entries of X's sparse columns, stored once however many rows of η read them.
    """

    backend: Any
    n: int
    k: int
    chosen: NDArray[np.int64]
    lines: SparseLines | None

    @property
    def entries(self) -> int:
        """Stored entries, those of dense columns among them."""

    def grown(self, design: Any, chosen: NDArray[np.int64], order: Any) -> Any:
        """Rows of the columns ``chosen``, which begin with these; these are of no more use."""

    def matmul(self, D: Array) -> Array:
        """X D: (k, B) → (n, B)."""

    def rmatmul(self, R: Array) -> Array:
        """X' R: (n, B) → (k, B)."""

    def diagonal(self, v: Array) -> Array:
        """Σ_i v_i x_ij² of each column, (k,)."""


class RowsLike(_Rows, Protocol):
    """A row of X for each row of η: sums over runs of rows, and weighted cross products.

    Attributes
    ----------
    dense : (n, d) array or None
        The dense columns, at ``dense_at``; those of ``lines`` are at ``sparse_at``.
    """

    layout: ClassVar[Literal["rows"]]
    dense: Array | None
    sparse_at: NDArray[np.int64]
    dense_at: NDArray[np.int64]

    def gram(self, v: Array, first: int = 0, rough: bool = False) -> Array:
        """Σ_i v_i x_i x_i', (k, k), of which the rows from ``first`` on count, others are not made.

        With ``rough`` it may be rounded to single precision.
        """

    def diagonals(self, V: Array) -> Array:
        """Diagonals for several v at once: (n, B) → (k, B)."""

    def sums(
        self, u: Array, pointers: NDArray[np.int64], lines: NDArray[np.int64] | None = None
    ) -> Array:
        """Σ u_i x_i over each run of rows pointers[s] … pointers[s + 1]: (s, k).

        With ``lines`` (L,) a stream of rows, which ``u`` (L,) and the pointers are of.
        """

    def taken(self, people: NDArray[np.int64]) -> RowsLike:
        """The same columns for some rows, each at most once."""

    def between(self, first: int, last: int) -> NDArray[np.float64]:
        """The rows first … last as they are, (last − first, k)."""


class PlainDesign(DesignLike, Protocol):
    """A design whose rows of η are rows of X, wherever they are."""

    def centered(self, counted: NDArray[np.bool_] | None = None) -> Any:
        """The same design with dense columns centred, by the rows ``counted`` where it can."""

    def uncentered(self) -> Any:
        """See `DesignLike.uncentered`."""

    def by_rows(
        self, chosen: NDArray[np.int64], order: NDArray[np.int64] | None, backend: Backend
    ) -> RowsLike:
        """See `DesignLike.by_rows`."""


class PieceLike(_Rows, Protocol):
    """Rows of X that come in pieces, one for each interval of time; columns act in some."""

    layout: ClassVar[Literal["pieces"]]

    def intervals(
        self, first: int = 0
    ) -> Iterator[tuple[slice, RowsLike, NDArray[np.int64], NDArray[np.int64], int]]:
        """Yield, for each interval, what is needed for its part of a Hessian.

        Its rows of η, a contiguous run; their rows of X; the columns that act in it, and which
        of the columns of X each is; and the first of the latter that the columns from ``first``
        on need.
        """


class ChannelLike(_Rows, Protocol):
    """Several linear predictors (channels) a row of X, stacked, and a baseline's behind them.

    Attributes
    ----------
    X : rows
        The columns of X that are concerned, each once.
    places : list of (int array, int array)
        For each channel the columns that are in it, and which of the columns of X each is.
    baseline_at, baseline : (M,) int array, (K, M) array
        Columns of the baseline and their values.
    has_rest : bool
        Whether columns of X have entries in the baseline's rows too.
    """

    layout: ClassVar[Literal["channels"]]
    X: RowsLike
    places: list[tuple[NDArray[np.int64], NDArray[np.int64]]]
    baseline_at: NDArray[np.int64]
    baseline: NDArray[np.float64]

    @property
    def has_rest(self) -> bool:
        """Whether columns of X have entries in the baseline's rows."""

    def extended(self) -> ChannelLike:
        """The same columns without those entries, which are columns of their own at the end."""

    def fold(self, H: NDArray[np.float64]) -> NDArray[np.float64]:
        """A Hessian over the `extended` columns as one over these, (k, k)."""


AnyRows = RowsLike | PieceLike | ChannelLike
