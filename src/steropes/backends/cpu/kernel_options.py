"""How kernels are compiled."""

from __future__ import annotations

from typing import Any

from ..kernel_cache import CACHE

__all__ = ["OPTIONS", "ORDERED"]

OPTIONS: dict[str, Any] = {
    "nogil": True,
    "cache": CACHE,
    "error_model": "numpy",  # no branch for an exception at each division
    "fastmath": {"reassoc", "contract", "nsz"},
}
# For sums whose order is part of what they promise, and for loops that add and store: the compiler
# changes the order of their additions only where arrays are not next to each other, which for those
# of a small stratum depends on where the heap has room.
ORDERED: dict[str, Any] = {**OPTIONS, "fastmath": {"contract", "nsz"}}
