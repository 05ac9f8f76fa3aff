"""Types in the signatures of functions that generate LLVM code for Numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir
from numba.core.typing.templates import Signature

__all__ = ["Intrinsic"]

# The signature that Numba infers and the function that generates the code; None refuses the types.
Intrinsic: TypeAlias = tuple[Signature, Callable[..., ir.Value]] | None
