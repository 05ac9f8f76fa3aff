"""Priors that differ in more than the variance of the path: each has its own, on the same folds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ..errors import DataError
from .folds import random_generator
from .search import Selection, best_of

__all__ = ["choose_among"]


def choose_among(cv: Any, problem: Any, choose: Callable[[Any, Any], Selection]) -> Selection:
    """Choose the prior of a problem, and its variance.

    Parameters
    ----------
    cv : CrossValidation
    problem : steropes.fit.Problem
    choose : callable
        Takes a cross-validation and a problem and finds the best variance of its prior.
    """
    prior = problem.prior
    if prior is not None and prior.adaptive and isinstance(cv.search, str):
        raise DataError(
            f"A {type(prior).__name__} prior has no path of variances to walk: list those to try "
            "in CrossValidation(search=[…])."
        )
    priors = [prior] if prior is None else prior.candidates()
    if len(priors) == 1:
        return choose(cv, replace(problem, prior=priors[0]))
    # One seed for all: a generator would cut other folds each time.
    seed = int(random_generator(cv.random_state).integers(2**63))
    fixed = replace(cv, random_state=seed)
    found = [choose(fixed, replace(problem, prior=one)) for one in priors]
    tables = []
    for one, selection in zip(priors, found, strict=True):
        table = selection.results.copy()
        table.insert(0, prior.several, getattr(one, prior.several))
        tables.append(table)
    best = best_of(np.array([selection.results["mean"].max() for selection in found]))
    return replace(found[best], results=pd.concat(tables, ignore_index=True))
