"""Numba intrinsics that index arrays without the test for negative indices.

Compiled code tests whether an index is negative, which in Python counts from the end, unless the
compiler can exclude it, which is impossible for row numbers read from memory. The test doubles the
time of a product with an indicator matrix. The functions here omit it.

For compiled code only: ``entry(x, i)`` is x[i] of an array of one dimension, i at least zero, and
``put(x, i, value)`` writes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.typing import Context
from numba.core.typing.templates import Signature
from numba.extending import intrinsic, is_jitted

from steropes.backends.cpu.compilation.numba_intrinsic_types import Intrinsic

__all__ = ["entry", "put"]


def _pointer(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
) -> ir.Value:
    """Compute the address of x[i], without a test of i."""
    kind = signature.args[0]
    array = context.make_array(kind)(context, builder, args[0])
    i = context.cast(builder, args[1], signature.args[1], types.intp)
    return cgutils.get_item_pointer(context, builder, kind, array, [i])


def _is_row(x: types.Type, i: types.Type) -> TypeGuard[types.Array]:
    """Return whether the types are those of a one-dimensional array and an integer."""
    return isinstance(x, types.Array) and x.ndim == 1 and isinstance(i, types.Integer)


def _entry(typing: Context, x: types.Type, i: types.Type) -> Intrinsic:
    """Type and compile `entry`."""
    if not _is_row(x, i):
        return None

    def make(context, builder, signature, args):
        return context.unpack_value(builder, x.dtype, _pointer(context, builder, signature, args))

    return x.dtype(x, i), make


def _put(typing: Context, x: types.Type, i: types.Type, value: types.Type) -> Intrinsic:
    """Type and compile `put`."""
    if not _is_row(x, i) or not isinstance(value, types.Number | types.Boolean):
        return None

    def make(context, builder, signature, args):
        pointer = _pointer(context, builder, signature, args)
        cast = context.cast(builder, args[2], value, x.dtype)
        context.pack_value(builder, x.dtype, cast, pointer)
        return context.get_dummy_value()

    return types.void(x, i, value), make


def _read(x: np.ndarray, i: int) -> np.generic:
    """Read x[i] as `entry` does, for when the compiler is off; refuse negative i."""
    if i < 0:  # compiled code would read memory before the array
        raise IndexError(f"entry {i}")
    return x[i]


def _write(x: np.ndarray, i: int, value: complex) -> None:
    """Write x[i] as `put` does, for when the compiler is off; refuse negative i."""
    if i < 0:
        raise IndexError(f"entry {i}")
    x[i] = value


entry: Any = intrinsic(_entry)
put: Any = intrinsic(_put)

if not is_jitted(njit(_write)):  # the compiler is off (``NUMBA_DISABLE_JIT``): the same as Python
    entry, put = _read, _write
