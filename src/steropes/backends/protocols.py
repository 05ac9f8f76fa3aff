"""What a backend owes: the one list of what the rooms may ask of it, with shapes.

The rooms see a backend only through `Backend` and sparse matrices only through `SparseLines`; what
differs between backends is a declared capability, never a question for a name. B is the number of
replicates, always the last dimension and fastest. `Array` is an array of ``xp``: NumPy's on the
CPU, CuPy's on a GPU; what is on the host by contract is typed as NumPy's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

from .thread_pool import ThreadPool

__all__ = ["Array", "Backend", "SparseLines"]

Array = Any  # of the backend's module ``xp``


class SparseLines(Protocol):
    """A sparse matrix by lines: rows of the model, or columns of X.

    Line a has its entries at ``starts[a]`` … ``ends[a]`` (64 bits) of ``indices`` (16, 32 or 64
    bits, increasing within a line) and ``data``, which is empty where all entries are one. Lines
    may leave gaps, overlap, repeat and be empty: `take` moves no entry.
    """

    @property
    def starts(self) -> Array:
        """(lines,) where each line's entries begin."""

    @property
    def ends(self) -> Array:
        """(lines,) where they end."""

    @property
    def indices(self) -> Array:
        """Places of the entries within their lines, 0 … width − 1."""

    @property
    def data(self) -> Array:
        """Values of the entries, or empty."""

    @property
    def width(self) -> int:
        """Length of a line."""

    @property
    def nnz(self) -> int:
        """Number of entries of all lines."""

    def take(self, lines: Array) -> SparseLines:
        """Return some lines, in any order, sharing the entries."""

    def _replace(self, *, data: Array) -> SparseLines:
        """Return the same places with other values."""


class Backend(Protocol):
    """The kernels, and arrays to feed them with.

    Every sum has an order that the problem fixes: no result depends on the number of threads, and a
    second run gives the same digits. Nothing that is passed in is changed, except where it says
    so, and no array that is returned is one that was passed in, except by `asarray`, `lines` and
    `to_host` where nothing has to move.

    Attributes
    ----------
    name : str
        For messages only; what a room has to know is a capability.
    xp : module
        NumPy, or a module with its functions for arrays of the device.
    pool : ThreadPool
        Threads of the host, for what is computed there.
    on_host : bool
        Whether ``xp`` is NumPy: X's entries can be read and skipped by loops of the host.
    single_precision_sums : bool
        Whether `gather` of single-precision arrays is quicker and sums in single precision.
    fused_risk_sweeps : bool
        Whether there are `risk_sweeps`.
    """

    name: ClassVar[str]
    on_host: ClassVar[bool]
    single_precision_sums: ClassVar[bool]
    fused_risk_sweeps: ClassVar[bool]
    xp: Any
    pool: ThreadPool

    # -- to and from the device ----------------------------------------------------------------

    def lanes(self, B: int) -> int:
        """Width that B replicates are padded to."""

    def asarray(self, x: Any, dtype: Any = None) -> Array:
        """Bring an array to the device."""

    def lines(self, x: Any) -> Any:
        """Bring a sparse matrix to the device; entries that are there already stay there."""

    def to_host(self, x: Array) -> NDArray:
        """Bring an array back."""

    # -- sparse products -------------------------------------------------------------------------

    def gather(self, lines: Any, D: Array) -> Array:
        """Line · D for every line: D (width, B) → (lines, B), B as `lanes` has it."""

    def scatter(self, lines: Any, R: Array) -> Array:
        """The transposed product: R (lines, B) → (width, B), B as `lanes` has it."""

    def gram(self, lines: Any, v: Array, G: Array, first: int = 0, rough: bool = False) -> None:
        """Add Σ_i v_i x_i x_i' to the lower triangle of G (width, width), rows from ``first`` on.

        With ``rough`` it may be rounded to single precision, if v is at least zero and G zero.
        """

    def gram_groups(
        self, lines: Any, u: Array, runs: NDArray, flush: NDArray, c: NDArray, G: Array
    ) -> None:
        """Subtract Σ_g c_g m_g m_g' from the lower triangle of G, m_g = Σ u_i x_i of group g.

        Run s is the lines runs[s] … runs[s + 1]; a group is what of its run comes up to and with
        a line i where ``flush[i]`` (lines,) is not zero, and has the weight c[i].
        """

    def line_sums(self, lines: Any, u: Array, pointers: NDArray) -> Array:
        """Σ u_i x_i over each run of lines pointers[s] … pointers[s + 1], dense (s, width)."""

    def to_rows(
        self, columns: list[tuple[Any, NDArray]], position: NDArray, n: int, width: int
    ) -> Any:
        """Turn chosen columns into rows.

        Parameters
        ----------
        columns : list of (lines of the host, (a,) int array)
            The columns of each block and the increasing number that each is to have.
        position : (rows of X,) int array
            The model's row for each row of X; −1 leaves the row out.
        n, width : int
            Rows of the model; how many columns there are.
        """

    # -- scans and elementwise work ------------------------------------------------------------

    def scan(self, x: Array, pointers: NDArray, reverse: bool = False) -> Array:
        """Inclusive running sums of x (n, B) within the segments, from the end if ``reverse``."""

    def segment_sum(self, x: Array, pointers: NDArray) -> Array:
        """Sums of x (n, B) over the segments, (S, B); an empty segment gives zero."""

    def range_sum(self, x: Array, starts: NDArray, ends: NDArray) -> Array:
        """Sums of x (n, B) over the rows starts[s] … ends[s]; ranges may leave gaps or overlap."""

    def segment_max(self, x: Array, pointers: NDArray) -> Array:
        """Largest entries of x (n, B) over the segments, (S, B); −∞ for an empty one."""

    def segment_softmax(
        self, eta: Array, w: Array, pointers: NDArray, scale: Array, shares: bool = True
    ) -> tuple[Array, Array]:
        """log Σ w e^η of each segment (S, B), and scale × each row's share of the sum (n, B).

        Rows of weight zero are absent; a segment whose ``scale`` is zero gives zeros. Without
        ``shares`` the second result is empty.
        """

    def logistic(self, eta: Array, w: Array, y: Array) -> tuple[Any, Array]:
        """Sums over rows (B,) of w (log(1 + e^η) − y η), and its slopes w (p − y), all (n, B).

        p = 1 / (1 + e^−η) keeps its digits where it is small. Of an η that is not finite the sum
        may be anything but finite.
        """

    def risk_sweeps(
        self, n: int, strata: NDArray, groups: NDArray, tied: NDArray, tied_end: NDArray,
        place: NDArray, shares: NDArray | None,
    ) -> Any:  # fmt: skip
        """Cox's likelihood as a whole, or None where there is no such thing.

        See `steropes.backends.cpu.risk_sweeps.RiskSweeps`; elsewhere it is made of scans.
        """

    def column_sum(self, x: Array | None) -> Any:
        """Sums over rows of x (n, B): (B,); None for None."""

    def column_max(self, x: Array) -> Array:
        """Largest entries over rows of x (n, B): (B,)."""

    def map_rows(self, function: Callable, *arrays: Array) -> list[Array]:
        """Apply an elementwise function, which returns a tuple of arrays, to rows of the arrays."""

    def sum_rows(self, function: Callable, *arrays: Array) -> tuple[Any, list[Array]]:
        """The same for a function whose first array (rows, B) is wanted as its sum over rows."""
