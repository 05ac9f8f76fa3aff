"""Registers: blocks of replicates that one instruction takes at once.

Numba turns a loop over the eight replicates of a block into eight scalar instructions (its SLP
vectoriser is off, and the loop vectoriser does not see a loop of constant length), which makes
products with a sparse matrix two to four times slower than memory and cache allow. Here a block is
a value of LLVM's vector type, which each machine maps to the widest registers that it has.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.extending import intrinsic, is_jitted, models, register_model

__all__ = ["Register", "register"]

FLAGS = ("contract",)  # a product and a sum may be one instruction


class RegisterType(types.Type):
    """Q doubles."""

    def __init__(self, Q: int) -> None:
        self.Q = Q
        super().__init__(name=f"register({Q})")


@register_model(RegisterType)
class _RegisterModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: RegisterType) -> None:
        super().__init__(manager, kind, ir.VectorType(ir.DoubleType(), kind.Q))


class Register(NamedTuple):
    """What kernels do with a block; all are called from compiled code only.

    ``zero()``; ``load(D, i, b)`` is D[i, b, :] of a C-contiguous (·, ·, Q) array of doubles or of
    single precision, and ``store(D, i, b, r)`` writes it, to doubles; ``add(r, s)``;
    ``add_scaled(r, x, s)`` is r + x s.
    """

    zero: Any
    load: Any
    store: Any
    add: Any
    add_scaled: Any


def _pointer(context: Any, builder: Any, signature: Any, args: Any, Q: int) -> Any:
    """Where D[i, b, 0] lies, as a pointer to a register."""
    kind = signature.args[0]
    array = context.make_array(kind)(context, builder, args[0])
    at = [
        context.cast(builder, x, t, types.intp)
        for x, t in zip(args[1:3], signature.args[1:3], strict=True)
    ]
    at.append(context.get_constant(types.intp, 0))
    pointer = cgutils.get_item_pointer(context, builder, kind, array, at)
    element = ir.DoubleType() if kind.dtype == types.float64 else ir.FloatType()
    return builder.bitcast(pointer, ir.VectorType(element, Q).as_pointer())


def _is_block(D: Any, *dtypes: Any) -> bool:
    return isinstance(D, types.Array) and D.ndim == 3 and D.layout == "C" and D.dtype in dtypes


def _interpreted(Q: int) -> Register:
    """The operations as Python, where the compiler is off (``NUMBA_DISABLE_JIT``)."""

    def store(D: np.ndarray, i: int, b: int, r: np.ndarray) -> None:
        D[i, b] = r

    return Register(
        zero=lambda: np.zeros(Q),
        load=lambda D, i, b: D[i, b].astype(np.float64),
        store=store,
        add=lambda r, s: r + s,
        add_scaled=lambda r, x, s: r + x * s,
    )


def register(Q: int) -> Register:
    """Make the operations for blocks of Q doubles."""
    if not is_jitted(njit(_interpreted)):
        return _interpreted(Q)
    kind = RegisterType(Q)

    @intrinsic
    def zero(typing):
        def make(context, builder, signature, args):
            return cgutils.get_null_value(context.get_value_type(kind))

        return kind(), make

    @intrinsic
    def load(typing, D, i, b):
        if not _is_block(D, types.float64, types.float32):
            return None
        single = D.dtype == types.float32

        def make(context, builder, signature, args):
            pointer = _pointer(context, builder, signature, args, Q)
            if not single:
                return builder.load(pointer, align=8)
            return builder.fpext(builder.load(pointer, align=4), context.get_value_type(kind))

        return kind(D, i, b), make

    @intrinsic
    def store(typing, D, i, b, r):
        if not _is_block(D, types.float64) or r != kind:
            return None

        def make(context, builder, signature, args):
            builder.store(args[3], _pointer(context, builder, signature, args, Q), align=8)
            return context.get_dummy_value()

        return types.void(D, i, b, r), make

    @intrinsic
    def add(typing, r, s):
        def make(context, builder, signature, args):
            return builder.fadd(*args, flags=FLAGS)

        return kind(kind, kind), make

    @intrinsic
    def add_scaled(typing, r, x, s):
        def make(context, builder, signature, args):
            vector = ir.VectorType(ir.DoubleType(), Q)
            lane = ir.Constant(ir.IntType(32), 0)
            first = builder.insert_element(ir.Constant(vector, ir.Undefined), args[1], lane)
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), Q), [0] * Q)
            x = builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), zeros)
            return builder.fadd(args[0], builder.fmul(x, args[2], flags=FLAGS), flags=FLAGS)

        return kind(kind, types.float64, kind), make

    return Register(zero, load, store, add, add_scaled)
