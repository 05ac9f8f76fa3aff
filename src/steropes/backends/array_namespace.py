"""NumPy's or PyTorch's functions, by where an array is: on the host or on a device.

Arrays of coefficients and replicates, (k, B), are NumPy's on the CPU. With many replicates they
are on the device of the data. Formulas that serve both take their functions from here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .backend_interface import Array

__all__ = ["array_namespace", "to_host"]


def array_namespace(x: Array) -> Any:
    """Return NumPy, or the object with its functions for the device of an array."""
    return np if isinstance(x, np.ndarray | np.generic) else x.__array_namespace__()


def to_host(x: Array) -> np.ndarray:
    """Return an array of the host, or transfer one of a device."""
    if isinstance(x, np.ndarray):
        return x
    out: np.ndarray = x.to_host()
    return out
