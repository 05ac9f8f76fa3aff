"""The error for a likelihood without a finite maximum."""

from __future__ import annotations

import numpy as np

from ...errors import SeparationError, listed
from ..checked_problem_interface import SolverProblem
from .separation_constants import SEPARATION

__all__ = ["separation_error"]


def separation_error(problem: SolverProblem, names: list[str]) -> SeparationError:
    """Return the error for columns along which the likelihood never stops rising."""
    for name in names:
        row = _row_of_far_value(problem, name)
        if row is not None:
            return SeparationError(
                "It cannot be determined whether the likelihood has a finite maximum: the value of "
                f"{name!r} in row {row} is over a million times as large as others. "
                "Check this value, or transform the column, such as by its logarithm.",
                [name],
            )
    return SeparationError(
        "The likelihood has no finite maximum: it keeps rising as the coefficients of "
        f"{listed(names)} go to infinity (the outcome is separated by them). Drop or merge these "
        "columns, or give them a prior.",
        names,
    )


def _row_of_far_value(problem: SolverProblem, name: str) -> int | None:
    """Return the row of the largest value of a column if it is far larger than typical values."""
    design, backend = problem.design, problem.likelihood.backend
    j = design.names.index(name)
    unit = np.zeros((design.p, 1))
    unit[j] = design.scale[j]
    x = np.asarray(backend.to_host(design.matmul(unit, backend)))[:, 0] + design.center[j]
    if len(x) != len(problem.weights):  # Rows of η that are not those of X.
        return None
    size = np.where(problem.weights > 0, np.abs(x), 0.0)
    others = size[size > 4.0 * np.finfo(float).eps * size.max()]  # Smaller ones may be rounding.
    if not len(others) or size.max() < SEPARATION.far_value * np.median(others):
        return None
    return int(size.argmax())
