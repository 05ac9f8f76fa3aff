"""Arrays on a PyTorch device with NumPy's operators, methods and types.

Likelihoods and designs are written for NumPy's arrays. `DeviceArray` gives a tensor the same
behaviour, so that one code serves both. It never converts implicitly: an arithmetic operation with
a NumPy array and a NumPy function of a `DeviceArray` raise, because each would move data between
host and device. The test device ``torch-cpu`` raises the same errors.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from .host_device_transfers import TRANSFERS, download, upload

__all__ = ["DeviceArray", "in_double", "like", "numpy_dtype", "tensor_of", "torch_dtype"]

_DTYPES: dict[Any, torch.dtype] = {
    np.dtype(np.float64): torch.float64,
    np.dtype(np.float32): torch.float32,
    np.dtype(np.int64): torch.int64,
    np.dtype(np.int32): torch.int32,
    np.dtype(np.int16): torch.int16,
    np.dtype(np.uint16): torch.uint16,
    np.dtype(np.int8): torch.int8,
    np.dtype(np.uint8): torch.uint8,
    np.dtype(np.bool_): torch.bool,
}
_NUMPY: dict[torch.dtype, np.dtype] = {value: key for key, value in _DTYPES.items()}
# The least number of entries of an index array that is kept on the device for its next use.
KEPT_INDEX = 16


def torch_dtype(dtype: DTypeLike | torch.dtype) -> torch.dtype:
    """Return PyTorch's equivalent of a NumPy type."""
    return dtype if isinstance(dtype, torch.dtype) else _DTYPES[np.dtype(dtype)]


def numpy_dtype(dtype: torch.dtype) -> np.dtype:
    """Return NumPy's equivalent of a PyTorch type."""
    return _NUMPY[dtype]


def tensor_of(x: object) -> Any:
    """Return the tensor of a device array, or a number; raise for an array of the host."""
    if isinstance(x, DeviceArray):
        return x.tensor
    if isinstance(x, np.generic):
        return x.item()
    if isinstance(x, np.ndarray):
        raise TypeError(
            f"An array of the host, of shape {x.shape}, meets an array on the device; transfer it "
            "by the backend's asarray."
        )
    return x


def _promoted(a: object, b: object) -> tuple[Any, Any]:
    """Convert integers and booleans to double precision if the other operand is a float.

    PyTorch would convert them to single precision.
    """
    if isinstance(b, float) and isinstance(a, torch.Tensor) and not a.is_floating_point():
        return a.to(torch.float64), b
    if isinstance(a, float) and isinstance(b, torch.Tensor) and not b.is_floating_point():
        return a, b.to(torch.float64)
    return a, b


def _binary(function: Callable[[Any, Any], Any], reflected: bool = False) -> Any:
    """Make an operator's method."""

    def method(self: DeviceArray, other: object) -> DeviceArray:
        pair = (tensor_of(other), self.tensor) if reflected else (self.tensor, tensor_of(other))
        return DeviceArray(function(*_promoted(*pair)))

    return method


def _in_place(function: Callable[[Any, Any], Any]) -> Any:
    """Make the method of an assignment such as +=, which changes the tensor itself."""

    def method(self: DeviceArray, other: object) -> DeviceArray:
        self.tensor = function(self.tensor, tensor_of(other))
        return self

    return method


def _divide(a: Any, b: Any) -> Any:
    """Divide in double precision unless an operand is in single precision."""
    if not any(isinstance(x, torch.Tensor) and x.is_floating_point() for x in (a, b)):
        a = a.to(torch.float64) if isinstance(a, torch.Tensor) else float(a)
        b = b.to(torch.float64) if isinstance(b, torch.Tensor) else float(b)
    return a / b


def _power(a: Any, b: Any) -> Any:
    """Raise to a power; squares are products."""
    return a * a if isinstance(b, int) and b == 2 else a**b


class DeviceArray:
    """A tensor with NumPy's behaviour."""

    __array_ufunc__ = None  # NumPy's operators defer to the reflected ones below.
    namespace_of: ClassVar[Callable[[torch.device], Any]]  # set by `device_array_functions`

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    # -- protection against implicit transfers -------------------------------------------------

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("An array on the device is read by the backend's to_host only.")

    def __array_function__(self, function: Any, *_: Any) -> NoReturn:
        raise TypeError(f"numpy.{function.__name__} does not accept an array on the device.")

    def __reduce__(self) -> NoReturn:
        raise TypeError("An array on the device cannot be pickled.")

    def to_host(self) -> NDArray:
        """Transfer the entries to the host."""
        return download(self.tensor)

    def __array_namespace__(self) -> Any:
        """Return the functions of NumPy for arrays of this device."""
        return type(self).namespace_of(self.tensor.device)

    # -- attributes ------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.tensor.ndim

    @property
    def size(self) -> int:
        """Number of entries."""
        return self.tensor.numel()

    @property
    def dtype(self) -> np.dtype:
        """NumPy's type of the entries."""
        return numpy_dtype(self.tensor.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of the entries."""
        return self.tensor.numel() * self.tensor.element_size()

    @property
    def T(self) -> DeviceArray:
        """The transpose, a view."""
        return DeviceArray(self.tensor.T if self.tensor.ndim == 2 else self.tensor)

    def __len__(self) -> int:
        return len(self.tensor)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, {self.tensor.device})"

    # -- single numbers, read by the host --------------------------------------------------------

    def _item(self) -> Any:
        """Read the only entry."""
        TRANSFERS.downloads += 1
        TRANSFERS.bytes_down += self.tensor.element_size()
        return self.tensor.item()

    def __float__(self) -> float:
        return float(self._item())

    def __int__(self) -> int:
        return int(self._item())

    def __index__(self) -> int:
        return int(self._item())

    def __bool__(self) -> bool:
        return bool(self._item())

    # -- indexing --------------------------------------------------------------------------------

    def __getitem__(self, key: object) -> DeviceArray:
        if isinstance(key, slice) and key.step is not None and key.step < 0:
            if key.start is not None or key.stop is not None or key.step != -1:
                raise IndexError("Of negative steps, arrays on the device have only [::-1].")
            return DeviceArray(torch.flip(self.tensor, (0,)))
        converted, copied = _converted(key, self.tensor.device)
        out = self.tensor[converted]
        return DeviceArray(out.clone() if copied else out)

    def __setitem__(self, key: Any, value: Any) -> None:
        value = tensor_of(value)
        if isinstance(value, torch.Tensor) and value.dtype != self.tensor.dtype:
            value = value.to(self.tensor.dtype)
        self.tensor[_converted(key, self.tensor.device)[0]] = value

    # -- operators -------------------------------------------------------------------------------

    __add__, __radd__ = _binary(operator.add), _binary(operator.add, True)
    __sub__, __rsub__ = _binary(operator.sub), _binary(operator.sub, True)
    __mul__, __rmul__ = _binary(operator.mul), _binary(operator.mul, True)
    __truediv__, __rtruediv__ = _binary(_divide), _binary(_divide, True)
    __floordiv__, __mod__ = _binary(operator.floordiv), _binary(operator.mod)
    __matmul__, __pow__ = _binary(operator.matmul), _binary(_power)
    __and__, __rand__ = _binary(operator.and_), _binary(operator.and_, True)
    __or__, __ror__ = _binary(operator.or_), _binary(operator.or_, True)
    __lt__, __le__ = _binary(operator.lt), _binary(operator.le)
    __gt__, __ge__ = _binary(operator.gt), _binary(operator.ge)
    __eq__, __ne__ = _binary(operator.eq), _binary(operator.ne)
    __iadd__, __isub__ = _in_place(operator.iadd), _in_place(operator.isub)
    __imul__, __itruediv__ = _in_place(operator.imul), _in_place(operator.itruediv)
    __ior__, __iand__ = _in_place(operator.ior), _in_place(operator.iand)

    def __neg__(self) -> DeviceArray:
        return DeviceArray(-self.tensor)

    def __abs__(self) -> DeviceArray:
        return DeviceArray(self.tensor.abs())

    def __invert__(self) -> DeviceArray:
        return DeviceArray(~self.tensor)

    # -- methods ---------------------------------------------------------------------------------

    def sum(
        self, axis: int | None = None, dtype: DTypeLike | None = None, keepdims: bool = False
    ) -> DeviceArray:
        """Sum over an axis, or over all entries."""
        x = self.tensor if dtype is None else self.tensor.to(torch_dtype(dtype))
        return DeviceArray(x.sum() if axis is None else x.sum(axis, keepdim=keepdims))

    def max(self, axis: int | None = None, initial: float | None = None) -> DeviceArray:
        """Find the maxima along an axis, or the largest entry."""
        return self._extreme(torch.amax, torch.maximum, axis, initial)

    def min(self, axis: int | None = None, initial: float | None = None) -> DeviceArray:
        """Find the minima along an axis, or the smallest entry."""
        return self._extreme(torch.amin, torch.minimum, axis, initial)

    def _extreme(
        self, reduce: Callable, pair: Callable, axis: int | None, initial: float | None
    ) -> DeviceArray:
        """Reduce by amax or amin, at least or at most ``initial``."""
        x = self.tensor.reshape(-1) if axis is None else self.tensor
        axis = 0 if axis is None else axis
        if initial is None:
            return DeviceArray(reduce(x, axis))
        first = x.new_full((), initial)
        if x.shape[axis] == 0:
            return DeviceArray(first.expand(reduce(x.new_zeros(1, *x.shape[1:]), 0).shape).clone())
        return DeviceArray(pair(reduce(x, axis), first))

    def any(self, axis: int | None = None) -> DeviceArray:
        """Return whether any entry is nonzero."""
        return DeviceArray(self.tensor.any() if axis is None else self.tensor.any(axis))

    def all(self, axis: int | None = None) -> DeviceArray:
        """Return whether all entries are nonzero."""
        return DeviceArray(self.tensor.all() if axis is None else self.tensor.all(axis))

    def cumsum(self, axis: int = 0) -> DeviceArray:
        """Compute running sums."""
        return DeviceArray(self.tensor.cumsum(axis))

    def astype(self, dtype: DTypeLike, copy: bool = True) -> DeviceArray:
        """Convert to another type."""
        return DeviceArray(self.tensor.to(torch_dtype(dtype), copy=copy))

    def copy(self) -> DeviceArray:
        """Copy the entries."""
        return DeviceArray(self.tensor.clone())

    def reshape(self, *shape: Any) -> DeviceArray:
        """Return the entries in another shape."""
        return DeviceArray(self.tensor.reshape(*shape))

    def ravel(self) -> DeviceArray:
        """Return the entries in one axis."""
        return DeviceArray(self.tensor.reshape(-1))


def in_double(x: DeviceArray | NDArray, device: torch.device) -> torch.Tensor:
    """Return the tensor of an array in double precision, which is transferred from the host."""
    if isinstance(x, DeviceArray):
        return x.tensor.to(torch.float64)
    return upload(np.asarray(x, np.float64), device)


def like(x: DeviceArray | NDArray, result: torch.Tensor) -> DeviceArray | NDArray:
    """Return a result on the host if an array x is there."""
    return DeviceArray(result) if isinstance(x, DeviceArray) else download(result)


# -- keys ------------------------------------------------------------------------------------------

# Index arrays of the host that are in use, with their copies on devices.
_KEPT: dict[tuple[int, str], tuple[Any, Any]] = {}


def _converted(key: object, device: torch.device) -> tuple[Any, bool]:
    """Convert a key to PyTorch's, and return whether a copy is needed as in NumPy.

    A run of consecutive positions becomes a slice, which needs no transfer; NumPy would copy.
    """
    if not isinstance(key, tuple):
        return _one(key, device, True)
    arrays = sum(isinstance(k, np.ndarray | DeviceArray) for k in key)
    parts = [_one(k, device, arrays == 1) for k in key]
    return tuple(part for part, _ in parts), any(copied for _, copied in parts)


def _one(key: object, device: torch.device, alone: bool) -> tuple[Any, bool]:
    """Convert one key; ``alone`` allows a slice in place of positions."""
    if isinstance(key, DeviceArray):
        index = key.tensor
        narrow = index.dtype not in (torch.int64, torch.bool)
        return index.long() if narrow else index, False
    if isinstance(key, np.generic):
        return key.item(), False
    if not isinstance(key, np.ndarray):
        return key, False
    if key.dtype == bool:
        if key.ndim != 1:
            raise IndexError("A mask of the host must have one axis.")
        key = np.flatnonzero(key)
        found = _uploaded(key, device, alone)
    elif key.size < KEPT_INDEX:
        found = _uploaded(key, device, alone)
    else:
        name = (id(key), str(device) + ("s" if alone else ""))
        if name not in _KEPT:
            reference = weakref.ref(key, lambda _: _KEPT.pop(name, None))
            _KEPT[name] = reference, _uploaded(key, device, alone)
            key.flags.writeable = False  # A change would not reach the copy.
        found = _KEPT[name][1]
    return found, isinstance(found, slice)


def _uploaded(key: NDArray, device: torch.device, alone: bool) -> torch.Tensor | slice:
    """Upload positions, or return the slice of a run."""
    if alone and key.ndim == 1 and len(key):
        first, last = int(key[0]), int(key[-1])
        if first >= 0 and last - first == len(key) - 1 and (np.diff(key) == 1).all():
            return slice(first, last + 1)
    return upload(key.astype(np.int64, copy=False), device)
