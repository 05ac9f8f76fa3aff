"""Advice on separated data for priors with a smooth term."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ...errors import SeparationError
from ...fit import Problem
from ...priors import Prior

__all__ = ["advice_on_smooth_terms"]


@contextmanager
def advice_on_smooth_terms(problem: Problem) -> Iterator[None]:
    """Mention `Prior.bounds_all` in a `SeparationError` for columns that have a smooth term only.

    Without this sentence, the error asks the user for a prior that the model already has.
    """
    try:
        yield
    except SeparationError as error:
        if not _have_smooth_term(problem, error.columns):
            raise
        name = type(problem.prior).__name__
        raise SeparationError(
            f"{error} (The smooth term of {name} does not count as such a prior. If it keeps the "
            f"coefficients of all columns finite, declare bounds_all = True in the class {name}.)",
            error.columns,
        ) from None


def _have_smooth_term(problem: Problem, columns: list[str]) -> bool:
    """Return whether the prior's smooth term bends in one of the columns at zero."""
    prior = problem.prior
    if prior is None or prior.bounds_all or type(prior).smooth is Prior.smooth:
        return False
    smooth = problem.smooth_term()
    at = np.array([j for j, name in enumerate(problem.design.names) if name in columns], np.int64)
    if smooth is None or not len(at):
        return False
    return bool((np.diag(smooth.hessian(np.zeros(problem.design.p), at)) > 0).any())
