"""Numerical kernels behind one interface, without any statistics.

`get_backend(device, n_jobs)` returns a `Backend` (`steropes.backends.protocols`): ``cpu``, or
``cuda`` with the same operations on the GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import DataError

if TYPE_CHECKING:
    from .cpu import CpuBackend
    from .cuda.backend import CudaBackend
    from .protocols import Backend

    # The assignment lets a type checker verify that both satisfy the protocol.
    _backends: list[type[Backend]] = [CpuBackend, CudaBackend]

__all__ = ["get_backend"]


def get_backend(device: str = "cpu", n_jobs: int | None = None) -> Backend:
    """Return the backend for a device.

    Parameters
    ----------
    device : {"cpu", "cuda", "auto"}
        ``"auto"`` selects the GPU if CuPy finds one.
    n_jobs : int or None
        Number of threads of the CPU backend; None and -1 mean all cores. No result depends on it.
    """
    if device not in ("cpu", "cuda", "auto"):
        raise DataError(f"device must be 'cpu', 'cuda' or 'auto', not {device!r}.")
    if device != "cpu":
        from . import cuda

        if cuda.available():
            return cuda.CudaBackend(n_jobs)
        if device == "cuda":
            raise DataError(cuda.why_not())
    from .cpu import CpuBackend

    return CpuBackend(n_jobs)
