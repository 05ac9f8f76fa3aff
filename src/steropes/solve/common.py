"""What batches of one model share: the working set's rows, and a Hessian over it."""

from __future__ import annotations

from dataclasses import dataclass

from .data_term import ActiveColumns
from .shared_hessian import SharedHessian

__all__ = ["Common"]


@dataclass
class Common:
    """A working set and its Hessian.

    Attributes
    ----------
    active : ActiveColumns
    hessian : SharedHessian
    """

    active: ActiveColumns
    hessian: SharedHessian
