"""CUDA kernels: one thread for each piece of work and replicate, replicates fastest.

Every loop is a grid-stride loop, so any grid gives the same result, and every sum is made by
one thread in a fixed order: no atomics, and the same digits in every run. Long sums are cut into
pieces of fixed length by the caller, whose sums are added in order. Places are counted in 64 bits:
line × width has more than 32.
"""

from __future__ import annotations

import numpy as np
from numba import cuda

__all__ = [
    "densify",
    "expand",
    "max_ranges",
    "scan_ranges",
    "sum_lines",
    "sum_ranges",
    "sum_runs",
]


@cuda.jit(cache=True)
def sum_lines(starts, ends, indices, data, valued, D, out):
    """out[a, b] = Σ_k data[k] D[indices[k], b] over k in starts[a] … ends[a]."""
    B = out.shape[1]
    for t in range(np.int64(cuda.grid(1)), out.shape[0] * B, cuda.gridsize(1)):
        a, b = t // B, t % B
        s = 0.0
        if valued:
            for k in range(starts[a], ends[a]):
                s += data[k] * D[indices[k], b]
        else:
            for k in range(starts[a], ends[a]):
                s += D[indices[k], b]
        out[a, b] = s


@cuda.jit(cache=True)
def sum_ranges(x, starts, ends, out):
    """out[a, b] = Σ_i x[i, b] over i in starts[a] … ends[a]."""
    B = out.shape[1]
    for t in range(np.int64(cuda.grid(1)), out.shape[0] * B, cuda.gridsize(1)):
        a, b = t // B, t % B
        s = 0.0
        for i in range(starts[a], ends[a]):
            s += x[i, b]
        out[a, b] = s


@cuda.jit(cache=True)
def max_ranges(x, starts, ends, out):
    """out[a, b] = the largest x[i, b], i in starts[a] … ends[a], or out[a, b] if that is larger."""
    B = out.shape[1]
    for t in range(np.int64(cuda.grid(1)), out.shape[0] * B, cuda.gridsize(1)):
        a, b = t // B, t % B
        top = out[a, b]
        for i in range(starts[a], ends[a]):
            if not x[i, b] <= top:  # NaN is passed on
                top = x[i, b]
        out[a, b] = top


@cuda.jit(cache=True)
def scan_ranges(x, starts, ends, before, reverse, exclusive, out):
    """Running sums of x over the ranges, each from before[a, b] on."""
    B = out.shape[1]
    for t in range(np.int64(cuda.grid(1)), before.shape[0] * B, cuda.gridsize(1)):
        a, b = t // B, t % B
        s = before[a, b]
        lo, hi = starts[a], ends[a]
        for step in range(hi - lo):
            i = hi - 1 - step if reverse else lo + step
            if exclusive:
                out[i, b] = s
                s += x[i, b]
            else:
                s += x[i, b]
                out[i, b] = s


@cuda.jit(cache=True)
def sum_runs(starts, ends, indices, data, valued, u, first, last, out):
    """out[s] = Σ u_i x_i, dense, over the lines i in first[s] … last[s]; ``out`` is zero."""
    for s in range(np.int64(cuda.grid(1)), out.shape[0], cuda.gridsize(1)):
        for i in range(first[s], last[s]):
            for k in range(starts[i], ends[i]):
                out[s, indices[k]] += u[i] * (data[k] if valued else 1.0)


@cuda.jit(cache=True)
def densify(starts, ends, indices, data, valued, out):
    """out[a, indices[k]] = data[k]; ``out`` is zero."""
    for a in range(np.int64(cuda.grid(1)), out.shape[0], cuda.gridsize(1)):
        for k in range(starts[a], ends[a]):
            out[a, indices[k]] = data[k] if valued else 1.0


@cuda.jit(cache=True)
def expand(starts, ends, line, place, indices, out_line, out_index, out_entry):
    """Write the line, index and place of the entries starts[a] … ends[a] from place[a] on."""
    for a in range(np.int64(cuda.grid(1)), starts.shape[0], cuda.gridsize(1)):
        at = place[a]
        for k in range(starts[a], ends[a]):
            out_line[at] = line[a]
            out_index[at] = indices[k]
            out_entry[at] = k
            at += 1
