"""Availability of a GPU, and the reason and remedy if none is available."""

from __future__ import annotations

import os
from types import ModuleType

import numpy as np
from numba import config

__all__ = ["array_module", "available", "simulated", "why_not"]

REMEDY = "With an NVIDIA GPU: pip install 'steropes[gpu]'; without one: device='cpu'."


def simulated() -> bool:
    """Return whether Numba's CUDA simulator is on."""
    switch = os.environ.get("NUMBA_ENABLE_CUDASIM", "") not in ("", "0")
    return bool(vars(config).get("ENABLE_CUDASIM", switch))


def why_not() -> str:
    """Return the requirement of device="cuda" that is missing, with its remedy; empty if none."""
    if simulated():
        return ""
    try:
        import cupy
    except ImportError as error:
        return f"device='cuda' needs CuPy, which cannot be imported ({error}). {REMEDY}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # no driver, or one too old for CuPy's CUDA
        return f"device='cuda' needs a CUDA device, and CuPy finds none ({error}). {REMEDY}"
    if count == 0:
        return f"device='cuda' needs a CUDA device, and CuPy finds none. {REMEDY}"
    try:
        from numba import cuda

        usable = cuda.is_available()
    except ImportError:
        usable = False
    if not usable:
        return f"device='cuda' needs Numba's CUDA target, which finds no driver. {REMEDY}"
    return ""


def available() -> bool:
    """Return whether device="cuda" is available."""
    return not why_not()


def array_module() -> ModuleType:
    """Return CuPy, or NumPy for the simulator."""
    if simulated():
        return np
    import cupy

    return cupy
