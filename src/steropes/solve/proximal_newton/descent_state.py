"""The state of one descent to a penalty."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ..quasi_newton.convergence_rate import Rates
from ..solver_constants import DEFAULT, SolverPolicy
from .damping import Damping

__all__ = ["DescentState"]


@dataclass
class DescentState:
    """State of one descent to a penalty."""

    tol: float
    complete: bool  # whether the working set has been checked against all columns
    lanes: int
    policy: SolverPolicy = DEFAULT
    level: int = 0  # Index into `WorkingSetPolicy.early_checks`.
    stuck: np.ndarray = field(init=False)  # Replicates for which no step lowers the objective.
    steps: int = 0

    def __post_init__(self) -> None:
        """Create the state of each replicate."""
        self.stuck = np.zeros(self.lanes, bool)
        self.rates = Rates(self.lanes, self.policy)
        self.damping = Damping(self.lanes, self.policy.step)

    @property
    def near(self) -> bool:
        """Whether the aim is the final tolerance or the one before it."""
        return self.complete or self.level == len(self.policy.working_set.early_checks) - 1

    @property
    def aim(self) -> float:
        """The violation to reach before the next check of all columns."""
        checks = self.policy.working_set.early_checks
        return self.tol if self.complete else max(self.tol, checks[self.level])

    def next_check(self) -> None:
        """Make the aim finer for the next check of all columns."""
        self.level = min(self.level + 1, len(self.policy.working_set.early_checks) - 1)

    def resume(self) -> None:
        """Continue after columns have joined, when failed replicates may make progress again."""
        self.rates.reset()
        self.stuck[:] = False

    def failed(self, lanes: np.ndarray) -> None:
        """Record replicates for which a step with the Hessian of their point failed."""
        self.stuck |= self.damping.hopeless(lanes)
        self.damping.failed(lanes)
