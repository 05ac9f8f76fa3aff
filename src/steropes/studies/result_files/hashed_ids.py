"""Identifiers that R's packages compute from the ids of cohorts, so that archives can be joined."""

from __future__ import annotations

__all__ = ["hashed_id"]

_WORD = 0xFFFFFFFF  # The largest number of 32 bits.


def hashed_id(*ids: int | None) -> int:
    """Return the identifier of a combination of cohorts, as CohortMethod and SCCS compute it.

    The ids are joined by spaces, with "NA" for a missing one, and hashed by MurmurHash3 with 32
    bits. R subtracts 2³¹, so that the number fits into its signed integers.

    Parameters
    ----------
    *ids : int or None
        For CohortMethod target, comparator and nesting cohort; for SelfControlledCaseSeries
        outcome, nesting cohort and exposures.

    Returns
    -------
    int
        From −2³¹ to 2³¹ − 1.

    Examples
    --------
    >>> from steropes.studies.result_files.hashed_ids import hashed_id
    >>> hashed_id(1, 2, None)
    894409308
    """
    text = " ".join("NA" if i is None else str(i) for i in ids)
    return _murmur32(text.encode()) - 2**31


def _murmur32(data: bytes) -> int:
    """Hash bytes by MurmurHash3 (x86, 32 bits, seed 0; Appleby 2011)."""
    h = 0
    whole = len(data) // 4 * 4
    for i in range(0, whole, 4):
        h ^= _mixed(int.from_bytes(data[i : i + 4], "little"))
        h = (_rotated(h, 13) * 5 + 0xE6546B64) & _WORD
    if whole < len(data):
        h ^= _mixed(int.from_bytes(data[whole:], "little"))
    h ^= len(data)
    for factor, shift in ((0x85EBCA6B, 16), (0xC2B2AE35, 13)):
        h = (h ^ h >> shift) * factor & _WORD
    return h ^ h >> 16


def _mixed(k: int) -> int:
    """Mix the bits of a block of four bytes."""
    return _rotated(k * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD


def _rotated(x: int, bits: int) -> int:
    """Rotate a number of 32 bits to the left."""
    return (x << bits | x >> (32 - bits)) & _WORD
