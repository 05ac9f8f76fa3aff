"""What batches of one model share: the working set, and a Hessian over it."""

from __future__ import annotations

from dataclasses import dataclass

from .data_term import WorkingSet
from .quasi_newton.shared_hessian import SharedHessian

__all__ = ["Common"]


@dataclass
class Common:
    """A working set and its Hessian.

    Attributes
    ----------
    active : WorkingSet
    hessian : SharedHessian
    """

    active: WorkingSet
    hessian: SharedHessian
