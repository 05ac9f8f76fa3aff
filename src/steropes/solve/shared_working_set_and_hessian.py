"""A working set and a Hessian that several batches of one model share."""

from __future__ import annotations

from dataclasses import dataclass

from .data_term import WorkingSet
from .quasi_newton.shared_hessian import SharedHessian

__all__ = ["Common"]


@dataclass
class Common:
    """A working set and its Hessian."""

    active: WorkingSet
    hessian: SharedHessian
