"""The state of one descent to a penalty."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .damping import Damping
from .rates import Rates

__all__ = ["EARLY_LOOKS", "DescentState"]

EARLY_LOOKS = (0.3, 0.01)  # KKT violations that will do for a look at which columns are missing
MANY = 1000  # columns from which on a replicate has no Hessian of its own before the shared one
RENEWALS = 2  # has been computed so often in vain, or a step brings next to nothing


@dataclass
class DescentState:
    """State of one descent to a penalty."""

    tol: float
    complete: bool  # whether the working set has been checked against all columns
    lanes: int
    level: int = 0  # of `EARLY_LOOKS`
    stuck: np.ndarray = field(init=False)  # replicates that no step helps
    steps: int = 0
    renewed: int = 0  # Hessians computed

    def __post_init__(self) -> None:
        self.stuck = np.zeros(self.lanes, bool)
        self.rates = Rates(self.lanes)
        self.damping = Damping(self.lanes)

    @property
    def near(self) -> bool:
        """Whether the aim is the last one, or the last one before the end."""
        return self.complete or self.level == len(EARLY_LOOKS) - 1

    @property
    def aim(self) -> float:
        """The violation to reach before the next look at all columns."""
        return self.tol if self.complete else max(self.tol, EARLY_LOOKS[self.level])

    def resume(self) -> None:
        """Go on where columns have joined: what was in vain may be worth a step now."""
        self.rates.reset()
        self.stuck[:] = False

    def failed(self, lanes: np.ndarray) -> None:
        """Take note of replicates whose step, of a Hessian of where they are, led nowhere lower."""
        self.stuck |= self.damping.hopeless(lanes)
        self.damping.failed(lanes)

    def may_differ(self, k: int, violation: np.ndarray, todo: np.ndarray) -> bool:
        """Whether replicates that lag may have Hessians of their own, of k columns.

        Ten of them, of thousands of columns, cost more than the steps that they save, unless
        another shared one does not help either.
        """
        return k <= MANY or self.renewed > RENEWALS or self.rates.stand(violation, todo)
