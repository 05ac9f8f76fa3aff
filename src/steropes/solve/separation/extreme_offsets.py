"""Errors for columns that are not identifiable because of extreme offsets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from ...errors import SeparationError, listed
from ..checked_problem_interface import SolverProblem
from ..proximal_newton.newton_batch import Batch
from .refittable_problems import RefittableProblem

__all__ = ["EXTREME_DIFFERENCE", "extreme_offsets", "refuse_for_offsets"]

# At this difference of offsets one row has 10²⁶ times the weight of another.
EXTREME_DIFFERENCE = 60.0
Answer = TypeVar("Answer")
ProblemT = TypeVar("ProblemT", bound=RefittableProblem)


def extreme_offsets(problem: SolverProblem) -> str | None:
    """Describe the smallest and the largest offset of rows that count, if these are far apart.

    Multinomial models have an offset of each class, relative to the first.
    """
    if problem.offset is None:
        return None
    n = len(problem.weights)
    # Offsets over rows of η that are not those of X for each class begin with those of X.
    several = len(problem.offset) % n == 0
    by_class = problem.offset.reshape(-1, n) if several else problem.offset[None, :n]
    rows = np.flatnonzero(problem.weights > 0)
    if not len(rows):
        return None
    widest = int(np.ptp(by_class[:, rows], axis=1).argmax())
    offset = by_class[widest]
    if np.ptp(offset[rows]) < EXTREME_DIFFERENCE:
        return None
    low, high = (int(rows[f(offset[rows])]) for f in (np.argmin, np.argmax))
    of = f", in column {widest} less column 0" if len(by_class) > 1 else ""
    return f"{offset[low]:g} in row {low}, {offset[high]:g} in row {high}{of}"


def refuse_for_offsets(
    refuse: Callable[[ProblemT, Batch, np.ndarray], Answer], problem: ProblemT, batch: Batch,
    free: np.ndarray,
) -> Answer:  # fmt: skip
    """Refuse unidentifiable columns, stating whether extreme offsets are the reason.

    Where offsets are far apart, a Hessian reflects few rows, among which columns may be constant or
    collinear although they are not so in X.

    Parameters
    ----------
    refuse : function
        Raises `SeparationError` according to the Hessian where a batch starts.
    free : (k,) int array
        Columns without penalty.
    """
    try:
        return refuse(problem, batch, free)
    except SeparationError as error:
        extremes, bad = extreme_offsets(problem), error.columns
        if extremes is None:
            raise
    alone = problem.without_offset()
    refuse(alone, alone.batch(), free)  # Raises an error of its own if X is the reason.
    raise SeparationError(
        f"The offsets are so far apart ({extremes}) that most rows have no influence next to the "
        f"others, and these do not determine the coefficients of {listed(bad)}. Check the unit: an "
        "offset is on the scale of the linear predictor, such as the log of a time at risk.",
        bad,
    )
