"""Exact sums of real numbers modulo 2¹⁹², the arithmetic of secure aggregation.

A number is rounded to a multiple of 2⁻⁹⁶ and stored in two's complement as three 64-bit limbs,
the least significant first. Addition is exact, so that a total depends neither on the order of the
sites nor on the masks that cancel in it. The resolution, 1.3·10⁻²⁹, is far below the rounding
error of the sums themselves, because columns are scaled to a spread near one before they are sent.
"""

from __future__ import annotations

import numpy as np

__all__ = ["BYTES", "LARGEST", "add", "decode", "encode", "from_bytes", "negate", "to_bytes"]

# The number of 64-bit limbs of a number, and its size in bytes.
LIMBS = 3
BYTES = 8 * LIMBS
# The value of one unit of each limb.
HIGH, MIDDLE, LOW = 2.0**32, 2.0**-32, 2.0**-96
# The largest number of one site; a total over up to 2¹⁵ sites does not overflow.
LARGEST = 2.0**80


def encode(x: np.ndarray) -> np.ndarray:
    """Encode finite numbers of at most `LARGEST` in size as limbs.

    Parameters
    ----------
    x : (n,) array

    Returns
    -------
    (n, 3) uint64 array

    Raises
    ------
    OverflowError
        A number is not finite or too large.
    """
    x = np.asarray(x, np.float64)
    if not (np.abs(x) <= LARGEST).all():
        raise OverflowError("a sum is not finite, or too large for fixed-point arithmetic")
    rest = np.abs(x)
    limbs = np.empty((len(x), LIMBS), np.uint64)
    for k, unit in ((2, HIGH), (1, MIDDLE)):
        whole = np.floor(rest / unit)
        limbs[:, k] = whole.astype(np.uint64)
        rest = rest - whole * unit  # exact: both are multiples of the last bit of x
    limbs[:, 0] = np.rint(rest / LOW).astype(np.uint64)
    return np.where((x < 0)[:, None], negate(limbs), limbs)


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Add limbs (n, 3) modulo 2¹⁹²."""
    out = np.empty_like(a)
    carry = np.zeros(len(a), np.uint64)
    for k in range(LIMBS):
        total = a[:, k] + b[:, k]
        over = total < a[:, k]
        out[:, k] = total + carry
        carry = (over | (out[:, k] < total)).astype(np.uint64)
    return out


def negate(a: np.ndarray) -> np.ndarray:
    """Negate limbs (n, 3) modulo 2¹⁹²."""
    one = np.zeros_like(a)
    one[:, 0] = 1
    return add(~a, one)


def decode(limbs: np.ndarray) -> np.ndarray:
    """Convert limbs (n, 3) to doubles, (n,)."""
    negative = limbs[:, 2] >= np.uint64(1 << 63)
    size = np.where(negative[:, None], negate(limbs), limbs).astype(np.float64)
    out = size[:, 2] * HIGH + (size[:, 1] * MIDDLE + size[:, 0] * LOW)
    return np.where(negative, -out, out)


def to_bytes(limbs: np.ndarray) -> bytes:
    """Convert limbs to bytes, `BYTES` per number, the least significant first."""
    return limbs.astype("<u8").tobytes()


def from_bytes(content: bytes) -> np.ndarray:
    """Convert bytes to limbs (n, 3)."""
    return np.frombuffer(content, "<u8").astype(np.uint64).reshape(-1, LIMBS)
