"""M-estimation: errors of weighted pooled logistic models that include the models of the weights.

With scores s of the outcome model in each person-interval and weights w(γ), the equation
Σ w(γ) s(β) = 0 and those of the models of the weights are solved together (Stefanski and Boos
2002). The influence of a person on β is

    H⁻¹ [Σ w s + M (influence of the person on γ)],   M = Σ w s (∂ log w / ∂γ)',

with sums over the person's intervals in the brackets and over all intervals in M. A weight is a
product of ratios over rows of person-time, so that ∂ log w / ∂γ is a difference of two cumulative
sums over the rows of its person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from steropes.data.interval_weights import IntervalWeights
from steropes.design_matrix.time_basis import baseline_basis, channels
from steropes.designs.target_trials.marginal_risks import HazardModel
from steropes.designs.target_trials.weights_over_time import FittedProbability
from steropes.errors import DataError

# Rows of the outcome model whose scores are in memory at a time.
ROWS_AT_ONCE = 262_144

__all__ = ["WeightedIntervals", "check_errors", "stacked_influences", "weights_of_intervals"]

# Maps rows of the outcome model and an interval to their weights, and to whether these depend on
# the models of the weights, which truncated weights do not.
WeightsAt = Callable[[NDArray, int], tuple[NDArray, NDArray]]


def check_errors(
    errors: str, weighted: bool, model: str, weight_model: object, bootstrap: bool
) -> None:
    """Refuse errors that are unknown, or that these models do not have."""
    if errors not in ("robust", "stacked"):
        raise DataError(f"errors must be 'robust' or 'stacked', not {errors!r}.")
    if errors == "robust":
        return
    if bootstrap:
        raise DataError("errors='stacked' and bootstrap are two ways to errors; take one of them.")
    if not weighted:
        raise DataError("errors='stacked' includes models of weights, and there are no weights.")
    if model != "logistic" or weight_model is not None:
        raise DataError(
            "errors='stacked' are of logistic models by maximum likelihood, of the outcome and of "
            "the weights; take bootstrap=200 for others."
        )


def weights_of_intervals(weights: IntervalWeights | None) -> WeightsAt:
    """Return the weights of curves, which depend on their models between their limits.

    Without weights they are one.
    """
    if weights is None:
        return lambda rows, k: (np.ones(len(rows)), np.zeros(len(rows), bool))

    def at(rows: NDArray, k: int) -> tuple[NDArray, NDArray]:
        w = weights.scale[rows] * weights.values[weights.start[rows] + k]
        inside = (w >= weights.lower) & (w <= weights.upper)
        return np.clip(w, weights.lower, weights.upper), inside

    return at


@dataclass(frozen=True, repr=False)
class WeightedIntervals:
    """Rows of an outcome model, their intervals at risk, and where their weights come from.

    Attributes
    ----------
    X : DataFrame, shape (r, p)
    first, last : ndarray of int, shape (r,)
        At risk from interval ``first`` to ``last`` − 1, counted from 0.
    event : ndarray, shape (r,)
        Whether the last interval has the outcome.
    person : ndarray of int, shape (r,)
    start : ndarray of int, shape (r,)
        Row of person-time of the interval 0.
    base : ndarray of int, shape (r,)
        Last row of person-time whose ratio is not in the weights, or −1.
    weights : callable
        See `WeightsAt`.
    """

    X: pd.DataFrame
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    event: NDArray
    person: NDArray[np.int64]
    start: NDArray[np.int64]
    base: NDArray[np.int64]
    weights: WeightsAt


class _Scores:
    """Weighted scores of the outcome model at its coefficients, by interval."""

    def __init__(self, rows: WeightedIntervals, model: HazardModel, coef: NDArray) -> None:
        self.rows, self.K = rows, model.intervals
        self.B = baseline_basis(model.baseline, self.K)[0]
        names = list(rows.X.columns)
        self.functions, self.pairs = channels(model.changing or None, names, self.K)
        self.x = [rows.X[name].to_numpy() for name in names]
        M, p = self.B.shape[1], len(names)
        self.b, self.gamma = coef[:M], coef[M + p :]
        self.index = np.zeros(len(rows.X))
        for x, one in zip(self.x, coef[M : M + p], strict=True):
            self.index += one * x

    def __iter__(self) -> Iterator[tuple[int, NDArray, NDArray, NDArray]]:
        """Yield an interval, the rows at risk, their w (y − p), and its variable part."""
        rows = self.rows
        for start in range(0, len(rows.first), ROWS_AT_ONCE):
            some = slice(start, start + ROWS_AT_ONCE)
            first, last = rows.first[some], rows.last[some]
            for k in range(int(first.min()), int(last.max())):
                at = start + np.flatnonzero((first <= k) & (k < last))
                eta = self.index[at] + self.B[k] @ self.b
                for (j, q), g in zip(self.pairs, self.gamma, strict=True):
                    eta += g * self.functions[q].values[k] * self.x[j][at]
                w, free = rows.weights(at, k)
                y = (rows.event[at] == 1) & (rows.last[at] == k + 1)
                score = w * (y - expit(eta))
                yield k, at, score, np.where(free, score, 0.0)

    def by_person(self, people: int) -> NDArray[np.float64]:
        """Sum the scores of each person, (people, q)."""
        rows, M, p = self.rows, self.B.shape[1], len(self.x)
        total = np.zeros((people, M + p + len(self.pairs)))
        plain = np.zeros(len(rows.X))
        moved = np.zeros((len(self.functions), len(rows.X)))
        for k, at, score, _ in self:
            total[:, :M] += np.bincount(rows.person[at], score, people)[:, None] * self.B[k]
            plain[at] += score
            for q, of in enumerate(self.functions):
                moved[q, at] += of.values[k] * score
        for j, x in enumerate(self.x):
            total[:, M + j] = np.bincount(rows.person, plain * x, people)
        for i, (j, q) in enumerate(self.pairs):
            total[:, M + p + i] = np.bincount(rows.person, moved[q] * self.x[j], people)
        return total

    def by_coefficient(self, cumulative: NDArray) -> NDArray[np.float64]:
        """Compute Σ w s (∂ log w / ∂γ)', (q, z).

        Parameters
        ----------
        cumulative : ndarray, shape (n + 1, z)
            Sums of the derivatives of log ratios over rows of person-time before each row.
        """
        rows, M, p = self.rows, self.B.shape[1], len(self.x)
        z = cumulative.shape[1]
        out = np.zeros((M + p + len(self.pairs), z))
        plain = np.zeros((len(rows.X), z))
        moved = np.zeros((len(self.functions), len(rows.X), z))
        before = cumulative[rows.base + 1]
        for k, at, _, score in self:
            change = (cumulative[rows.start[at] + k + 1] - before[at]) * score[:, None]
            out[:M] += self.B[k][:, None] * change.sum(axis=0)
            plain[at] += change
            for q, of in enumerate(self.functions):
                moved[q, at] += of.values[k] * change
        for j, x in enumerate(self.x):
            out[M + j] = x @ plain
        for i, (j, q) in enumerate(self.pairs):
            out[M + p + i] = self.x[j] @ moved[q]
        return out


def stacked_influences(
    blocks: Callable[[], Iterable[WeightedIntervals]], model: HazardModel, coef: NDArray,
    bread: NDArray, parts: Iterable[FittedProbability], person: NDArray,
) -> NDArray[np.float64]:  # fmt: skip
    """Compute the influence of people on the coefficients, (people, q).

    Without models of the weights these are the weighted scores of people times the inverse
    information, so that their products are the sandwich covariance clustered by person.

    Parameters
    ----------
    blocks : callable
        Yields the rows of the outcome model, some at a time.
    model : HazardModel
    coef : ndarray, shape (q,)
    bread : ndarray, shape (q, q)
        Inverse information of the weighted model.
    parts : iterable of FittedProbability
        The models of the weights; none if the weights are known.
    person : ndarray of int, shape (n,)
        Person of each row of person-time.
    """
    people = int(person.max()) + 1

    def scores() -> Iterator[_Scores]:
        return (_Scores(rows, model, coef) for rows in blocks())

    total = np.zeros((people, len(bread)))
    for own in scores():
        total += own.by_person(people)
    for part in parts:
        cumulative = part.cumulative(len(person))
        through = sum(own.by_coefficient(cumulative) for own in scores())
        total += part.influences(person, people) @ np.transpose(through)
    return np.asarray(total @ bread)
