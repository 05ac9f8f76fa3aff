"""Folds that cannot be fitted: refused by name before the path, or told of after it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import NotConvergedWarning, SeparationError, listed
from ..likelihoods.nuisance_likelihood import NuisanceLikelihood
from ..priors import INFINITE_PENALTY
from ..solve.separation.identifiability import refuse_separated, refuse_unidentifiable_columns
from ..solve.separation.separating_direction import (
    separated_column_names,
    separating_direction_without_fit,
    unidentifiable_columns,
)

__all__ = ["REMEDY", "ShortFits", "refuse_loose_folds"]

NAMED = 8  # columns, or fits, listed in a message
REMEDY = "Use fewer folds, or other ones."


def refuse_loose_folds(problem: Any, folds: int, train: Callable[[list[int]], np.ndarray]) -> None:
    """Raise `SeparationError` where training rows do not determine a column without penalty.

    A fold's score would be that of coefficients on their way to infinity: where they happen to
    stop. All rows are looked at first, for what is wrong with them is no fold's fault.

    Parameters
    ----------
    problem : steropes.fit.Problem
    folds : int
        How many there are.
    train : callable
        Takes numbers of folds and returns the row weights of their training rows, (n, b).
    """
    free = problem.unbounded(problem.prior)
    if isinstance(problem.likelihood, NuisanceLikelihood):
        _refuse_with_nuisance(problem, folds, train, free)
        return
    alone = len(free) == problem.n_free == 1 and problem.fold_label is not None
    if len(free) == 0 or (alone and problem.likelihood.quadratic):
        return
    if not alone:
        found = separating_direction_without_fit(problem, free)
        if found is not None:
            raise _separated("The likelihood", separated_column_names(problem, free, found), "")
    for k in range(folds):
        weights = train([k])[:, 0]
        if alone:
            label = problem.fold_label[weights > 0]
            if len(label) and label.min() < label.max():
                continue  # an intercept by itself is finite
        part = replace(problem, weights=weights)
        loose = unidentifiable_columns(part, free)
        if len(loose):
            raise _undetermined(k, [problem.design.names[j] for j in loose])
        found = separating_direction_without_fit(part, free)
        if found is not None:
            where = f"In the training rows of fold {k} the likelihood"
            raise _separated(where, separated_column_names(part, free, found), f" {REMEDY}")


def _refuse_with_nuisance(
    problem: Any, folds: int, train: Callable[[list[int]], np.ndarray], free: np.ndarray
) -> None:
    """The same where α goes along: the free columns alone are fitted, and looked at there."""
    if len(free) == 0:
        return
    l1 = np.full(problem.design.p, INFINITE_PENALTY)
    l1[free] = 0.0
    for k in range(-1, folds):
        part = problem if k < 0 else replace(problem, weights=train([k])[:, 0])
        try:
            batch = part.batch()
            h0 = refuse_unidentifiable_columns(part, batch, free)
            fit = batch.solve(l1, np.zeros(len(l1)), tol=1e-4, look="after")[0]
            refuse_separated(part, fit, free, h0)
        except SeparationError as error:
            if k < 0:
                raise
            where = f"In the training rows of fold {k}: {error} {REMEDY}"
            raise SeparationError(where, error.columns) from None


def _separated(where: str, names: list[str], remedy: str) -> SeparationError:
    return SeparationError(
        f"{where} has no finite maximum: it keeps rising as the coefficients of "
        f"{listed(names)} go to infinity (the outcome is separated by them).{remedy} "
        "Drop or merge these columns, or give them a prior.",
        names,
    )


def _undetermined(k: int, names: list[str]) -> SeparationError:
    return SeparationError(
        f"The training rows of fold {k} do not determine the coefficients of {listed(names)}, "
        "which have no prior: constant, zero or collinear there. "
        f"{REMEDY} Drop these columns or give them a prior.",
        names,
    )


class ShortFits:
    """Folds' fits that stopped before their tolerance."""

    def __init__(self) -> None:
        self._at: dict[float, tuple[float, list[int]]] = {}

    def note(
        self, variance: float, numbers: Iterable[int], fits: Iterable[Any], tol: float
    ) -> None:
        """Remember which of the fits of some folds are short of a tolerance."""
        short = [k for k, fit in zip(numbers, fits, strict=True) if not fit.optimality <= tol]
        if short:
            self._at.setdefault(variance, (tol, []))[1].extend(short)

    def warn(self) -> None:
        """Tell which they are, if there are any."""
        if not self._at:
            return
        said = [
            f"fold {', '.join(map(str, folds))} at variance {variance:.3g} (to {tol:g})"
            for variance, (tol, folds) in sorted(self._at.items())
        ]
        more = f" and at {len(said) - NAMED} more variances" if len(said) > NAMED else ""
        count = sum(len(folds) for _, folds in self._at.values())
        warnings.warn(
            f"{count} of the cross-validation's fits stopped before their tolerance: "
            f"{'; '.join(said[:NAMED])}{more}. Their scores in the table are of coefficients "
            "that are not optimal.",
            NotConvergedWarning,
            stacklevel=3,
        )
