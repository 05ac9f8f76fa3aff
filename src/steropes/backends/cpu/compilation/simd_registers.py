"""SIMD registers for blocks of replicates that one instruction processes.

Numba turns a loop over the eight replicates of a block into eight scalar instructions (its SLP
vectoriser is off, and the loop vectoriser does not see a loop of constant length), which makes
products with a sparse matrix two to four times slower than memory and cache allow. Here a block is
a value of LLVM's vector type, which each machine maps to the widest registers that it has.

For compiled code only: ``zero(Q)``; ``load(D, i, b, Q)`` is D[i, b, :] of a C-contiguous (·, ·, Q)
array of doubles or of single precision, Q a constant, in doubles; ``store(D, i, b, r)`` writes it,
to doubles; ``add(r, s)``; ``add_scaled(r, x, s)`` is r + x s. ``zero_single`` and ``load_single``
are registers of single precision, which `add_scaled` and `store` (to the same) take as well, and
``widen`` makes doubles of. They are globals and not made for each Q, because Numba's cache on disk
takes a function that encloses another object for a new one in each process.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
from llvmlite import ir
from numba import njit
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.datamodel import DataModelManager
from numba.core.typing import Context
from numba.core.typing.templates import Signature
from numba.extending import intrinsic, is_jitted, models, register_model

from steropes.backends.cpu.compilation.numba_intrinsic_types import Intrinsic

__all__ = [
    "add", "add_scaled", "load", "load_single", "store", "widen", "zero", "zero_single",
]  # fmt: skip

# A product and a sum may be fused into one instruction.
FLAGS = ("contract",)


class RegisterType(types.Type):
    """The type of a register with Q values in double or single precision."""

    def __init__(self, Q: int, of: types.Float = types.float64) -> None:
        self.Q, self.of = Q, of
        super().__init__(name=f"register({Q}, {of})")

    @property
    def element(self) -> ir.Type:
        """LLVM type of an element."""
        return ir.DoubleType() if self.of == types.float64 else ir.FloatType()

    @property
    def align(self) -> int:
        """Size of an element in bytes."""
        return self.of.bitwidth // 8


@register_model(RegisterType)
class _RegisterModel(models.PrimitiveModel):
    def __init__(self, manager: DataModelManager, kind: RegisterType) -> None:
        super().__init__(manager, kind, ir.VectorType(kind.element, kind.Q))


def _pointer(
    context: BaseContext,
    builder: ir.IRBuilder,
    signature: Signature,
    args: Sequence[ir.Value],
    Q: int,
) -> ir.Value:
    """Compute the address of D[i, b, 0] as a pointer to a register."""
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


def _is_block(D: types.Type, *dtypes: types.Type) -> TypeGuard[types.Array]:
    """Return whether D is a contiguous three-dimensional array of one of the types."""
    return isinstance(D, types.Array) and D.ndim == 3 and D.layout == "C" and D.dtype in dtypes


def _zero_of(Q: types.Type, of: types.Float) -> Intrinsic:
    """Type and compile a register of Q zeros; None unless Q is a literal."""
    if not isinstance(Q, types.IntegerLiteral):
        return None
    kind = RegisterType(Q.literal_value, of)

    def make(context, builder, signature, args):
        return cgutils.get_null_value(context.get_value_type(kind))

    return kind(Q), make


def _zero(typing: Context, Q: types.Type) -> Intrinsic:
    """Type and compile `zero`."""
    return _zero_of(Q, types.float64)


def _zero_single(typing: Context, Q: types.Type) -> Intrinsic:
    """Type and compile `zero_single`."""
    return _zero_of(Q, types.float32)


def _load(typing: Context, D: types.Type, i: types.Type, b: types.Type, Q: types.Type) -> Intrinsic:
    """Type and compile `load`, which converts single precision to double."""
    if not (_is_block(D, types.float64, types.float32) and isinstance(Q, types.IntegerLiteral)):
        return None
    kind, single = RegisterType(Q.literal_value), D.dtype == types.float32

    def make(context, builder, signature, args):
        pointer = _pointer(context, builder, signature, args, kind.Q)
        if not single:
            return builder.load(pointer, align=8)
        return builder.fpext(builder.load(pointer, align=4), context.get_value_type(kind))

    return kind(D, i, b, Q), make


def _load_single(
    typing: Context, D: types.Type, i: types.Type, b: types.Type, Q: types.Type
) -> Intrinsic:
    """Type and compile `load_single`; None for anything but single-precision blocks."""
    if not (_is_block(D, types.float32) and isinstance(Q, types.IntegerLiteral)):
        return None
    kind = RegisterType(Q.literal_value, types.float32)

    def make(context, builder, signature, args):
        return builder.load(_pointer(context, builder, signature, args, kind.Q), align=4)

    return kind(D, i, b, Q), make


def _store(
    typing: Context, D: types.Type, i: types.Type, b: types.Type, r: types.Type
) -> Intrinsic:
    """Type and compile `store`; None unless register and block have one precision."""
    if not (isinstance(r, RegisterType) and _is_block(D, r.of)):
        return None

    def make(context, builder, signature, args):
        builder.store(args[3], _pointer(context, builder, signature, args, r.Q), align=r.align)
        return context.get_dummy_value()

    return types.void(D, i, b, r), make


def _add(typing: Context, r: types.Type, s: types.Type) -> Intrinsic:
    """Type and compile `add` of two registers of one type."""
    if not isinstance(r, RegisterType) or r != s:
        return None

    def make(context, builder, signature, args):
        return builder.fadd(*args, flags=FLAGS)

    return r(r, s), make


def _add_scaled(typing: Context, r: types.Type, x: types.Type, s: types.Type) -> Intrinsic:
    """Type and compile `add_scaled`, r + x s with a scalar x."""
    if not isinstance(r, RegisterType) or r != s:
        return None

    def make(context, builder, signature, args):
        none = ir.Constant(ir.VectorType(r.element, r.Q), ir.Undefined)
        first = builder.insert_element(none, args[1], ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), r.Q), [0] * r.Q)
        scaled = builder.fmul(builder.shuffle_vector(first, none, zeros), args[2], flags=FLAGS)
        return builder.fadd(args[0], scaled, flags=FLAGS)

    return r(r, r.of, s), make


def _widen(typing: Context, r: types.Type) -> Intrinsic:
    """Type and compile `widen`, from single to double precision."""
    if not (isinstance(r, RegisterType) and r.of == types.float32):
        return None
    kind = RegisterType(r.Q)

    def make(context, builder, signature, args):
        return builder.fpext(args[0], context.get_value_type(kind))

    return kind(r), make


def _read(D: np.ndarray, i: int, b: int, Q: int) -> np.ndarray:
    """Read a row as `load` does, for when the compiler is off."""
    return D[i, b].astype(np.float64)


def _write(D: np.ndarray, i: int, b: int, r: np.ndarray) -> None:
    """Write a row as `store` does, for when the compiler is off."""
    D[i, b] = r


def _read_single(D: np.ndarray, i: int, b: int, Q: int) -> np.ndarray:
    """Read a row as `load_single` does, for when the compiler is off."""
    return D[i, b].copy()


def _no_singles(Q: int) -> np.ndarray:
    """Create zeros as `zero_single` does, for when the compiler is off."""
    return np.zeros(Q, np.float32)


def _doubles(r: np.ndarray) -> np.ndarray:
    """Convert values as `widen` does, for when the compiler is off."""
    return r.astype(np.float64)


def _sum_scaled(r: np.ndarray, x: float, s: np.ndarray) -> np.ndarray:
    """Compute r + x s as `add_scaled` does, for when the compiler is off."""
    return r + x * s


zero: Any = intrinsic(prefer_literal=True)(_zero)
load: Any = intrinsic(prefer_literal=True)(_load)
store: Any = intrinsic(_store)
add: Any = intrinsic(_add)
zero_single: Any = intrinsic(prefer_literal=True)(_zero_single)
load_single: Any = intrinsic(prefer_literal=True)(_load_single)
widen: Any = intrinsic(_widen)
add_scaled: Any = intrinsic(_add_scaled)

if not is_jitted(njit(_write)):  # the compiler is off (``NUMBA_DISABLE_JIT``): the same as Python
    zero, load, store, add, add_scaled = np.zeros, _read, _write, np.add, _sum_scaled
    zero_single, load_single, widen = _no_singles, _read_single, _doubles
