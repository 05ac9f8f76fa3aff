"""Products of a sparse matrix, or its transpose, with one, four, eight or twelve vectors."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

from ...thread_pool import ThreadPool, number_of_chunks
from . import sparse_product_kernels as sparse
from .cpu_chunk_sizes import CpuPolicy
from .sparse_lines import LONG, PIECE, Lines, pieces

__all__ = ["multiply", "multiply_transposed"]

# The number of replicates in a cache line of double precision.
LINE = 8
# The padded number of replicates for ten folds, which has special kernels.
DOZEN = 12
# The size of a cache line in bytes.
CACHE_LINE = 64


def multiply(pool: ThreadPool, lines: Lines, D: np.ndarray) -> np.ndarray:
    """Multiply lines with D (width, B) → (lines, B), with one sum per line."""
    n, B = len(lines.starts), D.shape[1]
    if B == DOZEN:
        return _multiply_dozen(pool, lines, D)
    if B > LINE:
        out = np.empty((n, B))
        for block in _blocks(B):
            _multiply_block(pool, lines, D[:, block], out[:, block])
        return out
    out = np.zeros((n, B))
    if B == 1:
        args, kernel, shaped = (np.ascontiguousarray(D[:, 0]),), sparse.gather, out[:, 0]
    else:
        kernel = sparse.gather8 if B == LINE else sparse.gather4
        args, shaped = (_aligned(D)[:, None],), out[:, None]
    pool.map(
        lambda a, b: kernel(
            lines.starts, lines.ends, lines.indices, lines.data, *args, shaped, a, b
        ),
        _chunks_of_products(lines, lines.nnz * B),
        lines.nnz * B,
    )
    return out


def _multiply_block(pool: ThreadPool, lines: Lines, D: np.ndarray, out: np.ndarray) -> None:
    """Multiply lines with a block of four or eight columns, into some columns of ``out``."""
    kernel = sparse.gather8 if D.shape[1] == LINE else sparse.gather4
    args = _aligned(D)[:, None]

    def part(a: int, b: int) -> None:
        own = _aligned_zeros((b - a, 1, D.shape[1]))
        kernel(lines.starts[a:b], lines.ends[a:b], lines.indices, lines.data, args, own, 0, b - a)
        out[a:b] = own[:, 0]

    entries = lines.nnz * D.shape[1]
    pool.map(part, _chunks_of_products(lines, entries), entries)


def _multiply_dozen(pool: ThreadPool, lines: Lines, D: np.ndarray) -> np.ndarray:
    """Multiply lines with twelve columns."""
    table = _aligned_empty((len(D), 2 * LINE), D.dtype)
    table[:, :DOZEN] = D
    views = table.reshape(-1, 2, LINE), table.reshape(-1, 4, 4)
    out = np.empty((len(lines.starts), 3, 4))
    pool.map(
        lambda a, b: sparse.gather12(
            lines.starts, lines.ends, lines.indices, lines.data, *views, out, a, b
        ),
        _chunks_of_products(lines, lines.nnz * DOZEN),
        lines.nnz * DOZEN,
    )
    return out.reshape(-1, DOZEN)


def multiply_transposed(
    pool: ThreadPool, policy: CpuPolicy, lines: Lines, R: np.ndarray
) -> np.ndarray:
    """Multiply the transposed lines with R (lines, B) → (width, B)."""
    B = R.shape[1]
    if B == DOZEN and lines.width <= policy.max_band_rows // LINE:  # longer results use bands
        return _multiply_transposed_dozen(pool, policy, lines, R)
    if B > LINE:
        out = np.empty((lines.width, B))
        for block in _blocks(B):
            out[:, block] = multiply_transposed(pool, policy, lines, R[:, block])
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

    total = _aligned_zeros(shape)
    chunks, n = lines.chunks, len(lines.starts)
    long = total.nbytes * len(chunks) >= policy.max_partial_bytes
    bands = pieces(lines.width, max(1, policy.max_band_rows // B))
    if long and len(bands) > 1 and policy.min_entries_per_band * (len(bands) - 1) * n <= lines.nnz:
        # A long result (all rows) of long lines (columns) is computed in place by bands.
        edges = np.array([a for a, _ in bands] + [lines.width])
        cuts = np.empty((len(edges), n), np.int64)
        sparse.cut_lines(lines.starts, lines.ends, lines.indices, edges, cuts)
        whole = own(0, n)

        def band(c: int) -> None:
            kernel(cuts[c], cuts[c + 1], lines.indices, lines.data, whole, total, 0, n, total, n)

        pool.map(band, [(c,) for c in range(len(bands))])
        return total.reshape(lines.width, B)

    def part(a: int, b: int) -> np.ndarray:
        out, together = _aligned_zeros(shape), _lines_per_block(policy, lines, b - a)
        block = _aligned_zeros(shape) if b - a > together else out
        starts, ends = lines.starts[a:b], lines.ends[a:b]
        kernel(starts, ends, lines.indices, lines.data, own(a, b), out, 0, b - a, block, together)
        return out

    # Each part holds a whole result, so at most one per thread exists if results are long.
    at_once = pool.n_threads if long else len(chunks)
    for i in range(0, len(chunks), max(1, at_once)):
        for x in pool.map(part, chunks[i : i + at_once], lines.nnz * B):
            total += x
    return total.reshape(lines.width, B)


def _multiply_transposed_dozen(
    pool: ThreadPool, policy: CpuPolicy, lines: Lines, R: np.ndarray
) -> np.ndarray:
    """Multiply the transposed lines with twelve columns, for a short result."""
    rows = np.ascontiguousarray(R, np.float64).reshape(-1, 3, 4)

    def part(a: int, b: int) -> np.ndarray:
        together = _lines_per_block(policy, lines, b - a)
        own = _aligned_zeros((lines.width, 2 * LINE))
        block = _aligned_zeros(own.shape) if b - a > together else own
        sparse.scatter12(
            lines.starts[a:b], lines.ends[a:b], lines.indices, lines.data, rows[a:b],
            own.reshape(-1, 2, LINE), own.reshape(-1, 4, 4), 0, b - a,
            block.reshape(-1, 2, LINE), block.reshape(-1, 4, 4), together,
        )  # fmt: skip
        return own

    total = np.zeros((lines.width, DOZEN))
    for own in pool.map(part, lines.chunks, lines.nnz * DOZEN):
        total += own[:, :DOZEN]
    return total


def _chunks_of_products(lines: Lines, entries: int) -> list[tuple[int, int]]:
    """Return the chunks of lines whose products do not depend on each other."""
    return lines.chunks if number_of_chunks(entries) > 1 else [(0, len(lines.starts))]


def _blocks(B: int) -> list[slice]:
    """Split replicates into blocks of eight, with four in the last if necessary.

    Rows of twelve would not be aligned to cache lines, and random access to them would fetch two or
    three lines each.
    """
    return [slice(a, a + LINE) for a in range(0, B, LINE)]


def _lines_per_block(policy: CpuPolicy, lines: Lines, n: int) -> int:
    """Choose the number of lines, of a chunk of n, that are summed in one block.

    A block has several entries per value of the result, because each block adds the whole result.
    """
    if n <= LONG:
        return max(n, 1)
    a_line = max(lines.nnz / max(len(lines.starts), 1), 1e-3)
    return max(PIECE, int(policy.min_block_entries * lines.width / a_line))


def _aligned_zeros(
    shape: tuple[int, ...],
    dtype: DTypeLike = np.float64,
    make: Callable[[int, DTypeLike], np.ndarray] = np.zeros,
) -> np.ndarray:
    """Create an array that starts at a cache line, filled with zeros or by ``make``."""
    size, each = math.prod(shape), np.dtype(dtype).itemsize
    whole = make(size + CACHE_LINE // each, dtype)
    first = -whole.ctypes.data % CACHE_LINE // each
    return whole[first : first + size].reshape(shape)


def _aligned_empty(shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
    """Create an aligned array without initial values."""
    return _aligned_zeros(shape, dtype, np.empty)


def _aligned(x: np.ndarray) -> np.ndarray:
    """Return the array, copied if it is not contiguous and aligned."""
    if x.flags.c_contiguous and x.ctypes.data % CACHE_LINE == 0:
        return x
    out = _aligned_zeros(x.shape, x.dtype)
    out[...] = x
    return out
