"""The interface of backends and sparse matrices, with the shapes of all arguments.

Other packages access a backend only through `Backend` and sparse matrices only through
`SparseLines`. Differences between backends are declared capabilities; no caller tests for a name. B
is the number of replicates, always the last dimension and the fastest. `Array` is an array of
``xp``: NumPy's on the CPU, a `DeviceArray` on a PyTorch device. Arrays that must be on the host
have NumPy's type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

from numpy.typing import ArrayLike, DTypeLike, NDArray

from .thread_pool import ThreadPool

__all__ = ["Array", "Backend", "DeviceMatrix", "Lines", "ModelMinimiser", "SparseLines"]

# An array of the backend's module ``xp``.
Array = Any
# The `SparseLines` of the host or of one backend, which other backends cannot read.
Lines = Any


class SparseLines(Protocol):
    """A sparse matrix by lines: rows of the model, or columns of X.

    Line a has its entries at ``starts[a]`` … ``ends[a]`` (64 bits) of ``indices`` (16, 32 or 64
    bits, increasing within a line) and ``data``, which is empty if all entries are one. Lines may
    leave gaps, overlap, repeat and be empty, because `take` copies no entry.
    """

    @property
    def starts(self) -> Array:
        """Start of each line's entries, (lines,)."""

    @property
    def ends(self) -> Array:
        """End of each line's entries, (lines,)."""

    @property
    def indices(self) -> Array:
        """Positions of the entries within their lines, 0 … width − 1."""

    @property
    def data(self) -> Array:
        """Values of the entries, or empty."""

    @property
    def width(self) -> int:
        """Length of a line."""

    @property
    def nnz(self) -> int:
        """Total number of entries."""

    def take(self, lines: Array) -> SparseLines:
        """Select lines, in any order, which share the entries."""

    def _replace(self, *, data: Array) -> SparseLines:
        """Return the same positions with other values."""


class ModelMinimiser(Protocol):
    """Minimisation of quadratic models with one symmetric matrix G (k, k) on a device.

    The models are those of `steropes.solve.subproblem.model_minimisation.ModelBatch`. Their arrays
    (k, B) and (M, k, B) are all on the host or all on the device, and so are the results.
    """

    def times(self, x: Array) -> Array:
        """Multiply G by x (k, B)."""

    def minimise(
        self, diagonal: NDArray, f: NDArray, Y: NDArray, *, g: Array, y: Array, l1: Array,
        l2: Array, unit: Array, tolerance: NDArray, U: Array, c: NDArray,
    ) -> Array:  # fmt: skip
        """Return steps (k, B) from y to the minima of the models.

        Parameters
        ----------
        diagonal, f, Y
            Of the matrix after the elimination of the coordinates f; see
            `steropes.solve.subproblem.reduced_hessian`.
        g, y, l1, l2, unit : (k, B) arrays
        tolerance : (B,) array
        U, c : (M, k, B) and (M, B) arrays
            As in `ModelBatch`.
        """

    def solve(
        self, f: NDArray, Y: NDArray, *, g: Array, y: Array, l2: Array, U: Array,
        c: NDArray, min_pivot: float, keep: bool,
    ) -> Array | None:  # fmt: skip
        """Return steps (k, B) to the minima of models without an ℓ1 penalty.

        None if the entries of G are not known, or if a matrix with a unit diagonal has a pivot in
        Cholesky's factorisation below ``min_pivot``. With ``keep`` the factor of a
        single replicate is kept for models with the same l2.
        """

    def support_step(
        self, diagonal: NDArray, f: NDArray, Y: NDArray, *, residual: float, g: Array,
        y: Array, l1: Array, l2: Array, unit: Array, tolerance: NDArray, U: Array,
        c: NDArray,
    ) -> Array:  # fmt: skip
        """Return Newton steps (k, B) for the signs of y, to a relative residual.

        Penalised coefficients that are zero stay at zero.
        """


class DeviceMatrix(ModelMinimiser, Protocol):
    """A `ModelMinimiser` with the entries of its matrix."""

    @property
    def k(self) -> int:
        """Number of rows."""

    @property
    def diagonal(self) -> NDArray:
        """The diagonal in double precision, (k,)."""

    def rows(self, at: NDArray) -> NDArray:
        """Return rows in double precision, (len(at), k)."""

    def to_host(self) -> NDArray:
        """Transfer the matrix to the host; later calls return the same array."""

    def grown(self, G: Array) -> DeviceMatrix:
        """Append the rows from k on of a larger matrix; its earlier rows are not used."""


class Backend(Protocol):
    """Numerical kernels and their arrays.

    The problem determines the order of every sum, so no result depends on the number of threads and
    repeated runs give identical digits. Arguments are not modified unless stated, and no returned
    array is an argument, except for `asarray`, `lines` and `to_host` if no transfer is needed.

    Attributes
    ----------
    name : str
        The name in messages; callers test capabilities instead.
    xp : module
        NumPy, or an object with its functions for arrays of the device.
    pool : ThreadPool
        Threads of the host for computations there.
    on_host : bool
        Whether ``xp`` is NumPy, so that loops on the host can read and skip entries of X.
    single_precision_sums : bool
        Whether `gather` of single-precision arrays is faster and sums in single precision.
    fused_risk_sweeps : bool
        Whether `risk_sweeps` is implemented.
    """

    name: ClassVar[str]
    on_host: ClassVar[bool]
    single_precision_sums: ClassVar[bool]
    fused_risk_sweeps: ClassVar[bool]
    xp: Any
    pool: ThreadPool

    # -- to and from the device ----------------------------------------------------------------

    def lanes(self, B: int) -> int:
        """Return the width to which B replicates are padded."""

    def asarray(self, x: ArrayLike, dtype: DTypeLike | None = None) -> Array:
        """Transfer an array to the device."""

    def lines(self, x: Lines) -> Lines:
        """Transfer a sparse matrix to the device, unless its entries are there already."""

    def resident(self, x: NDArray) -> Array:
        """Transfer an array that never changes, once while it exists."""

    def to_host(self, x: Array) -> NDArray:
        """Transfer an array to the host."""

    def device_matrix(self, G: Array | NDArray) -> DeviceMatrix | None:
        """Store a symmetric matrix (k, k) for the minimisation of quadratic models on the device.

        None if they are minimised on the host.
        """

    def operator_minimiser(self, times: Callable[[Array], Array]) -> ModelMinimiser | None:
        """Minimise quadratic models, given the products ``times`` with their matrix.

        None if they are minimised on the host.
        """

    # -- sparse products -------------------------------------------------------------------------

    def gather(self, lines: Lines, D: Array) -> Array:
        """Multiply every line with D (width, B) → (lines, B), with B padded by `lanes`."""

    def scatter(self, lines: Lines, R: Array) -> Array:
        """Compute the transposed product R (lines, B) → (width, B), with B padded by `lanes`."""

    def gram(self, lines: Lines, v: Array, G: Array, first: int = 0, rough: bool = False) -> None:
        """Add Σ_i v_i x_i x_i' to the lower triangle of G (width, width), rows from ``first`` on.

        With ``rough``, single precision suffices; it requires v ≥ 0 and G = 0.
        """

    def gram_groups(
        self, lines: Lines, u: Array, runs: NDArray, flush: NDArray, c: NDArray, G: Array
    ) -> None:
        """Subtract Σ_g c_g m_g m_g' from the lower triangle of G, m_g = Σ u_i x_i of group g.

        Run s consists of the lines runs[s] … runs[s + 1] − 1. Each line i with nonzero ``flush[i]``
        (lines,) ends a group, which contains its run up to and including the line and has the
        weight c[i].
        """

    def line_sums(self, lines: Lines, u: Array, pointers: NDArray) -> Array:
        """Compute Σ u_i x_i over the lines pointers[s] … pointers[s + 1] − 1, dense (s, width)."""

    def to_rows(
        self, columns: list[tuple[Lines, NDArray]], position: NDArray, n: int, width: int
    ) -> Lines:
        """Convert chosen columns to rows.

        Parameters
        ----------
        columns : list of (lines of the host, (a,) int array)
            The columns of each block and their increasing numbers in the result.
        position : (rows of X,) int array
            The model's row for each row of X; −1 leaves the row out.
        n, width : int
            Number of rows of the model and of columns.
        """

    def append_columns(self, lines: Lines, new: Lines, first: int, width: int) -> Lines:
        """Append the columns of ``new``, numbered from ``first``, to rows: ``width`` in total.

        Both are results of `to_rows` for the same rows.
        """

    # -- scans and elementwise work ------------------------------------------------------------

    def scan(self, x: Array, pointers: NDArray, reverse: bool = False) -> Array:
        """Compute inclusive running sums of x (n, B) within segments, reversed if requested."""

    def segment_sum(self, x: Array, pointers: NDArray) -> Array:
        """Sum x (n, B) over the segments, (S, B); an empty segment gives zero."""

    def range_sum(self, x: Array, starts: NDArray, ends: NDArray) -> Array:
        """Sum x (n, B) over the rows starts[s] … ends[s] − 1, which may leave gaps or overlap."""

    def segment_max(self, x: Array, pointers: NDArray) -> Array:
        """Find the maxima of x (n, B) over the segments, (S, B); −∞ for an empty segment."""

    def segment_softmax(
        self, eta: Array, w: Array, pointers: NDArray, scale: Array, shares: bool = True
    ) -> tuple[Array, Array]:
        """Compute log Σ w e^η of each segment, (S, B), and scale × each row's share, (n, B).

        Rows of weight zero are absent; a segment with ``scale`` zero gives zeros, and another one
        without rows −∞ and no share. Without ``shares`` the second result is empty.
        """

    def logistic(self, eta: Array, w: Array, y: Array) -> tuple[Array, Array]:
        """Compute the sums over rows of w (log(1 + e^η) − y η), (B,), and the slopes w (p − y).

        All arrays are (n, B). Small p = 1 / (1 + e^−η) keep their relative accuracy. If an η is not
        finite, the sum is not finite either.
        """

    def conditional_sets(
        self, eta: Array, w: Array, case: NDArray, pointers: NDArray
    ) -> tuple[Array, Array] | None:
        """Compute the exact conditional loss, (B,), and weight × inclusion probability, (n, B).

        The sets are the rows pointers[s] … pointers[s + 1] − 1, with ``case`` (n,) one for cases.
        None if the kernels of the host serve them; see
        `steropes.backends.cpu.likelihoods.conditional_bernoulli`.
        """

    def risk_sweeps(
        self, n: int, strata: NDArray, groups: NDArray, tied: NDArray, tied_end: NDArray,
        place: NDArray, shares: NDArray | None,
    ) -> Any:  # fmt: skip
        """Build the fused kernels of Cox's likelihood; None if not implemented.

        See `steropes.backends.cpu.likelihoods.risk_sweeps.RiskSweeps`. Other backends use scans.
        """

    def lexsort(self, keys: Sequence[NDArray]) -> NDArray:
        """Sort rows by keys (n,), of which the last is the first to count, as `numpy.lexsort`."""

    def column_sum(self, x: Array | None) -> Array | None:
        """Sum x (n, B) over rows, (B,); None for None."""

    def map_rows(self, function: Callable, *arrays: Array) -> list[Array]:
        """Apply an elementwise function that returns a tuple of arrays to chunks of rows."""

    def sum_rows(self, function: Callable, *arrays: Array) -> tuple[Array | None, list[Array]]:
        """Apply `map_rows`, but return the sum over rows of the function's first array."""
