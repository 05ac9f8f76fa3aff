"""Numerical kernels behind one interface, without any statistics.

`get_backend(device, n_jobs)` returns a `Backend` (`steropes.backends.backend_interface`): ``cpu``
computes with Numba, the others with the same operations on a PyTorch device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import DataError

if TYPE_CHECKING:
    from .backend_interface import Backend
    from .cpu import CpuBackend
    from .pytorch import TorchBackend

    # The assignment lets a type checker verify that both satisfy the protocol.
    _backends: list[type[Backend]] = [CpuBackend, TorchBackend]

__all__ = ["DEVICES", "MIN_GPU_WORK", "get_backend", "host_backend", "unknown_device"]

# The devices that a user can choose. ``torch-cpu`` runs the code of the GPU on the CPU, for tests.
DEVICES = ("cpu", "cuda", "auto", "torch-cpu")


# The least number of stored entries of X times replicates for which "auto" takes a GPU. At about
# 1.5 ns for an entry and two products a step, thirty steps take one CPU core 5 s; the start of CUDA
# and the transfer of X take a few. This is arithmetic, not a measurement.
MIN_GPU_WORK = 5e7


def get_backend(device: str = "cpu", n_jobs: int | None = None, work: float = 0.0) -> Backend:
    """Return the backend for a device.

    Parameters
    ----------
    device : {"cpu", "cuda", "auto", "torch-cpu"}
        ``"auto"`` selects the GPU if PyTorch finds one and the work is at least `MIN_GPU_WORK`.
        ``"torch-cpu"`` runs the code of the GPU on PyTorch's CPU device, which is slow and meant
        for tests.
    n_jobs : int or None
        Number of threads of the host; None and -1 mean all cores. No result depends on it.
    work : float
        Stored entries of X times replicates that are fitted together.
    """
    if device not in DEVICES:
        raise DataError(unknown_device(device))
    if device != "cpu" and not (device == "auto" and work < MIN_GPU_WORK):
        from . import pytorch

        chosen = "cuda" if device == "auto" else device
        reason = pytorch.why_not(chosen)
        if not reason:
            return pytorch.TorchBackend(chosen, n_jobs)
        if device != "auto":
            raise DataError(reason)
    from .cpu import CpuBackend

    return CpuBackend(n_jobs)


def host_backend(n_jobs: int | None = None) -> Backend:
    """Return the CPU backend, for computations that no device serves.

    Predictions use it, because a fitted model may be moved to a machine without the device.
    """
    return get_backend("cpu", n_jobs)


def unknown_device(device: object) -> str:
    """Return the message about a device that does not exist."""
    if device == "mps":
        return (
            "device='mps' is not supported, because Apple's GPUs have no numbers of 64 bits; use "
            "device='cpu'."
        )
    return f"device must be 'cpu', 'cuda' or 'auto', not {device!r}."
