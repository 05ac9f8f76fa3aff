"""The CUDA backend: CuPy arrays and Numba kernels behind the face of the CPU's.

With ``NUMBA_ENABLE_CUDASIM=1`` in the environment the kernels run in Numba's simulator and NumPy
takes CuPy's place, so the whole path can be tried, slowly, on a machine without a GPU.
"""

from __future__ import annotations

from .device import available, why_not

__all__ = ["CudaBackend", "available", "why_not"]


def __getattr__(name: str) -> type:
    if name == "CudaBackend":  # needs Numba's CUDA target, which asking `available` must not
        from .backend import CudaBackend

        return CudaBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
