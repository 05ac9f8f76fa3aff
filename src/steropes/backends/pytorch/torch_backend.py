"""The backend on a PyTorch device."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..backend_interface import Lines
from ..shape_checks import require_rows, require_square, require_weights
from ..thread_pool import ThreadPool
from .device_array import DeviceArray
from .device_array_functions import ArrayFunctions
from .device_risk_sweeps import DeviceRiskSweeps
from .device_segment_sums import (
    Bags,
    Segments,
    bag_sums,
    running_sums,
    segment_max,
    segment_softmax,
    segment_sums,
)
from .device_sparse_matrices import DeviceLines, index_type
from .device_symmetric_matrix import TorchMatrix, TorchMinimiser
from .host_device_transfers import download, upload
from .kernels.conditional_likelihood_kernels import MatchedSets, conditional
from .kernels.gram_matrix_kernels import panel_with_triton, product_of_panels
from .kernels.logistic_losses import logistic_losses
from .kernels.segment_sum_kernels import ranges
from .kernels.triton_or_pytorch_choice import use_triton
from .quadratic_minimiser import OperatorProducts

__all__ = ["TorchBackend"]

# Number of entries of the dense panels from which Gram matrices are computed, on PyTorch's CPU
# device and on a GPU. Each panel changes the whole matrix, so that small ones cost a GPU more than
# their products.
PANEL, GPU_PANEL = 8_000_000, 64_000_000
# Columns of a stripe of a Gram matrix; entries above the stripe's diagonal square are left out.
STRIPE = 2048
# A GPU multiplies panels fast if their rows begin at multiples of this many entries.
ALIGNED = 16


def _aligned(width: int) -> int:
    """Round up to a multiple of `ALIGNED`."""
    return -(-width // ALIGNED) * ALIGNED


def _in_parts(v: torch.Tensor, dtype: torch.dtype) -> list[torch.Tensor]:
    """Round v to a type; numbers of bfloat16 are followed by what their rounding left."""
    first = v.to(dtype)
    return [first, (v - first.to(v.dtype)).to(dtype)] if dtype == torch.bfloat16 else [first]


class TorchBackend:
    """Kernels on a PyTorch device, with `ArrayFunctions` as ``xp``.

    Arrays with an entry for each row of the data are on the device. Quadratic models are minimised
    there as well; their arrays of columns and replicates may be on the host or on the device.

    Parameters
    ----------
    device : {"cuda", "torch-cpu"}
    n_jobs : int or None
        Number of threads of the host.
    """

    name: ClassVar[str] = "torch"
    on_host: ClassVar[bool] = False
    single_precision_sums: ClassVar[bool] = False
    fused_risk_sweeps: ClassVar[bool] = True

    def __init__(self, device: str = "cuda", n_jobs: int | None = None) -> None:
        self.device_name = device
        self.device = torch.device("cpu" if device == "torch-cpu" else device)
        self.xp: Any = ArrayFunctions(self.device)
        self.pool = ThreadPool(n_jobs)
        self._panel = PANEL if self.device.type == "cpu" else GPU_PANEL
        self._kept: dict[tuple[object, ...], tuple[Any, Any]] = {}

    def __reduce__(self) -> tuple:
        return type(self), (self.device_name, self.pool.n_threads)

    # -- to and from the device -------------------------------------------------------------------

    @staticmethod
    def lanes(B: int) -> int:
        """Return the width to which B replicates are padded: B, without padding."""
        return B

    def asarray(self, x: ArrayLike, dtype: DTypeLike | None = None) -> DeviceArray:
        """Transfer an array to the device."""
        out: DeviceArray = self.xp.asarray(x, dtype)
        return out

    def resident(self, x: Any) -> DeviceArray:
        """Transfer an array that never changes, once; see `Backend.resident`."""
        if isinstance(x, DeviceArray):
            return x
        return self._keep("rows", lambda x: DeviceArray(upload(x, self.device)), x)

    @staticmethod
    def to_host(x: object) -> Any:
        """Transfer an array to the host; return other objects unchanged."""
        return download(x.tensor) if isinstance(x, DeviceArray) else x

    def lines(self, x: Lines) -> DeviceLines:
        """Transfer a sparse matrix to the device; entries that are there are not sent again."""
        if isinstance(x, DeviceLines):
            return x
        return self._keep("lines", self._sent, x)

    def _sent(self, x: Lines) -> DeviceLines:
        """Transfer lines of the host."""
        starts = np.asarray(x.starts, np.int64)
        sizes = np.asarray(x.ends, np.int64) - starts
        indices = self._keep("indices", self._upload, x.indices)
        data = self._keep("data", self._upload, x.data)
        return DeviceLines(starts, sizes, indices, data, x.width)

    def _keep(self, use: str, make: Callable[..., Any], *objects: object) -> Any:
        """Return the result of ``make`` for objects that never change, while they exist."""
        key = (use, *map(id, objects))
        if key not in self._kept:
            kept = self._kept
            references = [weakref.ref(x, lambda _: kept.pop(key, None)) for x in objects]
            kept[key] = references, make(*objects)
        return self._kept[key][1]

    def _upload(self, x: NDArray) -> torch.Tensor:
        """Copy an array to the device."""
        return upload(x, self.device)

    def _here(self, x: object) -> torch.Tensor:
        """Return the tensor of an array, which is transferred if it is on the host."""
        return x.tensor if isinstance(x, DeviceArray) else upload(np.asarray(x), self.device)

    def _segments(self, pointers: NDArray) -> Segments:
        """Prepare segments, once for an array of pointers."""
        return self._keep("segments", lambda p: Segments(p, self.device), pointers)

    def device_matrix(self, G: DeviceArray | NDArray) -> TorchMatrix:
        """Store a symmetric matrix; see `Backend.device_matrix`."""
        return TorchMatrix(self._here(G))

    def operator_minimiser(self, times: Callable[[DeviceArray], DeviceArray]) -> TorchMinimiser:
        """Minimise quadratic models by products; see `Backend.operator_minimiser`."""
        return TorchMinimiser(OperatorProducts(times, self.device))

    # -- sparse products --------------------------------------------------------------------------

    def gather(self, lines: Lines, D: DeviceArray) -> DeviceArray:
        """Multiply every line with D (width, B) → (lines, B)."""
        factor = self._here(D)
        require_rows(factor, lines.width)
        return DeviceArray(bag_sums(lines.bags(), factor))

    def scatter(self, lines: Lines, R: DeviceArray) -> DeviceArray:
        """Compute the transposed product R (lines, B) → (width, B)."""
        factor = self._here(R)
        require_rows(factor, len(lines.starts))
        return DeviceArray(bag_sums(lines.transpose().bags(), factor))

    def gram(
        self, lines: Lines, v: DeviceArray, G: DeviceArray, first: int = 0, rough: bool = False
    ) -> None:
        """Add Σ_i v_i x_i x_i' to the lower triangle of G, from dense panels of rows.

        With ``rough`` panels and products are in single precision; on a GPU, panels of 0/1 columns
        are in bfloat16. Only v is rounded, to two numbers of that type. One would do for X'VX,
        which remains positive semidefinite: a claims-like study of 60,000 × 16,000 with ten folds,
        whose models are logistic, took 43 steps in place of 41 and as many Hessians, counted on the
        CPU. A Cox model subtracts the terms of its risk sets, which are not rounded alike, so that
        by arithmetic the difference need not remain so. That has not been measured.
        """
        weights, total = self._here(v), G.tensor
        require_weights(lines, weights)
        require_square(lines, total)
        dtype = torch.float32 if rough else torch.float64
        if rough and not lines.valued and use_triton(total):
            dtype = torch.bfloat16
        start, width = first // ALIGNED * ALIGNED, _aligned(lines.width)
        for a, b in self._panels(len(lines), width):
            Z = self._dense(lines, a, b, dtype, width)
            parts = [Z * v[:, None] for v in _in_parts(weights[a:b], dtype)]
            for s in range(start, lines.width, STRIPE):
                end, row = min(s + STRIPE, lines.width), max(s, first)
                e = _aligned(end)
                for vZ in parts:
                    product = product_of_panels(vZ[:, s:e], Z[:, :e]).to(total.dtype)
                    product = product[row - s : end - s]
                    if row:
                        total[row:end, :row] += product[:, :row]
                    total[row:end, row:end] += torch.tril(product[:, row:end])

    def _panels(self, n: int, width: int) -> list[tuple[int, int]]:
        """Split n rows into ranges that fit a dense panel."""
        step = max(1, self._panel // max(1, width))
        return [(a, min(a + step, n)) for a in range(0, n, step)]

    def _dense(
        self, lines: DeviceLines, a: int, b: int, dtype: torch.dtype, width: int
    ) -> torch.Tensor:
        """Return the lines a … b − 1 as a dense matrix, with columns of zeros up to a width."""
        if use_triton(lines.indices.tensor):
            starts, ends = lines.starts.tensor[a:b], lines.ends.tensor[a:b]
            entries = lines.indices.tensor, lines.data.tensor
            return panel_with_triton(starts, ends, *entries, width, None, dtype)[0]
        line, index, data = lines.entries(a, b)
        Z = torch.zeros((b - a, width), dtype=dtype, device=self.device)
        ones = torch.ones((), dtype=dtype, device=self.device)
        Z[line, index.long()] = ones if data is None else data.to(dtype)
        return Z

    def gram_groups(
        self, lines: Lines, u: DeviceArray, runs: NDArray, flush: NDArray, c: NDArray,
        G: DeviceArray,
    ) -> None:  # fmt: skip
        """Subtract Σ_g c_g m_g m_g' from the lower triangle of G; see `Backend.gram_groups`."""
        require_square(lines, G)
        runs, flush, c = (np.asarray(self.to_host(x)) for x in (runs, flush, c))
        ends = np.flatnonzero(flush) + 1
        run = np.searchsorted(runs, ends, side="left") - 1
        begins = runs[run]
        same = run[1:] == run[:-1]
        begins[1:][same] = ends[:-1][same]
        carried = None
        for a, b in self._panels(len(ends), lines.width):
            e, r = ends[a:b], run[a:b]
            between = np.append(np.stack([begins[a:b], e], 1).ravel(), e[-1])
            S = self.line_sums(lines, u, between).tensor[::2][: len(e)].clone()
            if carried is not None and run[a - 1] == r[0]:
                S[0] += carried
            edges = np.concatenate([[0], np.flatnonzero(np.diff(r)) + 1, [len(r)]])
            M = running_sums(S, Segments(edges, self.device))
            carried = M[-1]
            weights = upload(np.ascontiguousarray(c[e - 1]), self.device)
            G.tensor -= torch.tril((M * weights[:, None]).T @ M)

    def line_sums(self, lines: Lines, u: DeviceArray, pointers: NDArray) -> DeviceArray:
        """Compute Σ u_i x_i over the lines pointers[s] … pointers[s + 1] − 1, dense (s, width)."""
        pointers = np.asarray(pointers, np.int64)
        weights = self._here(u)
        require_weights(lines, weights, int(pointers[-1]))
        out = torch.zeros((len(pointers) - 1, lines.width), dtype=torch.float64, device=self.device)
        first, last = int(pointers[0]), int(pointers[-1])
        for a, b in self._panels(last - first, lines.width):
            a, b = first + a, first + b
            Z = self._dense(lines, a, b, torch.float64, lines.width) * weights[a:b, None]
            s = int(np.searchsorted(pointers, a, side="right")) - 1
            t = int(np.searchsorted(pointers, b, side="left"))
            inside = Segments(np.clip(pointers[s : t + 1], a, b) - a, self.device)
            out[s:t] += segment_sums(Z, inside)
        return DeviceArray(out)

    def to_rows(
        self, columns: Sequence[tuple[Lines, NDArray]], position: NDArray, n: int, width: int
    ) -> DeviceLines:
        """Convert chosen columns to rows; the result has both orders of the entries."""
        device = self.device
        place = self._keep("positions", self._upload, position)
        valued = any(lines.data.size for lines, _ in columns)
        rows, numbers, values = [], [], []
        for host, local in columns:
            line, index, data = self.lines(host).entries()
            row = place[index.long()]
            kept = torch.nonzero(row >= 0)[:, 0]
            rows.append(row[kept])
            numbers.append(upload(np.asarray(local), device)[line][kept])
            if valued:
                ones = torch.ones(len(kept), dtype=torch.float64, device=device)
                values.append(ones if data is None else data[kept])
        row, number = torch.cat(rows), torch.cat(numbers)
        none = torch.zeros(0, dtype=torch.float64, device=device)
        value = torch.cat(values) if valued else none
        if (np.diff(np.concatenate([local for _, local in columns])) < 0).any():
            # Otherwise the entries are in the order of the columns.
            by = torch.argsort(number, stable=True)
            row, number, value = row[by], number[by], value[by] if valued else value
        by = torch.argsort(row, stable=True)
        by_column = number, row, value, width, n
        by_row = row, number[by], value[by] if valued else value, n, width
        out: list[DeviceLines] = []
        for line, index, data, lines, size in (by_column, by_row):
            lengths = torch.bincount(line, minlength=lines)
            sizes, starts = download(lengths), torch.cumsum(lengths, 0) - lengths
            out.append(
                DeviceLines(
                    np.cumsum(sizes) - sizes, sizes, index.to(index_type(size)),
                    data, size, out[0] if out else None, (starts, lengths),
                )
            )  # fmt: skip
        return out[1]

    def append_columns(self, lines: Lines, new: Lines, first: int, width: int) -> Lines:
        """Append columns to rows; see `DeviceLines.with_columns`."""
        return lines.with_columns(new, first, width)

    # -- scans and elementwise work ---------------------------------------------------------------

    def scan(self, x: DeviceArray, pointers: NDArray, reverse: bool = False) -> DeviceArray:
        """Compute inclusive running sums of x (n, B) within segments, reversed if requested."""
        return DeviceArray(running_sums(self._here(x), self._segments(pointers), reverse))

    def segment_sum(self, x: DeviceArray, pointers: NDArray) -> DeviceArray:
        """Sum x (n, B) over the segments; an empty segment gives zero."""
        return DeviceArray(segment_sums(self._here(x), self._segments(pointers)))

    def range_sum(self, x: DeviceArray, starts: NDArray, ends: NDArray) -> DeviceArray:
        """Sum x (n, B) over the rows starts[s] … ends[s] − 1, which may leave gaps or overlap."""
        bags = self._keep("ranges", self._ranges, starts, ends)
        return DeviceArray(bag_sums(bags, self._here(x)))

    def _ranges(self, starts: NDArray, ends: NDArray) -> Bags:
        """Prepare sums over ranges of rows."""
        starts, sizes = np.asarray(starts, np.int64), np.asarray(ends - starts, np.int64)
        total = int(sizes.sum())
        rows = ranges(upload(starts, self.device), upload(sizes, self.device), total)
        return DeviceLines(np.cumsum(sizes) - sizes, sizes, rows.int(), rows.new_zeros(0), 0).bags()

    def segment_max(self, x: DeviceArray, pointers: NDArray) -> DeviceArray:
        """Find the maxima of x (n, B) over the segments; −∞ for an empty segment."""
        return DeviceArray(segment_max(self._here(x), self._segments(pointers)))

    def segment_softmax(
        self, eta: DeviceArray, w: DeviceArray, pointers: NDArray, scale: DeviceArray,
        shares: bool = True,
    ) -> tuple[DeviceArray, DeviceArray]:  # fmt: skip
        """Compute log Σ w e^η of each segment and the scaled shares; see the protocol."""
        e, weights, factor = (self._here(x) for x in (eta, w, scale))
        logs, parts = segment_softmax(e, weights, self._segments(pointers), factor, shares)
        return DeviceArray(logs), DeviceArray(parts)

    def conditional_sets(
        self, eta: DeviceArray, w: DeviceArray, case: NDArray, pointers: NDArray
    ) -> tuple[DeviceArray, DeviceArray]:
        """Compute exact conditional losses and probabilities; see the protocol."""

        def prepare(case: NDArray, pointers: NDArray) -> MatchedSets:
            cases, edges = (torch.from_numpy(np.array(x)) for x in (case, pointers))
            return MatchedSets(cases, edges, self.device)

        sets = self._keep("sets", prepare, case, pointers)
        loss, out = conditional(eta.tensor, w.tensor, sets)
        return DeviceArray(loss.sum(0)), DeviceArray(out)

    def risk_sweeps(
        self, n: int, strata: NDArray, groups: NDArray, tied: NDArray, tied_end: NDArray,
        place: NDArray, shares: NDArray | None,
    ) -> DeviceRiskSweeps:  # fmt: skip
        """Build the fused kernels of Cox's likelihood."""
        return DeviceRiskSweeps(n, strata, groups, tied, tied_end, place, shares, self.device)

    def lexsort(self, keys: Sequence[NDArray]) -> NDArray:
        """Sort rows by several keys on the device; see `Backend.lexsort`."""
        order = torch.argsort(upload(keys[0], self.device), stable=True)
        for key in keys[1:]:
            order = order[torch.argsort(upload(key, self.device)[order], stable=True)]
        return download(order)

    @staticmethod
    def column_sum(x: DeviceArray | None) -> DeviceArray | None:
        """Sum x (n, B) over rows, (B,); None for None."""
        return None if x is None else x.sum(axis=0)

    def map_rows(self, function: Callable, *arrays: object) -> list[DeviceArray]:
        """Apply an elementwise function that returns a tuple of arrays."""
        return list(function(*map(self.resident, arrays)))

    def sum_rows(self, function: Callable, *arrays: object) -> tuple:
        """Apply `map_rows`, but sum the function's first array over rows."""
        summed, *results = function(*map(self.resident, arrays))
        return self.column_sum(summed), results

    def logistic(
        self, eta: DeviceArray, w: DeviceArray, y: DeviceArray
    ) -> tuple[DeviceArray, DeviceArray]:
        """See `Backend.logistic`."""
        e, weights, outcome = (self._here(x) for x in (eta, w, y))
        loss, slopes = logistic_losses(e, weights, outcome)
        return DeviceArray(loss), DeviceArray(slopes)
