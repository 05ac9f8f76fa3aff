"""Interface of problems that the checks of separation can fit again."""

from __future__ import annotations

from typing import Protocol, Self

from ..checked_problem_interface import SolverProblem
from ..proximal_newton.newton_batch import Batch

__all__ = ["RefittableProblem"]


class RefittableProblem(SolverProblem, Protocol):
    """A `SolverProblem` from which batches can be made, with and without its offset."""

    def batch(self) -> Batch:
        """Start a batch of one replicate."""

    def without_offset(self) -> Self:
        """Return the same problem with an offset of zero."""
