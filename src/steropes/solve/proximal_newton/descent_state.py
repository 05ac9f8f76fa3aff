"""The state of one descent to a penalty."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..quasi_newton.convergence_rate import Rates
from .damping import Damping

__all__ = ["EARLY_LOOKS", "DescentState"]

# KKT violations at which all columns are checked before the working set is final.
EARLY_LOOKS = (0.3, 0.01)
MANY = 1000  # Up to this many columns, a slow replicate may have its own Hessian at once.
# With more columns, it may after the shared Hessian has been computed more often than this.
RENEWALS = 2


@dataclass
class DescentState:
    """State of one descent to a penalty."""

    tol: float
    complete: bool  # whether the working set has been checked against all columns
    lanes: int
    level: int = 0  # Index into `EARLY_LOOKS`.
    stuck: np.ndarray = field(init=False)  # Replicates for which no step lowers the objective.
    steps: int = 0
    renewed: int = 0  # Number of Hessians computed.

    def __post_init__(self) -> None:
        self.stuck = np.zeros(self.lanes, bool)
        self.rates = Rates(self.lanes)
        self.damping = Damping(self.lanes)

    @property
    def near(self) -> bool:
        """Whether the aim is the final tolerance or the one before it."""
        return self.complete or self.level == len(EARLY_LOOKS) - 1

    @property
    def aim(self) -> float:
        """The violation to reach before the next check of all columns."""
        return self.tol if self.complete else max(self.tol, EARLY_LOOKS[self.level])

    def resume(self) -> None:
        """Continue after columns have joined, when failed replicates may make progress again."""
        self.rates.reset()
        self.stuck[:] = False

    def failed(self, lanes: np.ndarray) -> None:
        """Record replicates whose step failed although the Hessian was that of their point."""
        self.stuck |= self.damping.hopeless(lanes)
        self.damping.failed(lanes)

    def may_differ(self, k: int, violation: np.ndarray, todo: np.ndarray) -> bool:
        """Whether slow replicates may have Hessians of their own, of k columns.

        Ten of these, of thousands of columns, cost more than the steps that they save, unless
        another shared Hessian does not help either.
        """
        return k <= MANY or self.renewed > RENEWALS or self.rates.stand(violation, todo)
