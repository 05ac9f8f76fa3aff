"""Errors for folds that cannot be fitted, and warnings of fits that did not converge."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

import numpy as np

from ..convergence_warning import NotConvergedWarning
from ..errors import SeparationError, listed
from ..fit import Problem
from ..likelihoods.nuisance_likelihood import NuisanceLikelihood
from ..priors import INFINITE_PENALTY
from ..solve.separation.separating_direction import (
    separated_column_names,
    separating_direction_without_fit,
    unidentifiable_columns,
)
from ..solve.separation.separation_error import separation_error
from ..solve.separation.separation_with_nuisance import (
    refuse_separated,
    refuse_unidentifiable_columns,
)

__all__ = ["REMEDY", "ShortFits", "refuse_loose_folds"]

# A message lists at most this many fits.
MAX_LISTED_FITS = 8
REMEDY = "Use fewer folds, or other ones."


def refuse_loose_folds(
    problem: Problem, folds: int, train: Callable[[list[int]], np.ndarray]
) -> None:
    """Raise `SeparationError` if training rows do not determine a column without penalty.

    The fold's score would depend on where the diverging coefficients happen to stop. All rows are
    checked first, so that an error names a fold only if the others are not affected.

    Parameters
    ----------
    train : callable
        Takes numbers of folds and returns the row weights of their training rows, (n, b).
    """
    free = problem.unbounded(problem.prior)
    if isinstance(problem.likelihood, NuisanceLikelihood):
        _refuse_with_nuisance(problem, folds, train, free)
        return
    problem = problem.with_known_dispersion(np.zeros(problem.design.p))
    alone = len(free) == problem.n_free == 1 and problem.fold_label is not None
    if len(free) == 0 or (alone and problem.likelihood.quadratic):
        return
    if not alone:
        found = separating_direction_without_fit(problem, free)
        if found is not None:
            raise separation_error(problem, separated_column_names(problem, free, found))
    for k in range(folds):
        weights = train([k])[:, 0]
        if alone and problem.fold_label is not None:
            label = problem.fold_label[weights > 0]
            if len(label) and label.min() < label.max():
                continue  # The intercept alone is finite.
        part = replace(problem, weights=weights)
        loose = unidentifiable_columns(part, free)
        if len(loose):
            raise _undetermined(k, [problem.design.names[j] for j in loose])
        found = separating_direction_without_fit(part, free)
        if found is not None:
            error = separation_error(part, separated_column_names(part, free, found))
            where = f"In the training rows of fold {k}: {error} {REMEDY}"
            raise SeparationError(where, error.columns)


def _refuse_with_nuisance(
    problem: Problem, folds: int, train: Callable[[list[int]], np.ndarray], free: np.ndarray
) -> None:
    """Check models with nuisance parameters at fits of the unpenalised columns alone."""
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


def _undetermined(k: int, names: list[str]) -> SeparationError:
    """Return the error for columns that a fold's training rows do not determine."""
    return SeparationError(
        f"The training rows of fold {k} do not determine the coefficients of {listed(names)}, "
        "which have no prior: constant, zero or collinear there. "
        f"{REMEDY} Drop these columns or give them a prior.",
        names,
    )


class CertifiedFit(Protocol):
    """A fit with its certificate."""

    @property
    def optimality(self) -> float:
        """The largest violation of the optimality conditions."""


class ShortFits:
    """A record of the folds' fits that stopped before their tolerance."""

    def __init__(self) -> None:
        self._at: dict[float, tuple[float, list[int]]] = {}

    def note(
        self, variance: float, numbers: Iterable[int], fits: Iterable[CertifiedFit], tol: float
    ) -> None:
        """Record which fits of some folds have not reached a tolerance."""
        short = [k for k, fit in zip(numbers, fits, strict=True) if not fit.optimality <= tol]
        if short:
            self._at.setdefault(variance, (tol, []))[1].extend(short)

    def warn(self) -> None:
        """Warn of the recorded fits, if there are any."""
        if not self._at:
            return
        fits = [
            f"fold {', '.join(map(str, folds))} at variance {variance:.3g} (to {tol:g})"
            for variance, (tol, folds) in sorted(self._at.items())
        ]
        more = (
            f" and at {len(fits) - MAX_LISTED_FITS} more variances"
            if len(fits) > MAX_LISTED_FITS
            else ""
        )
        count = sum(len(folds) for _, folds in self._at.values())
        warnings.warn(
            f"{count} of the cross-validation's fits stopped before their tolerance: "
            f"{'; '.join(fits[:MAX_LISTED_FITS])}{more}. Their scores in the table are of "
            "coefficients that are not optimal.",
            NotConvergedWarning,
            stacklevel=3,
        )
