"""Bootstrap of whole comparisons: effects of draws of people, clusters or matched sets.

A draw is a number of copies of each person. The models of scores, weights and outcomes are fitted
to all draws as replicates of one problem, which share X; the effects of each draw then follow from
its weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import clone

from steropes.backends import host_backend
from steropes.data.diagnostic_limits import FAILED_DRAWS
from steropes.designs.comparative.adjustments import Adjustment, Step, adjust_groups
from steropes.designs.comparative.compared_people import ComparisonTable
from steropes.designs.comparative.effect_table_rows import EffectRow, Values
from steropes.designs.comparative.entropy_balancing import EntropyBalancing, weights_of_draws
from steropes.designs.comparative.matching import Matching
from steropes.designs.comparative.propensity_weights import PropensityWeights, weights_of_scores
from steropes.errors import DataError, SeparationError
from steropes.infer.bootstrap_draws import Draws
from steropes.models.estimators.logistic_regression import LogisticRegression

__all__ = [
    "SeededDraws", "copies", "draws_of_people", "draws_of_sets", "refitted_values",
    "resampled_weights", "with_bootstrap_errors",
]  # fmt: skip

# Draws of which linear predictors are in memory together.
TOGETHER = 16

Weights = Callable[[NDArray], NDArray]


class SeededDraws(Draws):
    """Draws that a fitted model can make again.

    Parameters
    ----------
    weights, unit, count
        As of `Draws`.
    seed : int
        The seed of all draws.
    """

    def __init__(self, weights: NDArray, unit: NDArray | None, count: int, seed: int) -> None:
        super().__init__(weights, unit, count, np.random.default_rng(seed))
        self.seed = seed


def draws_of_people(n: int, count: int, seed: int, clusters: NDArray | None = None) -> SeededDraws:
    """Draw n people with replacement, or as many clusters as there are."""
    return SeededDraws(np.ones(n), clusters, count, seed)


def draws_of_sets(adjustment: Adjustment, count: int, seed: int) -> SeededDraws:
    """Draw matched sets with replacement (Austin and Small 2014)."""
    sets = adjustment.clusters
    if sets is None:
        raise DataError(
            "bootstrap= is not valid after matching with replacement (Abadie and Imbens 2008); "
            "leave it out for their errors."
        )
    inside = sets >= 0
    unit = np.where(inside, sets, int(sets.max()) + 1)
    return SeededDraws(inside.astype(float), unit, count, seed)


def copies(draws: Draws, k: int) -> NDArray:
    """Return the rows of draw k, which repeat."""
    times = draws.one(k).astype(np.int64)
    return np.repeat(np.arange(len(times)), times)


def refitted_values(
    table: ComparisonTable, again: Callable[[ComparisonTable], list[EffectRow]], draws: Draws
) -> Iterator[Values | None]:
    """Repeat a procedure for the people of each draw, one after another.

    Parameters
    ----------
    again : callable
        Maps people to effects.

    Yields
    ------
    dict or None
        Effects of a draw; None if it has no estimate.
    """
    for k in range(len(draws.seeds)):
        try:
            rows = again(table.take(copies(draws, k)))
        except (DataError, SeparationError):
            yield None
        else:
            yield {(row.measure, row.scale): row.value for row in rows}


# -- weights -----------------------------------------------------------------------------------


def resampled_weights(
    table: ComparisonTable, adjustment: Adjustment, draws: SeededDraws
) -> Iterator[tuple[NDArray, NDArray] | None]:
    """Estimate weights again in each draw.

    Yields
    ------
    (rows, weights) or None
        The rows of a draw and their weights; None if it has no estimate.
    """
    step = adjustment.step
    assert step is not None
    for k, weights in enumerate(_weights(step, table, draws)):
        rows = copies(draws, k)
        try:
            own = weights(rows) if weights else _refitted(table, adjustment.method, step, rows)
        except (DataError, SeparationError):
            yield None
        else:
            yield rows, own


def _refitted(table: ComparisonTable, method: str, step: Step, rows: NDArray) -> NDArray:
    """Fit the adjustment to the people of one draw."""
    return adjust_groups(table.take(rows), method, clone(step)).weights


@singledispatch
def _weights(step: Step, table: ComparisonTable, draws: SeededDraws) -> Iterator[Weights | None]:
    """Yield a function of the rows of each draw, or None if the step is to be fitted to them."""
    yield from [None] * len(draws.seeds)


@_weights.register
def _(
    step: EntropyBalancing, table: ComparisonTable, draws: SeededDraws
) -> Iterator[Weights | None]:
    for weights in weights_of_draws(step, draws):
        yield None if weights is None else weights.__getitem__


@_weights.register
def _(
    step: PropensityWeights, table: ComparisonTable, draws: SeededDraws
) -> Iterator[Weights | None]:
    def of(score: NDArray, rows: NDArray) -> NDArray:
        both = np.column_stack([1.0 - score, score])
        return weights_of_scores(step, both, table.target[rows])[0]

    yield from _of_scores(step, table, draws, of)


@_weights.register
def _(step: Matching, table: ComparisonTable, draws: SeededDraws) -> Iterator[Weights | None]:
    def of(score: NDArray, rows: NDArray) -> NDArray:
        X = table.take(rows).X if step.exact else np.zeros((len(rows), 1))
        return clone(step).fit(X, table.target[rows], score=score).weights_

    yield from _of_scores(step, table, draws, of)


def _of_scores(
    step: PropensityWeights | Matching,
    table: ComparisonTable,
    draws: SeededDraws,
    of: Callable[[NDArray, NDArray], NDArray],
) -> Iterator[Weights | None]:
    """Yield functions that compute weights from the scores of each draw."""
    if not isinstance(step.model_, LogisticRegression):
        yield from [None] * len(draws.seeds)
        return
    for eta in _predictors(step.model_, table, draws):

        def weights(rows: NDArray, eta: NDArray = eta) -> NDArray:
            if not np.isfinite(eta).all():
                raise DataError("The draw does not identify the scores.")
            return of(expit(eta[rows]), rows)

        yield weights


def _predictors(
    model: LogisticRegression, table: ComparisonTable, draws: SeededDraws
) -> Iterator[NDArray]:
    """Yield the linear predictors of the scores in each draw, (n,)."""
    design, backend = table.columns.coded, host_backend(model.n_jobs)
    found = model.inference.bootstrap(
        len(draws.seeds), draws.unit, model.cv is not None, random_state=draws.seed
    ).coef
    for a in range(0, len(found), TOGETHER):
        some = found[a : a + TOGETHER].T
        usable = np.isfinite(some).all(axis=0)
        slopes = np.zeros((design.p, backend.lanes(some.shape[1])))
        slopes[:, : some.shape[1]] = np.where(usable, some[1:], 0.0) * design.scale[:, None]
        eta = design.matmul(slopes, backend)[:, : some.shape[1]]
        yield from (eta + np.where(usable, some[0], np.nan)).T


# -- errors ------------------------------------------------------------------------------------


def with_bootstrap_errors(
    rows: list[EffectRow], values: Iterator[Values | None], units: str, level: float
) -> list[EffectRow]:
    """Replace the errors of effects by standard deviations over draws.

    Parameters
    ----------
    values : iterator
        Effects of each draw; None if it has no estimate.
    units : str
        Units that were drawn, such as "people".
    """
    found = list(values)
    count = len(found)
    failed = sum(each is None for each in found)
    if failed > FAILED_DRAWS * count:
        raise DataError(
            f"{failed} of {count} bootstrap draws have no estimate, because groups or levels of "
            "covariates are too small; merge rare levels, or leave bootstrap out."
        )
    made = []
    for row in rows:
        key = row.measure, row.scale
        own = np.array([each[key] for each in found if each is not None and key in each])
        # The draws in which a ratio is defined are a biased sample if many of them are not.
        known = len(own) > 1 and len(own) >= (1 - FAILED_DRAWS) * count
        se = float(np.std(own, ddof=1)) if known else float("nan")
        how = _label(units, count, failed, count - failed - len(own), known)
        made.append(
            EffectRow.of(row.method, row.measure, row.value, se, how, level, scale=row.scale,
                         groups=(row.target, row.comparator))
        )  # fmt: skip
    return made


def _label(units: str, count: int, failed: int, undefined: int, known: bool) -> str:
    """Describe the bootstrap: the units drawn, and in how many draws an effect is undefined."""
    used = count - failed - undefined
    text = f"bootstrap of {units}, {used} draws"
    if used == count:
        return text
    reasons = []
    if undefined:
        reasons.append(f"in {undefined} a group had no event")
    if failed:
        reasons.append(f"{failed} had no estimate")
    text = f"bootstrap of {units}, {used} of {count} draws ({', '.join(reasons)})"
    return text if known else f"none: {text}"
