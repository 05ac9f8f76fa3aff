"""The CPU backend: Numba kernels over fixed chunks, run by the thread pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from ..reductions_of_tall_arrays import reduce_rows
from ..shape_checks import require_rows, require_square, require_weights
from ..thread_pool import ThreadPool, balanced_chunks, number_of_chunks
from .compilation.faster_numba_loading import load_compiler
from .lexicographic_sort import lexsort
from .likelihoods import segment_softmax
from .likelihoods.logistic_kernels import logistic_rows
from .likelihoods.risk_sweeps import RiskSweeps
from .sparse import cpu_chunk_sizes as policies
from .sparse import sparse_product_kernels as sparse
from .sparse.append_columns import append_lines
from .sparse.column_transposition import columns_to_rows
from .sparse.cpu_chunk_sizes import CpuPolicy
from .sparse.gram_matrix import add_gram, subtract_group_gram
from .sparse.sparse_line_products import multiply, multiply_transposed
from .sparse.sparse_lines import Lines, pieces
from .sums import segmented_sums as scans

__all__ = ["CpuBackend"]


class CpuBackend:
    """The backend on the CPU, with NumPy as ``xp``.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads; None and -1 mean all cores. No result depends on it.
    policy : CpuPolicy, optional
        Sizes of chunks and tiles; by default `DEFAULT` in
        `steropes.backends.cpu.sparse.cpu_chunk_sizes`.
    """

    name: ClassVar[str] = "cpu"
    on_host: ClassVar[bool] = True
    single_precision_sums: ClassVar[bool] = True
    fused_risk_sweeps: ClassVar[bool] = True
    xp: Any = np

    def __init__(self, n_jobs: int | None = None, policy: CpuPolicy | None = None) -> None:
        self.pool = ThreadPool(n_jobs)
        self.policy = policies.DEFAULT if policy is None else policy
        load_compiler()

    @staticmethod
    def lanes(B: int) -> int:
        """Return the width to which B replicates are padded: 1, 4, 8 or a multiple of four."""
        return B if B == 1 else 4 if B <= 4 else 8 if B <= 8 else -(-B // 4) * 4

    @staticmethod
    def asarray(x: ArrayLike, dtype: DTypeLike | None = None) -> np.ndarray:
        """Convert to a NumPy array."""
        return np.asarray(x, dtype=dtype)

    @staticmethod
    def resident(x: np.ndarray) -> np.ndarray:
        """Return the array itself."""
        return x

    @staticmethod
    def lexsort(keys: Sequence[np.ndarray]) -> np.ndarray:
        """See `Backend.lexsort`."""
        return lexsort(keys)

    @staticmethod
    def lines(x: Lines) -> Lines:
        """Return the sparse matrix itself."""
        return x

    @staticmethod
    def to_host(x: np.ndarray) -> np.ndarray:
        """Return the array itself."""
        return x

    @staticmethod
    def conditional_sets(*_: np.ndarray) -> None:
        """Return None, because the likelihood calls the host's kernels."""

    @staticmethod
    def device_matrix(_: np.ndarray) -> None:
        """Return None, because quadratic models are minimised on the host."""

    @staticmethod
    def operator_minimiser(_: object) -> None:
        """Return None for the same reason."""

    # -- sparse products -------------------------------------------------------------------

    def _require_lanes(self, x: np.ndarray) -> None:
        """Raise `ValueError` unless the width of x is one that the kernels support.

        They read and write whole registers without checks, so another width would corrupt memory.
        """
        B = x.shape[1]
        if self.lanes(B) != B:
            raise ValueError(
                f"Products on the CPU need {self.lanes(B)} columns in place of {B}: pad the array "
                "with zeros to the width that backend.lanes returns."
            )

    def gather(self, lines: Lines, D: np.ndarray) -> np.ndarray:
        """Multiply every line with D (width, B) → (lines, B), with B padded by `lanes`."""
        self._require_lanes(D)
        require_rows(D, lines.width)
        cut = lines.in_pieces()
        if cut is not None:
            return self.segment_sum(multiply(self.pool, cut[0], D), cut[1])
        return multiply(self.pool, lines, D)

    def scatter(self, lines: Lines, R: np.ndarray) -> np.ndarray:
        """Compute the transposed product R (lines, B) → (width, B), with B padded by `lanes`."""
        self._require_lanes(R)
        require_rows(R, len(lines.starts))
        return multiply_transposed(self.pool, self.policy, lines, R)

    def gram(
        self, lines: Lines, v: np.ndarray, G: np.ndarray, first: int = 0, rough: bool = False
    ) -> None:
        """Add a weighted Gram matrix to the lower triangle of G; see `add_gram`."""
        require_weights(lines, v)
        require_square(lines, G)
        add_gram(self.pool, self.policy, lines, v, G, first, rough)

    def gram_groups(self, lines: Lines, u, runs, flush, c, G: np.ndarray) -> None:
        """Subtract the Gram matrix of sums of lines; see `subtract_group_gram`."""
        require_weights(lines, u, int(runs[-1]))
        require_square(lines, G)
        subtract_group_gram(self.pool, self.policy, lines, u, runs, flush, c, G)

    def line_sums(self, lines: Lines, u: np.ndarray, pointers: np.ndarray) -> np.ndarray:
        """Compute Σ u_i x_i over the lines pointers[s] … pointers[s + 1] − 1, dense (s, width)."""
        require_weights(lines, u, int(pointers[-1]))
        out = np.zeros((len(pointers) - 1, lines.width))

        def part(s0: int, s1: int) -> None:
            sparse.scatter_runs(
                lines.starts, lines.ends, lines.indices, lines.data, u, pointers, out, s0, s1
            )

        self.pool.map(part, balanced_chunks(pointers, number_of_chunks(lines.nnz)))
        return out

    def to_rows(
        self, columns: list[tuple[Lines, np.ndarray]], position: np.ndarray, n: int, width: int
    ) -> Lines:
        """Convert chosen columns to rows; see `columns_to_rows`."""
        return columns_to_rows(self.pool, self.policy, columns, position, n, width)

    def append_columns(self, lines: Lines, new: Lines, first: int, width: int) -> Lines:
        """Append columns to rows; see `append_lines`."""
        return append_lines(lines, new, first, width, self.pool)

    # -- scans and elementwise work ----------------------------------------------------------

    def scan(self, x: np.ndarray, pointers: np.ndarray, reverse: bool = False) -> np.ndarray:
        """Compute inclusive running sums of x (n, B) within segments, reversed if requested."""
        out = np.empty_like(x)
        self.pool.map(
            lambda a, b: scans.scan(x, pointers, reverse, out, a, b),
            balanced_chunks(pointers, number_of_chunks(x.size)),
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
        entries = int(work[-1]) * x.shape[1]
        self.pool.map(
            lambda a, b: scans.range_sum(x, starts, ends, out, a, b),
            balanced_chunks(work, number_of_chunks(entries)),
            entries,
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
            balanced_chunks(pointers, number_of_chunks(8 * eta.size)),
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
    def column_sum(x: np.ndarray | None) -> np.ndarray | None:
        """Sum x (n, B) over rows, (B,)."""
        return None if x is None else reduce_rows(np.add, x)

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
        chunks = pieces(n, self.policy.chunk_rows)
        if len(chunks) <= 1:
            summed, *results = function(*arrays)
            return self.column_sum(summed), results
        out: list[np.ndarray] = []

        def part(a: int, b: int) -> np.ndarray | None:
            """Apply the function to a chunk, store its results, and return the sum of the first."""
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

        chunks = pieces(n, self.policy.chunk_rows)
        parts = self.pool.map(part, chunks, eta.size)
        return reduce_rows(np.add, np.reshape(parts, (-1, B))), slope
