"""Compiler options of the kernels."""

from __future__ import annotations

from typing import Any

from ...kernel_cache import CACHE

__all__ = ["OPTIONS", "ORDERED"]

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "cache": CACHE,
    "error_model": "numpy",  # no branch for an exception at each division
    "fastmath": {"reassoc", "contract", "nsz"},
}
# For sums with a guaranteed order, and for loops that add and store. With reassociation, the order
# of additions would depend on whether arrays are adjacent in memory, and thus on the heap.
ORDERED: dict[str, Any] = {**OPTIONS, "fastmath": {"contract", "nsz"}}
