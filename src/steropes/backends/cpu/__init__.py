"""The CPU backend: Numba kernels over fixed chunks, run by the thread pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from ..tall_reductions import reduce_rows
from ..thread_pool import ThreadPool, balanced_chunks
from . import segment_softmax
from . import segmented_sums as scans
from . import sparse_group_sums as groups
from . import sparse_products as sparse
from .aligned_arrays import aligned, aligned_empty, aligned_zeros
from .gram_matrix import small_gram, split_gram
from .logistic_kernels import logistic_rows
from .numba_startup import load_compiler
from .risk_sweeps import RiskSweeps
from .sparse_lines import CHUNKS, LONG, PIECE, Lines, index_type, pieces

__all__ = ["CpuBackend", "Lines"]

NO_DATA = np.empty(0)
# The maximum bytes of partial results that wait to be added.
HELD = 1 << 24
# The rows of a chunk of elementwise work; eight replicates then stay in the L2 cache.
ROWS_A_CHUNK = 8192
# The minimum and maximum number of rows that are transposed together.
MIN_BAND, MAX_BAND = 1 << 13, 1 << 17
# The number of replicates in a cache line.
LINE = 8
# The padded number of replicates for ten folds, which has special kernels.
DOZEN = 12
# The minimum number of entries per line and band for which lines are searched by band.
SEARCHED = 4
# The bytes of single precision in a stripe of the Gram matrix, including its upper half.
GRAM_STRIPE = 3 << 20
# The minimum number of stripes with several threads; no sum depends on it.
FEWEST = 4
# The number of entries sorted by stripe together.
GRAM_ENTRIES = 1 << 21
# The number of values and columns up to which BLAS computes the Gram matrix from a dense copy.
DENSE, FEW_COLUMNS = 1 << 17, 128
# The minimum number of entries in a block of lines per value of the result.
A_NUMBER = 16
# The groups of stripes per thread if each group reads all lines; no sum depends on it.
A_THREAD = 3


class CpuBackend:
    """The backend on the CPU, with NumPy as ``xp``.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads; None and -1 mean all cores. No result depends on it.
    """

    name: ClassVar[str] = "cpu"
    on_host: ClassVar[bool] = True
    single_precision_sums: ClassVar[bool] = True
    fused_risk_sweeps: ClassVar[bool] = True
    xp: Any = np

    def __init__(self, n_jobs: int | None = None) -> None:
        self.pool = ThreadPool(n_jobs)
        load_compiler()

    @staticmethod
    def lanes(B: int) -> int:
        """Return the width to which B replicates are padded: 1, 4, 8 or a multiple of four."""
        return B if B == 1 else 4 if B <= 4 else 8 if B <= 8 else -(-B // 4) * 4

    @staticmethod
    def asarray(x: np.ndarray, dtype=None) -> np.ndarray:
        """Convert to a NumPy array."""
        return np.asarray(x, dtype=dtype)

    @staticmethod
    def lines(x: Lines) -> Lines:
        """Return the sparse matrix itself."""
        return x

    @staticmethod
    def to_host(x: np.ndarray) -> np.ndarray:
        """Return the array itself."""
        return x

    # -- sparse products -------------------------------------------------------------------

    def gather(self, lines: Lines, D: np.ndarray) -> np.ndarray:
        """Multiply every line with D (width, B) → (lines, B), with B padded by `lanes`."""
        cut = lines.in_pieces()
        if cut is not None:
            return self.segment_sum(self._gather(cut[0], D), cut[1])
        return self._gather(lines, D)

    def _gather(self, lines: Lines, D: np.ndarray) -> np.ndarray:
        """Compute `gather` with one sum per line."""
        n, B = len(lines.starts), D.shape[1]
        if B == DOZEN:
            return self._gather_dozen(lines, D)
        if B > LINE:
            out = np.empty((n, B))
            for block in _blocks(B):
                self._gather_block(lines, D[:, block], out[:, block])
            return out
        out = np.zeros((n, B))
        if B == 1:
            args, kernel, shaped = (np.ascontiguousarray(D[:, 0]),), sparse.gather, out[:, 0]
        else:
            kernel = sparse.gather8 if B == LINE else sparse.gather4
            args, shaped = (aligned(D)[:, None],), out[:, None]
        self.pool.map(
            lambda a, b: kernel(
                lines.starts, lines.ends, lines.indices, lines.data, *args, shaped, a, b
            ),
            lines.chunks,
            lines.nnz * B,
        )
        return out

    def _gather_block(self, lines: Lines, D: np.ndarray, out: np.ndarray) -> None:
        """Compute `gather` for a block of replicates into some columns of ``out``."""
        kernel = sparse.gather8 if D.shape[1] == LINE else sparse.gather4
        args = aligned(D)[:, None]

        def part(a: int, b: int) -> None:
            own = aligned_zeros((b - a, 1, D.shape[1]))
            kernel(
                lines.starts[a:b], lines.ends[a:b], lines.indices, lines.data, args, own, 0, b - a
            )
            out[a:b] = own[:, 0]

        self.pool.map(part, lines.chunks, lines.nnz * D.shape[1])

    def _gather_dozen(self, lines: Lines, D: np.ndarray) -> np.ndarray:
        """Compute `gather` for twelve replicates."""
        table = aligned_empty((len(D), 2 * LINE), D.dtype)
        table[:, :DOZEN] = D
        views = table.reshape(-1, 2, LINE), table.reshape(-1, 4, 4)
        out = np.empty((len(lines.starts), 3, 4))
        self.pool.map(
            lambda a, b: sparse.gather12(
                lines.starts, lines.ends, lines.indices, lines.data, *views, out, a, b
            ),
            lines.chunks,
            lines.nnz * DOZEN,
        )
        return out.reshape(-1, DOZEN)

    def scatter(self, lines: Lines, R: np.ndarray) -> np.ndarray:
        """Compute the transposed product R (lines, B) → (width, B)."""
        B = R.shape[1]
        if B == DOZEN and lines.width <= MAX_BAND // LINE:  # longer results use bands
            return self._scatter_dozen(lines, R)
        if B > LINE:
            out = np.empty((lines.width, B))
            for block in _blocks(B):
                out[:, block] = self.scatter(lines, R[:, block])
            return out
        shape: tuple[int, ...] = (lines.width,)
        if B == 1:
            kernel = sparse.scatter
        else:
            kernel = sparse.scatter8 if B == LINE else sparse.scatter4
            shape = (lines.width, 1, B)

        def own(a: int, b: int) -> np.ndarray:
            part = np.ascontiguousarray(R[a:b])
            return part[:, 0] if B == 1 else part[:, None]

        total = aligned_zeros(shape)
        chunks, n = lines.chunks, len(lines.starts)
        long = total.nbytes * len(chunks) >= HELD
        bands = pieces(lines.width, max(1, MAX_BAND // B))
        if long and len(bands) > 1 and SEARCHED * (len(bands) - 1) * n <= lines.nnz:
            # A long result (all rows) of long lines (columns) is computed in place by bands.
            edges = np.array([a for a, _ in bands] + [lines.width])
            cuts = np.empty((len(edges), n), np.int64)
            sparse.cut_lines(lines.starts, lines.ends, lines.indices, edges, cuts)
            whole = own(0, n)

            def band(c: int) -> None:
                kernel(
                    cuts[c], cuts[c + 1], lines.indices, lines.data, whole, total, 0, n, total, n
                )

            self.pool.map(band, [(c,) for c in range(len(bands))])
            return total.reshape(lines.width, B)

        def part(a: int, b: int) -> np.ndarray:
            out, together = aligned_zeros(shape), _together(lines, b - a)
            block = aligned_zeros(shape) if b - a > together else out
            starts, ends = lines.starts[a:b], lines.ends[a:b]
            kernel(
                starts, ends, lines.indices, lines.data, own(a, b), out, 0, b - a, block, together
            )
            return out

        # Each part holds a whole result, so at most one per thread exists if results are long.
        at_once = self.pool.n_threads if long else len(chunks)
        for i in range(0, len(chunks), max(1, at_once)):
            for x in self.pool.map(part, chunks[i : i + at_once], lines.nnz * B):
                total += x
        return total.reshape(lines.width, B)

    def _scatter_dozen(self, lines: Lines, R: np.ndarray) -> np.ndarray:
        """Compute `scatter` for twelve replicates and a short result."""
        rows = np.ascontiguousarray(R, np.float64).reshape(-1, 3, 4)

        def part(a: int, b: int) -> np.ndarray:
            own, together = aligned_zeros((lines.width, 2 * LINE)), _together(lines, b - a)
            block = aligned_zeros(own.shape) if b - a > together else own
            sparse.scatter12(
                lines.starts[a:b], lines.ends[a:b], lines.indices, lines.data, rows[a:b],
                own.reshape(-1, 2, LINE), own.reshape(-1, 4, 4), 0, b - a,
                block.reshape(-1, 2, LINE), block.reshape(-1, 4, 4), together,
            )  # fmt: skip
            return own

        total = np.zeros((lines.width, DOZEN))
        for own in self.pool.map(part, lines.chunks, lines.nnz * DOZEN):
            total += own[:, :DOZEN]
        return total

    def gram(
        self, lines: Lines, v: np.ndarray, G: np.ndarray, first: int = 0, rough: bool = False
    ) -> None:
        """Add Σ_i v_i x_i x_i' to the lower triangle of G, for the rows of G from ``first`` on.

        With ``rough``, single precision is used; it requires v ≥ 0 and G = 0.
        """
        if len(lines.starts) * len(G) <= DENSE and len(G) <= FEW_COLUMNS:
            small_gram(lines, v, G, first)
            return
        parts = split_gram(lines, v, G, first, self.pool) if rough else None
        if parts is None:
            parts = lines.starts, lines.ends, lines.indices, lines.data
        # There must be room for at least one line.
        n, room = len(parts[0]), max(GRAM_ENTRIES, len(G))

        def some(cuts: np.ndarray) -> None:
            sparse.gram(*parts, v, G, cuts, *(np.empty(size, np.int32) for size in (n, room, room)))

        groups = min(CHUNKS, A_THREAD * self.pool.n_threads) if first else CHUNKS
        fewest = 1 if self.pool.n_threads == 1 else FEWEST
        self.pool.map(some, _stripes(len(G), first, groups, fewest))

    def gram_groups(self, lines: Lines, u, runs, flush, c, G: np.ndarray) -> None:
        """Subtract Σ_g c_g m_g m_g' from the lower triangle of G, m_g = Σ u_i x_i of group g.

        Groups are nested prefixes of runs of lines (`sparse_group_sums.group_sums`); c (lines,)
        counts where ``flush`` is not zero.
        """
        for batch in groups.batches(lines.starts, lines.ends, runs, flush, len(G)):
            self.gram(self._group_sums(lines, u, runs, flush, batch), -c[batch.last], G)

    def _group_sums(self, lines: Lines, u, runs, flush, batch: groups.Batch) -> Lines:
        """Compute the sums of one batch of groups as sparse lines."""
        x, s0, at = lines, batch.s0, batch.at
        ends, indices = np.empty(len(batch.last), np.int64), np.empty(at[-1], x.indices.dtype)
        data = np.empty(at[-1])
        self.pool.map(
            lambda s, t: groups.group_sums(
                x.starts, x.ends, x.indices, x.data, u, runs, flush,
                at, ends, indices, data, s0 + s, s0 + t, batch.first[s],
            ),
            balanced_chunks(runs[s0 : batch.s1 + 1], CHUNKS),
        )  # fmt: skip
        return Lines(at[:-1], ends, indices, data, x.width)

    def line_sums(self, lines: Lines, u: np.ndarray, pointers: np.ndarray) -> np.ndarray:
        """Compute Σ u_i x_i over the lines pointers[s] … pointers[s + 1] − 1, dense (s, width)."""
        out = np.zeros((len(pointers) - 1, lines.width))

        def part(s0: int, s1: int) -> None:
            sparse.scatter_runs(
                lines.starts, lines.ends, lines.indices, lines.data, u, pointers, out, s0, s1
            )

        self.pool.map(part, balanced_chunks(pointers, CHUNKS))
        return out

    def to_rows(
        self, columns: list[tuple[Lines, np.ndarray]], position: np.ndarray, n: int, width: int
    ) -> Lines:
        """Convert chosen columns to rows.

        Parameters
        ----------
        columns : list of (Lines, local numbers)
            The columns of each block and their increasing numbers in the result.
        position : (rows of X,) int array
            The model's row for each row of X; -1 leaves the row out.
        n, width : int
            Number of rows of the model and of columns.
        """
        # The type depends on the entries of all columns, so that a fit uses a single type.
        index = index_type(width, sum(len(x.indices) for x, _ in columns))
        counts, nowhere = np.zeros(n, np.int64), np.empty(0, index)
        # Threads process bands of rows, so that random writes stay in the cache.
        size = int(np.clip(len(position) // 4, MIN_BAND, MAX_BAND))
        bands = pieces(len(position), size)

        def count(r0: int, r1: int) -> None:
            for x, numbers in columns:
                sparse.csc_to_csr(
                    x.starts, x.ends, x.indices, x.data, position, numbers, counts,
                    nowhere, NO_DATA, r0, r1,
                )  # fmt: skip

        self.pool.map(count, bands)
        pointers = np.zeros(n + 1, np.int64)
        np.cumsum(counts, out=pointers[1:])
        starts, ends, cursor = pointers[:-1], pointers[1:], counts
        cursor[:] = starts
        valued = any(lines.data.size for lines, _ in columns)
        out_indices = np.empty(int(ends[-1]) if n else 0, index)
        out_data = np.empty(len(out_indices)) if valued else NO_DATA
        # Rows must be sorted, so blocks are merged in the order of the local numbers.
        runs = sorted(
            (
                (int(numbers[a]), lines, numbers, a, b)
                for lines, numbers in columns
                for a, b in _increasing_runs(numbers, [m for _, m in columns])
            ),
            key=lambda run: run[0],
        )

        def fill(r0: int, r1: int) -> None:
            for _, x, numbers, a, b in runs:
                sparse.csc_to_csr(
                    x.starts[a:b], x.ends[a:b], x.indices, x.data, position,
                    numbers[a:b], cursor, out_indices, out_data, r0, r1,
                )  # fmt: skip

        self.pool.map(fill, bands)
        return Lines(starts, ends, out_indices, out_data, width)

    # -- scans and elementwise work ----------------------------------------------------------

    def scan(self, x: np.ndarray, pointers: np.ndarray, reverse: bool = False) -> np.ndarray:
        """Compute inclusive running sums of x (n, B) within segments, reversed if requested."""
        out = np.empty_like(x)
        self.pool.map(
            lambda a, b: scans.scan(x, pointers, reverse, out, a, b),
            balanced_chunks(pointers, CHUNKS),
            x.size,
        )
        return out

    def segment_sum(self, x: np.ndarray, pointers: np.ndarray) -> np.ndarray:
        """Sum x (n, B) over the segments; an empty segment gives zero."""
        return self.range_sum(x, pointers[:-1], pointers[1:])

    def range_sum(self, x: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Sum x (n, B) over the rows starts[s] … ends[s] − 1, which may leave gaps or overlap."""
        out = np.empty((len(starts), x.shape[1]))
        work = np.zeros(len(starts) + 1, np.int64)
        np.cumsum(ends - starts + 1, out=work[1:])
        self.pool.map(
            lambda a, b: scans.range_sum(x, starts, ends, out, a, b),
            balanced_chunks(work, CHUNKS),
            int(work[-1]) * x.shape[1],
        )
        return out

    @staticmethod
    def segment_max(x: np.ndarray, pointers: np.ndarray) -> np.ndarray:
        """Find the maxima of x (n, B) over the segments; −∞ for an empty segment."""
        out = np.full((len(pointers) - 1, x.shape[1]), -np.inf)
        filled = np.flatnonzero(np.diff(pointers) > 0)
        if len(filled):
            edges = np.append(pointers[filled], pointers[-1])
            out[filled] = np.maximum.reduceat(x[: edges[-1]], edges[:-1], axis=0)
        return out

    def segment_softmax(
        self, eta: np.ndarray, w: np.ndarray, pointers: np.ndarray, scale: np.ndarray,
        shares: bool = True,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Compute log Σ w e^η of each segment, (S, B), and scale × each row's share, (n, B).

        Rows of weight zero are absent. Without ``shares`` the second result is empty.
        """
        eta, w = np.ascontiguousarray(eta), np.ascontiguousarray(w)  # one signature to compile
        B = eta.shape[1]
        lse = np.empty((len(pointers) - 1, B))
        out = np.empty((len(eta), B)) if shares else np.empty((0, B))
        self.pool.map(
            lambda a, b: segment_softmax.segment_softmax(eta, w, pointers, scale, lse, out, a, b),
            balanced_chunks(pointers, CHUNKS),
            8 * eta.size,  # an exponential costs about eight additions
        )
        return lse, out

    def risk_sweeps(
        self, n: int, strata: np.ndarray, groups: np.ndarray, tied: np.ndarray,
        tied_end: np.ndarray, place: np.ndarray, shares: np.ndarray | None,
    ) -> RiskSweeps:  # fmt: skip
        """Build the fused kernels of Cox's likelihood; see `RiskSweeps`."""
        return RiskSweeps(n, strata, groups, tied, tied_end, place, shares, self.pool)

    @staticmethod
    def column_sum(x: np.ndarray | None) -> Any:
        """Sum x (n, B) over rows, (B,)."""
        return None if x is None else reduce_rows(np.add, x)

    @staticmethod
    def column_max(x: np.ndarray) -> np.ndarray:
        """Find the maxima of x (n, B) over rows, (B,)."""
        return reduce_rows(np.maximum, x)

    def map_rows(self, function: Callable, *arrays: np.ndarray) -> list[np.ndarray]:
        """Apply an elementwise function to chunks of rows; it returns a tuple of arrays.

        Chunks stay in the cache, so a formula of ten NumPy operations reads memory once.
        """
        return self.sum_rows(lambda *x: (None, *function(*x)), *arrays)[1]

    def sum_rows(self, function: Callable, *arrays: np.ndarray) -> tuple:
        """Apply `map_rows`, but sum the function's first array over rows.

        Returns the sum, (B,), with chunks added in order, and the list of the other arrays.
        """
        n = len(arrays[0])
        chunks = [(a, min(a + ROWS_A_CHUNK, n)) for a in range(0, n, ROWS_A_CHUNK)]
        if len(chunks) <= 1:
            summed, *results = function(*arrays)
            return self.column_sum(summed), results
        out: list[np.ndarray] = []

        def part(a: int, b: int) -> Any:
            summed, *results = function(*(x[a:b] for x in arrays))
            if not out:  # the first chunk runs alone and determines the shapes
                out.extend(np.empty((n, *y.shape[1:]), y.dtype) for y in results)
            for whole, piece in zip(out, results, strict=True):
                whole[a:b] = piece
            return self.column_sum(summed)

        parts = [part(*chunks[0]), *self.pool.map(part, chunks[1:])]
        return None if parts[0] is None else reduce_rows(np.add, np.stack(parts)), out

    def logistic(
        self, eta: np.ndarray, w: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Backend.logistic`."""
        n, B = eta.shape
        eta, w, y = (
            np.ascontiguousarray(np.broadcast_to(x, (n, B)), np.float64) for x in (eta, w, y)
        )
        slope = np.empty((n, B))
        flat = [x.reshape(-1) for x in (eta, w, y, slope)]

        def part(a: int, b: int) -> np.ndarray:
            loss = np.empty((b - a, B))
            at = slice(a * B, b * B)
            logistic_rows(flat[0][at], flat[1][at], flat[2][at], flat[3][at], loss.reshape(-1))
            return reduce_rows(np.add, loss)

        chunks = [(a, min(a + ROWS_A_CHUNK, n)) for a in range(0, n, ROWS_A_CHUNK)]
        parts = self.pool.map(part, chunks, eta.size)
        return reduce_rows(np.add, np.reshape(parts, (-1, B))), slope


def _blocks(B: int) -> list[slice]:
    """Split replicates into blocks of eight, with four in the last if necessary.

    Rows of twelve would not be aligned to cache lines, and random access to them would fetch two or
    three lines each.
    """
    return [slice(a, a + LINE) for a in range(0, B, LINE)]


def _together(lines: Lines, n: int) -> int:
    """Choose the number of lines, of a chunk of n, that are summed in one block.

    A block has several entries per value of the result, because each block adds the whole result.
    """
    if n <= LONG:
        return max(n, 1)
    a_line = max(lines.nnz / max(len(lines.starts), 1), 1e-3)
    return max(PIECE, int(A_NUMBER * lines.width / a_line))


def _stripes(k: int, first: int, groups: int, fewest: int) -> list[tuple[np.ndarray]]:
    """Cut a lower triangle into stripes of rows of equal area that fit into the cache.

    There are at least ``fewest`` stripes, in at most ``groups`` groups of consecutive stripes.
    """
    if first >= k:
        return []
    area = np.arange(k + 1, dtype=np.float64) ** 2
    area -= area[first]
    n = max(fewest, int(np.ceil(area[-1] * 4 / GRAM_STRIPE)))
    stripes = balanced_chunks(np.maximum(area, 0.0), n)
    cuts = np.array([max(a, first) for a, _ in stripes] + [k])
    together = np.array_split(np.arange(len(stripes)), min(groups, len(stripes)))
    return [(cuts[g[0] : g[-1] + 2],) for g in together]


def _increasing_runs(numbers: np.ndarray, others: list[np.ndarray]) -> list[tuple[int, int]]:
    """Cut a block's local numbers where columns of another block intervene."""
    if len(numbers) == 0:
        return []
    if len(others) == 1:
        return [(0, len(numbers))]
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    edges = [0, *cuts.tolist(), len(numbers)]
    return list(zip(edges[:-1], edges[1:], strict=True))
