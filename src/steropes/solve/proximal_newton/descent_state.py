"""The state of the solver while it descends to the optimum at one strength of the penalty.

`Batch.solve` makes one descent, or several to ever weaker penalties. Each begins with a new
`DescentState`, passes `Violations` from the working set's check to the step and a `ColumnCheck`
from the check of all columns to the choice of the next aim, and leaves a `DescentEnd`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...backends.backend_interface import Array
from ..elastic_net_penalty import ElasticNetPenalty
from ..quasi_newton.convergence_rate import Rates
from ..solver_constants import DEFAULT, SolverPolicy
from .hessian_damping import Damping

__all__ = ["ColumnCheck", "DescentEnd", "DescentState", "Violations"]


@dataclass(frozen=True)
class Violations:
    """Violations of the optimality conditions within the working set, until points or W change.

    Attributes
    ----------
    largest : (lanes,) array
        Of each replicate, including its nuisance parameters.
    unit : (k, lanes) array
        Size of one unit of violation of each column of the working set.
    """

    largest: np.ndarray
    unit: Array


@dataclass(frozen=True)
class ColumnCheck:
    """The result of a check of all columns.

    Attributes
    ----------
    certificate : (lanes,) array
        The largest violation of each replicate over all columns and nuisance parameters; infinite
        where a nuisance parameter was released and must move first.
    joined : bool
        Whether violating columns joined the working set.
    left_out : bool
        Whether other violating columns had to wait for a later check.
    released : bool
        Whether nuisance parameters may leave their bounds again.
    """

    certificate: np.ndarray
    joined: bool
    left_out: bool
    released: bool

    @property
    def added(self) -> bool:
        """Whether there is more to minimise over than before the check."""
        return self.joined or self.released


@dataclass(frozen=True)
class DescentEnd:
    """The state after a descent: the penalty of its points, and how far they are from an optimum.

    Attributes
    ----------
    penalty : ElasticNetPenalty
        That to which the points belong.
    certificate : (lanes,) array
        `ColumnCheck.certificate` of the last check.
    local_variances : (k, lanes) array or None
        `DescentState.local_variances`.
    joined : bool
        Whether columns joined the working set.
    """

    penalty: ElasticNetPenalty
    certificate: np.ndarray
    local_variances: Array | None
    joined: bool


@dataclass
class DescentState:
    """State of one descent to a penalty while it runs.

    Attributes
    ----------
    penalty : ElasticNetPenalty
        The penalty to which it descends.
    tol : float
        Largest violation at its end.
    complete : bool
        Whether the working set has been checked against all columns.
    level : int
        Index into `WorkingSetPolicy.early_checks`, for the aim while it is not complete.
    steps : int
        Number of steps.
    stuck : (lanes,) bool array
        Replicates for which no step lowers the objective.
    local_variances : (k, lanes) array or None
        Variances of the scores at the points where the replicates first reached the aim, in whose
        units they are then measured; None before and wherever the shared Hessian's units suffice.
        They are out of date once columns have joined.
    joined : bool
        Whether columns have joined the working set in a check of all columns.
    """

    penalty: ElasticNetPenalty
    tol: float
    complete: bool
    lanes: int
    policy: SolverPolicy = DEFAULT
    level: int = 0
    steps: int = 0
    stuck: np.ndarray = field(init=False)
    local_variances: Array | None = field(default=None, init=False)
    joined: bool = field(default=False, init=False)

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

    def end(self, check: ColumnCheck) -> DescentEnd:
        """Return the state of the descent after its last check."""
        return DescentEnd(self.penalty, check.certificate, self.local_variances, self.joined)
