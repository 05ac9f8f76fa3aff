"""The face of `steropes.backends.cpu.CpuBackend` on a CUDA device.

Nothing is tuned yet; what is fixed is that every sum has a fixed order, so that a fit gives the
same digits every time, and that X is sent to the device once.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ..protocols import Array, SparseLines
from ..thread_pool import ThreadPool
from . import kernels
from .device import array_module, simulated
from .lines import DeviceLines, Pieces, cut

__all__ = ["CudaBackend"]

THREADS = 128
BLOCKS = 65_535
SIMULATED = (2, 2)  # blocks, threads: each is a thread of Python's
DENSE = 8_000_000  # entries of the dense copies that a Gram matrix is computed from at once


class CudaBackend:
    """The kernels on a CUDA device; ``xp`` is CuPy, or NumPy in the simulator.

    The quadratic models of the replicates are solved on the host, so their inputs and outputs
    are NumPy arrays; what has a row of the data for each of its rows lives on the device.

    Parameters
    ----------
    n_jobs : int or None
        Threads of the host's part.
    """

    name: ClassVar[str] = "cuda"
    on_host: ClassVar[bool] = False
    single_precision_sums: ClassVar[bool] = False
    fused_risk_sweeps: ClassVar[bool] = False
    piece = 256  # additions that one thread makes in a row

    def __init__(self, n_jobs: int | None = None) -> None:
        self.xp = array_module()
        self.pool = ThreadPool(n_jobs)
        self._sent: dict[int, tuple[Any, Any]] = {}
        self._cuts: dict[int, tuple[Any, Pieces]] = {}
        self._one = self.asarray(np.ones(1))  # stands for values where all entries are one

    def __reduce__(self) -> tuple:
        return type(self), (self.pool.n_threads,)  # arrays on the device stay there

    @staticmethod
    def lanes(B: int) -> int:
        """Return the width to which B replicates are padded: none, as threads need no padding."""
        return B

    def asarray(self, x: Array, dtype: DTypeLike | None = None) -> Array:
        """Bring an array to the device."""
        return self.xp.asarray(x, dtype=dtype)

    def to_host(self, x: Array) -> np.ndarray:
        """Bring an array back."""
        return x.get() if self.xp is not np and isinstance(x, self.xp.ndarray) else x

    def _launch(self, kernel: Any, work: int, *args: Any) -> None:
        """Run a kernel with about one thread for each of ``work`` items."""
        if work > 0:
            grid = SIMULATED if simulated() else (min(-(-work // THREADS), BLOCKS), THREADS)
            # Contiguous arrays need no copy, and one compiled kernel serves them all.
            arrays = self.xp.ascontiguousarray
            kernel[grid](*(arrays(x) if getattr(x, "ndim", 0) else x for x in args))

    # -- sparse products -------------------------------------------------------------------

    def lines(self, x: SparseLines) -> DeviceLines:
        """Bring a sparse matrix to the device; entries that are there already stay there."""
        return DeviceLines(
            self.asarray(x.starts),
            self.asarray(x.ends),
            self._keep(x.indices),
            self._keep(x.data),
            x.width,
        )

    def _keep(self, x: np.ndarray) -> Array:
        """Return the device's copy of an array of X, which never changes."""
        return _remember(self._sent, x, self.asarray)

    def _entries(self, lines: DeviceLines) -> tuple[Array, int, Array]:
        """Return the values, whether any exist, and the numbers of the entries' places."""
        valued = int(len(lines.data) > 0)
        return (lines.data if valued else self._one), valued, lines.indices

    def _pieces(self, lines: DeviceLines) -> Pieces:
        """Return the pieces into which long lines are cut, computed once."""
        if lines.pieces is None:
            lines.pieces = cut(self.xp, lines.starts, lines.ends, self.piece)
        return lines.pieces

    def gather(self, lines: DeviceLines, D: Array) -> Array:
        """Return line · D for every line: D (width, B) → (lines, B)."""
        pieces, B = self._pieces(lines), D.shape[1]
        data, valued, indices = self._entries(lines)
        parts = self.xp.zeros((len(pieces), B))
        self._launch(
            kernels.sum_lines, parts.size, pieces.starts, pieces.ends, indices, data, valued,
            D, parts,
        )  # fmt: skip
        return self._add_pieces(pieces, parts)

    def _add_pieces(self, pieces: Pieces, parts: Array) -> Array:
        """Add the parts of each line's pieces, (lines, B)."""
        out = self.xp.zeros((len(pieces.pointers) - 1, parts.shape[1]))
        self._launch(
            kernels.sum_ranges, out.size, parts, pieces.pointers[:-1], pieces.pointers[1:], out
        )
        return out

    def scatter(self, lines: DeviceLines, R: Array) -> Array:
        """Return the transposed product: R (lines, B) → (width, B)."""
        return self.gather(self._transposed(lines), R)

    def _transposed(self, lines: DeviceLines) -> DeviceLines:
        """Return the transposed lines, computed once."""
        if lines.transpose is None:
            line, index, entry = self._expanded(lines)
            values = lines.data[entry] if len(lines.data) else lines.data
            lines.transpose = self._sorted(index, line, values, lines.width, len(lines.starts))
        return lines.transpose

    def _expanded(self, lines: DeviceLines) -> tuple[Array, Array, Array]:
        """Compute the line, index and place of every entry, in the order of the lines."""
        xp, pieces = self.xp, self._pieces(lines)
        size = pieces.ends - pieces.starts
        place = xp.cumsum(size) - size
        line, index, entry = (xp.zeros(lines.nnz, np.int64) for _ in range(3))
        self._launch(
            kernels.expand, len(pieces), pieces.starts, pieces.ends, pieces.line, place,
            lines.indices, line, index, entry,
        )  # fmt: skip
        return line, index, entry

    def _sorted(self, line: Array, index: Array, values: Array, n: int, width: int) -> DeviceLines:
        """Build lines with increasing indices from entries in any order."""
        xp = self.xp
        # No two are equal. Line × width needs 64 bits, though the numbers of the lines may have 32.
        by = xp.argsort(line.astype(np.int64) * width + index)
        ends = xp.cumsum(xp.bincount(line, minlength=n)) if len(line) else xp.zeros(n, np.int64)
        starts = xp.concatenate([xp.zeros(1, ends.dtype), ends])[:-1]
        kind = np.uint16 if width <= np.iinfo(np.uint16).max else np.int64
        return DeviceLines(
            starts, ends, index[by].astype(kind), values[by] if len(values) else values, width
        )

    def to_rows(
        self,
        columns: Sequence[tuple[SparseLines, np.ndarray]],
        position: np.ndarray,
        n: int,
        width: int,
    ) -> DeviceLines:
        """Turn chosen columns into rows; see `CpuBackend.to_rows`."""
        xp = self.xp
        place = self.asarray(position)
        valued = any(lines.data.size for lines, _ in columns)
        rows, numbers, values = [], [], []
        for host, local in columns:
            lines = self.lines(host)
            column, row, entry = self._expanded(lines)
            row = place[row]
            kept = xp.flatnonzero(row >= 0)
            rows.append(row[kept])
            numbers.append(self.asarray(local)[column[kept]])
            if valued:
                ones = xp.ones(len(kept))
                values.append(lines.data[entry[kept]] if len(lines.data) else ones)
        data = xp.concatenate(values) if valued else xp.zeros(0)
        return self._sorted(xp.concatenate(rows), xp.concatenate(numbers), data, n, width)

    def gram(
        self, lines: DeviceLines, v: Array, G: Array, first: int = 0, rough: bool = False
    ) -> None:
        """Add Σ_i v_i x_i x_i' to the lower triangle of G, for the rows of G from ``first`` on.

        With ``rough`` it may be rounded to single precision; here it is not.
        """
        xp, v = self.xp, self.asarray(v)
        data, valued, indices = self._entries(lines)
        step = max(1, DENSE // max(1, lines.width))
        for a in range(0, len(lines.starts), step):
            starts, ends = lines.starts[a : a + step], lines.ends[a : a + step]
            Z = xp.zeros((len(starts), lines.width))
            self._launch(kernels.densify, len(starts), starts, ends, indices, data, valued, Z)
            G[first:] += xp.tril((Z[:, first:] * v[a : a + step, None]).T @ Z, first)

    def gram_groups(self, lines: DeviceLines, u, runs, flush, c, G: Array) -> None:
        """Subtract Σ_g c_g m_g m_g' from the lower triangle of G; see `CpuBackend.gram_groups`."""
        runs, flush, c = (np.asarray(self.to_host(x)) for x in (runs, flush, c))
        ends = np.flatnonzero(flush) + 1
        run = np.searchsorted(runs, ends, side="left") - 1
        begins = runs[run]
        same = run[1:] == run[:-1]
        begins[1:][same] = ends[:-1][same]
        step = max(1, DENSE // max(1, lines.width))
        carried = None
        for a in range(0, len(ends), step):
            e, r = ends[a : a + step], run[a : a + step]
            S = self._sum_runs(lines, u, begins[a : a + step], e)
            if carried is not None and run[a - 1] == r[0]:
                S[0] += carried
            edges = np.concatenate([[0], np.flatnonzero(np.diff(r)) + 1, [len(r)]])
            M = self.scan(S, edges)
            carried = M[-1].copy()
            G -= self.xp.tril((M * self.asarray(c[e - 1])[:, None]).T @ M)

    def line_sums(self, lines: DeviceLines, u: Array, pointers: Array) -> Array:
        """Return Σ u_i x_i over each run of lines pointers[s] … pointers[s+1], dense (s, width)."""
        return self._sum_runs(lines, u, pointers[:-1], pointers[1:])

    def _sum_runs(self, lines: DeviceLines, u: Array, first: Array, last: Array) -> Array:
        """Compute Σ u_i x_i over the lines first[s] … last[s] − 1, dense, (runs, width)."""
        data, valued, indices = self._entries(lines)
        out = self.xp.zeros((len(first), lines.width))
        self._launch(
            kernels.sum_runs, len(out), lines.starts, lines.ends, indices, data, valued,
            self.asarray(u), self.asarray(first), self.asarray(last), out,
        )  # fmt: skip
        return out

    # -- scans and elementwise work ----------------------------------------------------------

    def _segments(self, pointers: Array) -> Pieces:
        """Cut the segments between pointers; cached as long as the array of pointers lives."""

        def make(pointers: Array) -> Pieces:
            on_device = self.asarray(pointers)
            return cut(self.xp, on_device[:-1], on_device[1:], self.piece)

        return _remember(self._cuts, pointers, make)

    def scan(self, x: Array, pointers: Array, reverse: bool = False) -> Array:
        """Compute inclusive running sums of x (n, B) by segment, from the end if ``reverse``."""
        xp, pieces = self.xp, self._segments(pointers)
        sums = xp.zeros((len(pieces), x.shape[1]))
        self._launch(kernels.sum_ranges, sums.size, x, pieces.starts, pieces.ends, sums)
        p = pieces.pointers
        zero, before = xp.zeros((len(p) - 1, x.shape[1])), xp.zeros(sums.shape)
        self._launch(
            kernels.scan_ranges, zero.size, sums, p[:-1], p[1:], zero, reverse, True, before
        )
        out = xp.zeros(x.shape)
        self._launch(
            kernels.scan_ranges, before.size, x, pieces.starts, pieces.ends, before, reverse,
            False, out,
        )  # fmt: skip
        return out

    def segment_sum(self, x: Array, pointers: Array) -> Array:
        """Sum x (n, B) over the segments; an empty segment gives zero."""
        pieces = self._segments(pointers)
        parts = self.xp.zeros((len(pieces), x.shape[1]))
        self._launch(kernels.sum_ranges, parts.size, x, pieces.starts, pieces.ends, parts)
        return self._add_pieces(pieces, parts)

    def range_sum(self, x: Array, starts: Array, ends: Array) -> Array:
        """Sum x (n, B) over rows starts[s] … ends[s] − 1; ranges may leave gaps or overlap."""
        out = self.xp.zeros((len(starts), x.shape[1]))
        starts, ends = self.asarray(starts), self.asarray(ends)
        self._launch(kernels.sum_ranges, out.size, x, starts, ends, out)
        return out

    def segment_max(self, x: Array, pointers: Array) -> Array:
        """Find the largest entries of x (n, B) over the segments; −∞ for an empty one."""
        pieces = self._segments(pointers)
        parts = self.xp.full((len(pieces), x.shape[1]), -np.inf)
        self._launch(kernels.max_ranges, parts.size, x, pieces.starts, pieces.ends, parts)
        p = pieces.pointers
        out = self.xp.full((len(p) - 1, x.shape[1]), -np.inf)
        self._launch(kernels.max_ranges, out.size, parts, p[:-1], p[1:], out)
        return out

    def risk_sweeps(self, *_: Any) -> None:
        """Return None, because Cox's likelihood uses scans on this backend."""

    def column_sum(self, x: Array) -> Array:
        """Sum x (n, B) over rows, (B,)."""
        return None if x is None else x.sum(axis=0)

    def column_max(self, x: Array) -> Array:
        """Find the largest entries over rows of x (n, B), (B,)."""
        return x.max(axis=0)

    def map_rows(self, function: Callable, *arrays: Array) -> list:
        """Apply an elementwise function, which returns a tuple of arrays."""
        return list(function(*(self.asarray(x) for x in arrays)))

    def sum_rows(self, function: Callable, *arrays: Array) -> tuple:
        """Apply `map_rows`, but sum the function's first array (rows, B) over rows."""
        summed, *results = function(*(self.asarray(x) for x in arrays))
        return self.column_sum(summed), results

    def logistic(self, eta: Array, w: Array, y: Array) -> tuple[Array, Array]:
        """See `Backend.logistic`."""
        xp = self.xp
        e = xp.exp(-abs(eta))  # never overflows
        loss = w * (xp.log1p(e) + xp.maximum(eta, 0.0) - y * eta)
        return self.column_sum(loss), w * (xp.where(eta >= 0, 1.0, e) / (1.0 + e) - y)

    def segment_softmax(
        self, eta: Array, w: Array, pointers: Array, scale: Array, shares: bool = True
    ) -> tuple[Array, Array]:
        """log Σ w e^η of each segment and the scaled shares; see `CpuBackend.segment_softmax`."""
        xp = self.xp
        w, scale = self.asarray(w), self.asarray(scale)
        top = self.segment_max(xp.where(w > 0, eta, -np.inf), pointers)
        used = (scale != 0) & (top > -np.inf)
        top = xp.where(used, top, 0.0)
        line = self._lines_of(pointers)
        r = xp.where(w > 0, w * xp.exp(xp.where(w > 0, eta - top[line], 0.0)), 0.0)
        total = xp.where(used, self.segment_sum(r, pointers), 1.0)
        lse = xp.where(used, top + xp.log(total), 0.0)
        if not shares:
            return lse, xp.zeros((0, eta.shape[1]))
        return lse, r * xp.where(used, scale / total, 0.0)[line]

    def _lines_of(self, pointers: Array) -> Array:
        """Find the segment of each row."""
        on_device = self.asarray(pointers)
        rows = self.xp.arange(int(on_device[-1]))
        return self.xp.searchsorted(on_device, rows, side="right") - 1


def _remember(known: dict[int, tuple[Any, Any]], x: Array, make: Callable) -> Array:
    """Cache the result of ``make`` for an array that never changes while the array lives."""
    key = id(x)
    if key not in known:
        gone = weakref.ref(x, lambda _: known.pop(key, None))
        known[key] = gone, make(x)
    return known[key][1]
