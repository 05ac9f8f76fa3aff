"""Errors for folds without information about the coefficients, whose scores are constant."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import numpy as np

from ..errors import DataError
from ..fit import Problem
from ..likelihoods import Likelihood
from ..likelihoods.nuisance_likelihood import NuisanceLikelihood
from .fold_errors import REMEDY

__all__ = ["is_constant", "nothing_held_out", "nothing_to_train", "refuse_silent_folds"]

# A slope in a row's predictor below this share of its weight is rounding error.
SLOPE_ROUNDING = 1e-9
# This seed draws the linear predictors at which slopes are computed.
PROBE_SEED = 20
WHAT = "no event that could have been that of another row at risk, or of the same stratum"


def refuse_silent_folds(
    problem: Problem, pairs: list[tuple[int, int]], train: Callable[[list[int]], np.ndarray],
    alone: bool,
) -> None:  # fmt: skip
    """Raise `DataError` if training rows, or all held-out rows, carry no information.

    A likelihood that compares rows with one another needs an event that could have been another
    row's. If the training rows have none, all coefficients are zero at every variance; if no fold
    holds one out, every score is zero. In both cases there would be no reason for the choice.

    A fold's training rows contain all rows that another fold of the same repeat holds out. If these
    carry information, so do the training rows, so that few of them have to be examined.

    Parameters
    ----------
    pairs : list of (repeat, fold)
        The parts that are held out in turn.
    train : callable
        Takes numbers of folds and returns the row weights of their training rows, (n, b).
    alone : bool
        Whether held-out rows are scored alone.
    """
    likelihood = problem.likelihood
    if isinstance(likelihood, NuisanceLikelihood):
        for k in range(len(pairs)):
            _begin(likelihood, train([k])[:, 0], k)
        return
    if not likelihood.shift_invariant:
        return  # Each row carries information alone.
    if is_constant(likelihood, problem.weights):
        raise nothing_to_train(-1)
    informative = not alone
    for _, group in groupby(range(len(pairs)), key=lambda k: pairs[k][0]):
        numbers, telling = list(group), set[int]()
        for k in numbers:
            if len(telling) < 2 and not is_constant(likelihood, problem.weights - train([k])[:, 0]):
                telling.add(k)
        for k in numbers:
            if not telling - {k} and is_constant(likelihood, train([k])[:, 0]):
                raise nothing_to_train(
                    k, " With stratify=True (the default) events are spread evenly over them."
                )
        informative = informative or bool(telling)
    if not informative:
        raise nothing_held_out(", or scoring='difference'")


def nothing_to_train(k: int, more: str = "") -> DataError:
    """Return the error for a fold's training rows, or with k = −1 for all rows."""
    if k < 0:
        return DataError(f"No variance can be chosen: there is {WHAT}.")
    return DataError(
        f"The training rows of fold {k} say nothing of the coefficients: there is {WHAT}. "
        f"{REMEDY}{more}"
    )


def nothing_held_out(more: str = "") -> DataError:
    """Return the error for held-out rows that carry no information in any fold."""
    return DataError(
        "No variance can be chosen: the rows that a fold holds out carry no information by "
        f"themselves, in any fold: there is {WHAT}. Use fewer folds{more}."
    )


def _begin(likelihood: NuisanceLikelihood, weights: np.ndarray, k: int) -> None:
    """Raise an error with the fold's number for training rows without thresholds."""
    own = weights if likelihood.order is None else weights[likelihood.order]
    try:
        likelihood.begin(np.zeros(likelihood.n_eta), np.ascontiguousarray(own))
    except DataError as error:
        raise DataError(f"In the training rows of fold {k}: {error} {REMEDY}") from None


def is_constant(likelihood: Likelihood, weights: np.ndarray) -> bool:
    """Return whether a shift-invariant log-likelihood is the same at all linear predictors.

    Its slopes are computed where all predictors differ: if rows are compared at all, some slopes
    are far from zero there.

    Parameters
    ----------
    weights : (n,) array
        In the rows of X.
    """
    backend, order = likelihood.backend, likelihood.order
    eta = np.random.default_rng(PROBE_SEED).random((likelihood.n_eta, 1))
    own = weights if order is None else weights[order]
    bound = likelihood.weigh(backend.asarray(np.ascontiguousarray(own[:, None])))
    slope = backend.to_host(likelihood.evaluate(backend.asarray(eta), bound)[1])[:, 0]
    return not bool((np.abs(slope) > SLOPE_ROUNDING * weights[likelihood.row_of_x]).any())
