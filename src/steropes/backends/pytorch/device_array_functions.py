"""The functions of NumPy that likelihoods and designs use, for arrays on a device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike

from .device_array import DeviceArray, tensor_of, torch_dtype
from .host_device_transfers import upload

__all__ = ["ArrayFunctions", "functions_of"]


def _elementwise(function: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Make a function of one array."""
    return staticmethod(lambda x: DeviceArray(function(tensor_of(x))))


class ArrayFunctions:
    """A backend's ``xp``: functions with NumPy's names and arguments.

    Parameters
    ----------
    device : torch.device
        The device of new arrays.
    """

    pi, inf, nan = math.pi, math.inf, math.nan
    float64, float32, int64 = np.float64, np.float32, np.int64
    ndarray = DeviceArray

    exp, expm1, log, log1p = map(_elementwise, (torch.exp, torch.expm1, torch.log, torch.log1p))
    sign, sqrt, abs = map(_elementwise, (torch.sign, torch.sqrt, torch.abs))
    isinf, isfinite, isnan, isneginf = map(
        _elementwise, (torch.isinf, torch.isfinite, torch.isnan, torch.isneginf)
    )
    diag = _elementwise(torch.diag)
    ascontiguousarray = _elementwise(lambda x: x.contiguous())

    def __init__(self, device: torch.device) -> None:
        self.device = device

    # -- new arrays ------------------------------------------------------------------------------

    def asarray(self, x: object, dtype: DTypeLike | None = None) -> DeviceArray:
        """Transfer an array to the device, or convert one that is there."""
        if isinstance(x, DeviceArray):
            return x if dtype is None or x.dtype == np.dtype(dtype) else x.astype(dtype)
        return DeviceArray(upload(np.asarray(x, dtype=dtype), self.device))

    def full(
        self, shape: int | tuple[int, ...], value: float, dtype: DTypeLike = np.float64
    ) -> DeviceArray:
        """Create an array of one value."""
        shape = (shape,) if isinstance(shape, int | np.integer) else shape
        return DeviceArray(torch.full(shape, value, dtype=torch_dtype(dtype), device=self.device))

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> DeviceArray:
        """Create an array of zeros."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> DeviceArray:
        """Create an array of ones."""
        return self.full(shape, 1, dtype)

    @staticmethod
    def zeros_like(x: DeviceArray) -> DeviceArray:
        """Create zeros of the same shape and type."""
        return DeviceArray(torch.zeros_like(x.tensor))

    def arange(self, *bounds: int) -> DeviceArray:
        """Create consecutive integers."""
        return DeviceArray(torch.arange(*bounds, device=self.device))

    # -- elementwise -----------------------------------------------------------------------------

    @staticmethod
    def where(condition: DeviceArray, x: Any, y: Any) -> DeviceArray:
        """Choose entries of x or y."""
        mask, x, y = condition.tensor, tensor_of(x), tensor_of(y)
        if not isinstance(x, torch.Tensor) and not isinstance(y, torch.Tensor):
            x = torch.full((), x, dtype=torch.float64, device=mask.device)
        if isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor) and x.dtype != y.dtype:
            common = torch.promote_types(x.dtype, y.dtype)
            x, y = x.to(common), y.to(common)
        return DeviceArray(torch.where(mask, x, y))

    @staticmethod
    def maximum(x: Any, y: Any) -> DeviceArray:
        """Return the larger entries."""
        x, y = tensor_of(x), tensor_of(y)
        if not isinstance(y, torch.Tensor):
            return DeviceArray(torch.clamp_min(x, y))
        if not isinstance(x, torch.Tensor):
            return DeviceArray(torch.clamp_min(y, x))
        return DeviceArray(torch.maximum(x, y))

    @staticmethod
    def minimum(x: Any, y: Any) -> DeviceArray:
        """Return the smaller entries."""
        x, y = tensor_of(x), tensor_of(y)
        if not isinstance(y, torch.Tensor):
            return DeviceArray(torch.clamp_max(x, y))
        if not isinstance(x, torch.Tensor):
            return DeviceArray(torch.clamp_max(y, x))
        return DeviceArray(torch.minimum(x, y))

    @staticmethod
    def clip(x: DeviceArray, low: float, high: float) -> DeviceArray:
        """Limit the entries to an interval."""
        return DeviceArray(torch.clamp(x.tensor, low, high))

    # -- shapes ----------------------------------------------------------------------------------

    @staticmethod
    def concatenate(arrays: Sequence[DeviceArray], axis: int = 0) -> DeviceArray:
        """Join arrays along an axis."""
        return DeviceArray(torch.cat([tensor_of(x) for x in arrays], axis))

    @staticmethod
    def stack(arrays: Sequence[DeviceArray], axis: int = 0) -> DeviceArray:
        """Join arrays along a new axis."""
        return DeviceArray(torch.stack([tensor_of(x) for x in arrays], axis))

    @staticmethod
    def broadcast_to(x: DeviceArray, shape: tuple[int, ...]) -> DeviceArray:
        """Repeat along axes of length one, without a copy."""
        return DeviceArray(torch.broadcast_to(x.tensor, shape))

    @staticmethod
    def tril(x: DeviceArray, k: int = 0) -> DeviceArray:
        """Copy the lower triangle."""
        return DeviceArray(torch.tril(x.tensor, k))

    @staticmethod
    def take(x: DeviceArray, at: object, axis: int = 0) -> DeviceArray:
        """Select entries along an axis by positions on the device, or constant ones of the host."""
        if not isinstance(at, DeviceArray):
            return x[(slice(None),) * axis + (at,)]
        return DeviceArray(torch.index_select(x.tensor, axis, tensor_of(at)))

    @staticmethod
    def ptp(x: DeviceArray) -> DeviceArray:
        """Return the difference of the largest and the smallest entry."""
        return DeviceArray(x.tensor.max() - x.tensor.min())

    # -- products --------------------------------------------------------------------------------

    @staticmethod
    def einsum(formula: str, *arrays: DeviceArray) -> DeviceArray:
        """Sum products of entries; see `numpy.einsum`."""
        return DeviceArray(torch.einsum(formula, *map(tensor_of, arrays)))

    @staticmethod
    def solve_triangular(L: DeviceArray, x: DeviceArray, transposed: bool = False) -> DeviceArray:
        """Solve L z = x, or L'z = x, for a lower triangle L (m, m) and x (m, B)."""
        triangle = L.tensor.T if transposed else L.tensor
        return DeviceArray(torch.linalg.solve_triangular(triangle, x.tensor, upper=transposed))


@cache
def functions_of(device: torch.device) -> ArrayFunctions:
    """Return the functions for the arrays of a device."""
    return ArrayFunctions(device)


DeviceArray.namespace_of = staticmethod(functions_of)  # It makes arrays of this class.
