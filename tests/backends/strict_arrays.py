"""A stand-in for CuPy: NumPy's arrays in a wrapper that refuses what CuPy refuses.

Arrays of the device are never converted to NumPy's except by ``get()``, never mix with NumPy's
arrays in arithmetic (as indices NumPy's are accepted, as CuPy accepts them), never enter a
function of NumPy, and the module has only functions that CuPy 14 has too. A ufunc's
methods (``reduceat``, ``accumulate``, …) are left out: CuPy has them for addition alone.
"""

from __future__ import annotations

import numpy as np

from steropes.backends.cuda import CudaBackend

__all__ = ["StrictArray", "StrictBackend", "xp"]

HAS = {
    "abs", "add", "all", "any", "arange", "argmax", "argmin", "argsort", "ascontiguousarray",
    "bincount", "broadcast_to", "ceil", "clip", "concatenate", "cos", "count_nonzero", "cumsum",
    "diag", "diff", "divide", "dot", "einsum", "empty", "empty_like", "equal", "exp", "expm1",
    "eye", "flatnonzero", "floor", "full", "full_like", "greater", "hstack", "isfinite", "isinf",
    "isnan", "isneginf", "isposinf", "less", "log", "log1p", "logaddexp", "matmul", "maximum",
    "mean", "minimum", "multiply", "negative", "nonzero", "ones", "ones_like", "outer", "power",
    "prod", "ptp", "reciprocal", "searchsorted", "sign", "sort", "sqrt", "square", "stack",
    "subtract", "sum", "take", "tanh", "tile", "tril", "triu", "unique", "vstack", "where", "zeros",
    "zeros_like",
}  # fmt: skip
CONSTANTS = {"pi", "inf", "nan", "float64", "int64"}


def bare(x, what="a function of the device"):
    """What an argument wraps; a NumPy array is an error."""
    if isinstance(x, StrictArray):
        return x._x
    if isinstance(x, list | tuple):
        return type(x)(bare(y, what) for y in x)
    if isinstance(x, np.ndarray):
        raise TypeError(f"a NumPy array of shape {x.shape} in {what}")
    return x


def index(key):
    """The same for an index, where integer and boolean NumPy arrays are accepted."""
    if isinstance(key, tuple):
        return tuple(index(k) for k in key)
    return key._x if isinstance(key, StrictArray) else key


def wrap(x):
    if isinstance(x, np.ndarray | np.generic):
        return StrictArray(np.asarray(x))
    return tuple(wrap(y) for y in x) if isinstance(x, tuple) else x


class StrictArray:
    """An array of the pretended device."""

    __array_ufunc__ = None  # NumPy's operators hand over to the reflected ones below

    def __init__(self, x):
        self._x = x

    def __array__(self, *_, **__):
        raise TypeError("implicit conversion of a device array to NumPy")

    def __array_function__(self, function, *_):
        raise TypeError(f"numpy.{function.__name__} on a device array")

    def get(self):
        return self._x.copy()

    def __getitem__(self, key):
        return wrap(self._x[index(key)])

    def __setitem__(self, key, value):
        self._x[index(key)] = bare(value, "an assignment to a device array")

    def __len__(self):
        return len(self._x)

    def __iter__(self):
        return (wrap(x) for x in self._x)

    def __repr__(self):
        return f"StrictArray({self._x!r})"

    def __float__(self):
        return float(self._x)

    def __int__(self):
        return int(self._x)

    def __index__(self):
        return int(self._x)

    def __bool__(self):
        return bool(self._x)

    shape = property(lambda self: self._x.shape)
    dtype = property(lambda self: self._x.dtype)
    size = property(lambda self: self._x.size)
    ndim = property(lambda self: self._x.ndim)
    T = property(lambda self: wrap(self._x.T))


def _operator(name):
    def method(self, *others):
        x = getattr(self._x, name)(*(bare(y, f"{name} with a device array") for y in others))
        if name.startswith("__i") and name not in ("__invert__",):
            self._x = x
            return self
        return wrap(x)

    return method


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or"):
    for _kind in ("", "r", "i"):
        setattr(StrictArray, f"__{_kind}{_name}__", _operator(f"__{_kind}{_name}__"))
for _name in ("neg", "abs", "invert", "lt", "le", "gt", "ge", "eq", "ne"):
    setattr(StrictArray, f"__{_name}__", _operator(f"__{_name}__"))
for _name in ("sum", "max", "min", "any", "all", "astype", "reshape", "copy", "ravel", "cumsum"):

    def _method(self, *args, _name=_name, **kwargs):
        kwargs = {k: bare(v) for k, v in kwargs.items()}
        return wrap(getattr(self._x, _name)(*bare(args), **kwargs))

    setattr(StrictArray, _name, _method)


class _Module:
    """The module of the pretended device."""

    @staticmethod
    def asarray(x, dtype=None):
        return StrictArray(np.array(x._x if isinstance(x, StrictArray) else x, dtype=dtype))

    def __getattr__(self, name):
        if name in CONSTANTS:
            return getattr(np, name)
        if name not in HAS:
            raise AttributeError(f"the device's array module is not known to have {name!r}")

        def function(*args, **kwargs):
            kwargs = {k: bare(v) for k, v in kwargs.items()}
            return wrap(getattr(np, name)(*bare(args), **kwargs))

        return function


xp = _Module()


class StrictBackend(CudaBackend):
    """The CUDA backend in the simulator, on the pretended device's arrays."""

    piece = 7  # so that small data have lines and segments of several pieces

    def __init__(self, n_jobs=None):
        super().__init__(n_jobs)
        self.xp = xp
        self._one = xp.ones(1)

    def to_host(self, x):
        return x.get() if isinstance(x, StrictArray) else x

    def _launch(self, kernel, work, *args):
        bare_args = [bare(x, "a kernel") for x in args]
        self.xp = np  # the kernels themselves are given NumPy's arrays, as the simulator wants
        try:
            super()._launch(kernel, work, *bare_args)
        finally:
            self.xp = xp
