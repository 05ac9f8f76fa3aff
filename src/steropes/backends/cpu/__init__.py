"""The CPU backend: Numba kernels over fixed chunks, run by the thread pool."""

from .cpu_backend import CpuBackend
from .sparse_lines import CHUNKS, NO_DATA, Lines
from .work_sizes import CpuPolicy

__all__ = ["CHUNKS", "NO_DATA", "CpuBackend", "CpuPolicy", "Lines"]
