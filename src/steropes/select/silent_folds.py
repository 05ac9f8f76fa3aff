"""Folds that say nothing of coefficients: their scores are the same whatever the variance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import DataError
from ..likelihoods import Likelihood
from ..likelihoods.nuisance_likelihood import NuisanceLikelihood
from .fold_refusals import REMEDY

__all__ = ["nothing_held_out", "nothing_to_train", "refuse_silent_folds", "says_nothing"]

ROUNDING = 1e-9  # of a row's weight: a slope in its own predictor that is none
SEED = 20  # of linear predictors at which the slopes are looked at
WHAT = "no event that could have been that of another row at risk, or of the same stratum"


def refuse_silent_folds(
    problem: Any, folds: int, train: Callable[[list[int]], np.ndarray], alone: bool
) -> None:
    """Raise `DataError` where training rows, or all held-out ones, say nothing of coefficients.

    A likelihood that compares rows with one another needs an event that could have been another
    row's. Without one in the training rows every variance has coefficients of zero; where no fold
    holds one out every score is zero. Either way the variance would be chosen by nothing.

    Parameters
    ----------
    problem : steropes.fit.Problem
    folds : int
        How many there are.
    train : callable
        Takes numbers of folds and returns the row weights of their training rows, (n, b).
    alone : bool
        Whether held-out rows are scored by themselves.
    """
    likelihood = problem.likelihood
    if isinstance(likelihood, NuisanceLikelihood):
        for k in range(folds):
            _begin(likelihood, train([k])[:, 0], k)
        return
    if not likelihood.shift_invariant:
        return  # each row says something by itself
    if says_nothing(likelihood, problem.weights):
        raise nothing_to_train(-1)
    heard = not alone
    for k in range(folds):
        weights = train([k])[:, 0]
        if says_nothing(likelihood, weights):
            raise nothing_to_train(
                k, " With stratify=True (the default) events are spread evenly over them."
            )
        heard = heard or not says_nothing(likelihood, problem.weights - weights)
    if not heard:
        raise nothing_held_out(", or scoring='difference'")


def nothing_to_train(k: int, more: str = "") -> DataError:
    """What is raised where a fold's training rows, or with k = −1 all rows, say nothing."""
    if k < 0:
        return DataError(f"No variance can be chosen: there is {WHAT}.")
    return DataError(
        f"The training rows of fold {k} say nothing of the coefficients: there is {WHAT}. "
        f"{REMEDY}{more}"
    )


def nothing_held_out(more: str = "") -> DataError:
    """What is raised where no fold's held-out rows say anything."""
    return DataError(
        "No variance can be chosen: the rows that a fold holds out say nothing by themselves, in "
        f"any fold: there is {WHAT}. Use fewer folds{more}."
    )


def _begin(likelihood: NuisanceLikelihood, weights: np.ndarray, k: int) -> None:
    """Refuse training rows that have no thresholds, by the number of their fold."""
    own = weights if likelihood.order is None else weights[likelihood.order]
    try:
        likelihood.begin(np.zeros(likelihood.n_eta), np.ascontiguousarray(own))
    except DataError as error:
        raise DataError(f"In the training rows of fold {k}: {error} {REMEDY}") from None


def says_nothing(likelihood: Likelihood, weights: np.ndarray) -> bool:
    """Whether a shift-invariant log-likelihood is the same at all linear predictors.

    Its slopes are looked at where all predictors differ: where rows are compared at all, those of
    some are far from zero there.

    Parameters
    ----------
    likelihood : Likelihood
    weights : (n,) array
        In the rows of X.
    """
    backend, order = likelihood.backend, likelihood.order
    eta = np.random.default_rng(SEED).random((likelihood.n_eta, 1))
    own = weights if order is None else weights[order]
    bound = likelihood.weigh(backend.asarray(np.ascontiguousarray(own[:, None])))
    slope = backend.to_host(likelihood.evaluate(backend.asarray(eta), bound)[1])[:, 0]
    return not bool((np.abs(slope) > ROUNDING * weights[likelihood.row_of_x]).any())
