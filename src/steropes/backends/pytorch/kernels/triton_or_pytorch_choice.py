"""The choice between a Triton kernel and its twin in PyTorch, where Triton is not installed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["jit", "launch", "next_power_of_two", "tl", "use_triton"]


def _load() -> tuple[Any, Any]:
    """Import Triton and its language; (None, None) where it is not installed."""
    try:
        import triton
        import triton.language
    except ImportError:
        return None, None
    return triton, triton.language


_triton, tl = _load()

# Kernels are not specialised on these integer arguments. Triton would otherwise compile them anew
# for the value 1 and for multiples of 16.
SIZES = ("n", "k", "B", "W", "Y", "width", "chunks", "s0", "row0")


def jit(kernel: Callable) -> Any:
    """Compile a kernel at its first launch; without Triton, return the function unchanged."""
    if _triton is None:
        return kernel
    names = inspect.signature(kernel).parameters
    return _triton.jit(kernel, do_not_specialize=[name for name in SIZES if name in names])


def use_triton(x: torch.Tensor) -> bool:
    """Return whether kernels run on the device of a tensor."""
    return _triton is not None and x.is_cuda


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, **constants: Any) -> None:
    """Launch a kernel on a grid, unless the grid is empty.

    Multiplications and additions are fused on all versions of Triton, so that one compiled kernel
    always gives the same bits.
    """
    if all(grid):
        kernel[grid](*arguments, enable_fp_fusion=True, **constants)


def next_power_of_two(n: int) -> int:
    """Return the smallest power of two that is at least n, and at least one."""
    return 1 << max(0, n - 1).bit_length()
