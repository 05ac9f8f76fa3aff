"""Compare all Triton kernels with their twins in Triton's interpreter; see `test_triton_kernels`.

Run as a program, since Triton reads TRITON_INTERPRET when it is imported.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
from benchmarks.gpu.kernel_cases import failures, kernel_cases
from scipy import sparse

from steropes.backends import get_backend
from steropes.backends.cpu import Lines
from steropes.backends.pytorch import device_segment_sums, torch_backend
from steropes.backends.pytorch import device_sparse_matrices as device_sparse_lines
from steropes.backends.pytorch.kernels import conjugate_gradient_updates
from steropes.backends.pytorch.kernels.sparse_product_kernels import gather_with_triton
from steropes.backends.pytorch.quadratic_minimiser import DenseProducts, QuadraticMinimiser


def beyond_32_bits(folder: str) -> list[str]:
    """Gather from an array of more than 2³¹ entries, of which a sparse file stores three rows."""
    B = 8
    rows = 2**31 // B + 100
    D = np.memmap(Path(folder) / "D", np.float64, "w+", shape=(rows, B))
    at = np.array([3, rows - 50, rows - 1], np.int32)
    D[at] = np.arange(3.0 * B).reshape(3, B)
    pieces = torch.tensor([0, 2]), torch.tensor([2, 3])
    D = torch.from_numpy(D)
    found = gather_with_triton(*pieces, torch.from_numpy(at), torch.empty(0), D)
    expected = torch.stack([D[3] + D[rows - 50], D[rows - 1]])
    return [] if torch.equal(found, expected) else ["positions beyond 32 bits are wrong"]


def refused(call: Callable[[], object]) -> bool:
    """Return whether a call raises `ValueError`."""
    try:
        call()
    except ValueError:
        return True
    return False


def sums_of_the_backend() -> list[str]:
    """Gram matrices and sums of lines, which the backend computes from the panels of a kernel."""
    torch_backend.use_triton = lambda x: True
    backend, rng = get_backend("torch-cpu", 1), np.random.default_rng(0)
    x = sparse.random_array((50, 12), density=0.3, format="csr", rng=rng)
    v, runs, out = rng.random(50), np.array([0, 20, 20, 50]), []
    for data, rough in ((x.data, False), (x.data, True), (np.empty(0), True)):
        x.data = data if data.size else np.ones(x.nnz)
        own = Lines(x.indptr[:-1], x.indptr[1:], x.indices.astype(np.int32), data, 12)
        lines, w, dense = backend.lines(own), backend.asarray(v), x.toarray()
        G = backend.xp.zeros((12, 12), np.float32 if rough else np.float64)
        backend.gram(lines, w, G, 0, rough)
        expected = np.tril(dense.T @ (v[:, None] * dense))
        if not np.allclose(backend.to_host(G), expected, rtol=2**-15 if rough else 1e-12):
            out.append(f"Gram matrix, {rough=}, {len(data)} values")
        sums = backend.to_host(backend.line_sums(lines, w, runs))
        if not np.allclose(sums, [(v[a:b] @ dense[a:b]) for a, b in pairwise(runs)], rtol=1e-12):
            out.append(f"sums of lines, {len(data)} values")
        for call in (
            lambda lines=lines, w=w, G=G: backend.gram(lines, w[1:], G),
            lambda lines=lines, w=w, G=G: backend.gram(lines, w, G[1:, 1:]),
            lambda lines=lines, w=w: backend.line_sums(lines, w[1:], runs),
            lambda lines=lines, w=w: backend.line_sums(lines, w, runs + 1),
        ):
            if not refused(call):
                out.append("arrays of other shapes are not refused")
    return out


def products_of_the_backend() -> list[str]:
    """Products with rows and columns whose positions have 16 bits, as a GPU reads them."""
    for module in (torch_backend, device_sparse_lines, device_segment_sums):
        module.use_triton = lambda x: True
    device_sparse_lines.PIECE = 4  # so that columns are cut, and their pieces reordered
    backend, rng, out = get_backend("torch-cpu", 1), np.random.default_rng(1), []
    x = sparse.random_array((50, 12), density=0.3, format="csc", rng=rng)
    D, R = rng.normal(size=(12, 3)), rng.normal(size=(50, 3))
    for data in (x.data, np.empty(0)):
        x.data = data if data.size else np.ones(x.nnz)
        own = Lines(x.indptr[:-1], x.indptr[1:], x.indices.astype(np.int32), data, 50)
        parts = []
        for some in (np.arange(7), np.arange(7, 12)):
            columns = [(own.take(some), np.arange(len(some)))]
            parts.append(backend.to_rows(columns, np.arange(50), 50, len(some)))
        rows = backend.append_columns(*parts, 7, 12)
        if {rows.bags().indices.dtype, rows.transpose().bags().indices.dtype} != {torch.uint16}:
            out.append("positions are not in 16 bits")
        dense, at = x.toarray(), np.array([3, 1, 40])
        for found, expected in (
            (backend.gather(rows, backend.asarray(D)), dense @ D),
            (backend.scatter(rows, backend.asarray(R)), dense.T @ R),
            (backend.gather(rows.take(at), backend.asarray(D)), dense[at] @ D),
        ):
            if not np.allclose(backend.to_host(found), expected, rtol=0, atol=1e-12):
                out.append(f"products, {len(data)} values")
    return out


def minima_of_models() -> list[str]:
    """Minima of quadratic models with kernels in the iterations, against those without."""
    rng, k, B, found = np.random.default_rng(2), 40, 3, []
    Z = rng.normal(size=(90, k)) + 0.7 * rng.normal(size=(90, 1))
    G, f = Z.T @ Z, np.array([0])
    Y = G[f] / np.sqrt(G[0, 0])
    ones = np.ones((k, B))
    l1 = np.where(np.arange(k) < 1, 0.0, 20.0)[:, None] * ones
    for fused in (False, True):
        conjugate_gradient_updates.use_triton = lambda x, fused=fused: fused
        rng = np.random.default_rng(3)
        minimiser = QuadraticMinimiser(DenseProducts(torch.from_numpy(G).float()))
        found.append(minimiser.minimise(
            np.diag(G) - (Y**2).sum(0) + (np.arange(k) < 1), f, Y, g=90 * rng.normal(size=(k, B)),
            y=0 * ones, l1=l1, l2=ones, unit=ones, tolerance=np.full(B, 1e-2),
            U=rng.normal(size=(2, k, B)), c=np.ones((2, B)),
        ))  # fmt: skip
    return [] if np.allclose(*found, rtol=0, atol=1e-4) else ["minima of models"]


torch.set_num_threads(1)
warnings.simplefilter("ignore", RuntimeWarning)  # NumPy's, of infinities in masked lanes
found = [line for case in kernel_cases("cpu", 64, (1, 3)) for line in failures(case, 2)]
with tempfile.TemporaryDirectory() as folder:
    found += beyond_32_bits(folder)
found += minima_of_models() + sums_of_the_backend() + products_of_the_backend()
print("\n".join(found))
sys.exit(bool(found))
