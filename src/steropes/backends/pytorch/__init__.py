"""The PyTorch backend: a GPU through CUDA or ROCm, or PyTorch's CPU device for tests.

The same lines run on all of them. Nothing here is imported, and PyTorch neither, before a device
other than ``cpu`` is requested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .gpu_availability import available, why_not

if TYPE_CHECKING:
    from .torch_backend import TorchBackend

__all__ = ["TorchBackend", "available", "why_not"]


def __getattr__(name: str) -> Any:
    if name == "TorchBackend":  # imports PyTorch, which asking `why_not` need not
        from .torch_backend import TorchBackend

        return TorchBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
