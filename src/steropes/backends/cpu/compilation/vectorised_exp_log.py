"""Exponentials and logarithms that the compiler can vectorise.

Calls of the mathematical library in a kernel process one number at a time, and NumPy's vectorised
functions read and write an array for each operation of a formula. These functions are polynomials
without branches or calls, accurate to three units in the last place. They are for compiled code
only and written as LLVM instructions, which Numba compiles much faster than statements.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, factorial, log1p
from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.core.base import BaseContext
from numba.core.typing import Context
from numba.core.typing.templates import Signature
from numba.extending import intrinsic, is_jitted

from steropes.backends.cpu.compilation.numba_intrinsic_types import Intrinsic

__all__ = ["exp_negative", "log1p_unit"]

# The smallest x for which e^x is a normal number.
LEAST = -708.0
LOG2_E = 1.4426950408889634
LN2 = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # in two parts, their sum
ROUNDS = 6755399441055744.0  # 1.5 · 2⁵²: added to a number, the sum's last bits are its integer
BIAS, SHIFT = 1023, 52  # of a double's exponent
EXPONENTIAL = [1.0 / factorial(k) for k in range(13, 1, -1)]
ARTANH = [1.0 / k for k in range(35, 1, -2)]
# A product and a sum may be fused into one instruction.
FLAGS = ("contract",)
DOUBLE, BITS = ir.DoubleType(), ir.IntType(64)


def _polynomial(builder: ir.IRBuilder, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
    """Evaluate a polynomial by Horner's scheme, with the highest power first."""
    q = DOUBLE(coefficients[0])
    for c in coefficients[1:]:
        q = builder.fadd(builder.fmul(q, x, FLAGS), DOUBLE(c), FLAGS)
    return q


def _exp_negative(typing: Context, x: types.Type) -> Intrinsic:
    """Compute e^x for x ≤ 0, or zero if it is not a normal number.

    x = m ln 2 + r with |r| ≤ ½ ln 2, and e^r is its Taylor polynomial of degree 13, whose
    remainder is below 5·10⁻¹⁸.
    """

    def made(
        context: BaseContext, b: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        normal = b.fcmp_ordered(">", args[0], DOUBLE(LEAST))
        x = b.select(normal, args[0], DOUBLE(LEAST))
        shifted = b.fadd(b.fmul(x, DOUBLE(LOG2_E)), DOUBLE(ROUNDS))
        m = b.fsub(shifted, DOUBLE(ROUNDS))
        r = x
        for part in LN2:
            r = b.fsub(r, b.fmul(m, DOUBLE(part), FLAGS), FLAGS)
        rest = b.fmul(b.fmul(r, r, FLAGS), _polynomial(b, r, EXPONENTIAL), FLAGS)
        value = b.fadd(DOUBLE(1.0), b.fadd(r, rest, FLAGS), FLAGS)
        power = b.shl(b.add(b.bitcast(shifted, BITS), BITS(BIAS)), BITS(SHIFT))
        return b.select(normal, b.fmul(value, b.bitcast(power, DOUBLE), FLAGS), DOUBLE(0.0))

    return types.float64(types.float64), made


def _log1p_unit(typing: Context, t: types.Type) -> Intrinsic:
    """Compute log(1 + t) for 0 ≤ t ≤ 1.

    It is 2 artanh s with s = t / (2 + t) ≤ ⅓, of which eighteen terms leave less than 2·10⁻¹⁸.
    """

    def made(
        context: BaseContext, b: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        s = b.fdiv(args[0], b.fadd(DOUBLE(2.0), args[0]))
        z = b.fmul(s, s)
        twice = b.fmul(DOUBLE(2.0), s)
        rest = b.fmul(z, _polynomial(b, z, ARTANH), FLAGS)
        return b.fadd(twice, b.fmul(twice, rest, FLAGS), FLAGS)

    return types.float64(types.float64), made


def _exp(x: float) -> float:
    """Compute e^x as `exp_negative` does, for when the compiler is off."""
    return exp(x) if x > LEAST else 0.0


exp_negative: Any = intrinsic(_exp_negative)
log1p_unit: Any = intrinsic(_log1p_unit)

if not is_jitted(njit(_exp)):  # the compiler is off (``NUMBA_DISABLE_JIT``): the same as Python
    exp_negative, log1p_unit = _exp, log1p
