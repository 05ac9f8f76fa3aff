"""The CPU backend: Numba kernels over fixed chunks, run by the thread pool."""

from .cpu_backend import CpuBackend
from .sparse.cpu_chunk_sizes import CpuPolicy
from .sparse.sparse_lines import CHUNKS, NO_DATA, Lines

__all__ = ["CHUNKS", "NO_DATA", "CpuBackend", "CpuPolicy", "Lines"]
