"""Means, risks and rates of two weighted groups with everybody's influence on them.

An influence is the derivative of a statistic in the logarithm of a person's weight. The sum of
their squares is a robust variance with weights as known; sums within matched sets come first where
people are matched, and a model of the weights adds its own influences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steropes.designs.comparative.compared_people import Outcome
from steropes.designs.comparative.group_means import cluster_codes, small_sample_factor
from steropes.designs.effects.absolute_effects import default_horizon, risk_and_time_lost
from steropes.errors import DataError
from steropes.infer.errors_with_estimated_weights import WeightModel, summed_products

__all__ = ["GroupStatistics", "group_statistics", "horizon_of"]


@dataclass(frozen=True, repr=False)
class GroupStatistics:
    """A statistic of the target and of the comparator.

    Attributes
    ----------
    name : {"risk", "positive mean", "mean", "rate", "restricted mean"}
    values : ndarray, shape (2,)
        Of the target and of the comparator.
    influence : ndarray, shape (n, 2)
    """

    name: str
    values: NDArray
    influence: NDArray

    def covariance(
        self, clusters: NDArray | None = None, weight_model: WeightModel | None = None
    ) -> NDArray:
        """Compute the covariance matrix, (2, 2).

        Parameters
        ----------
        clusters : ndarray of int, shape (n,), optional
            Matched sets, −1 for people left out. The variance is multiplied by
            G/(G − 1) · (n − 1)/(n − 2), as in R's package sandwich.
        weight_model : WeightModel, optional
            The model of the weights, whose estimation the errors then include.
        """
        influence = self.influence
        if weight_model is not None:
            influence = influence + weight_model.influences(influence)
        if clusters is None:
            return summed_products(influence, None)
        inside = clusters >= 0
        codes = cluster_codes(clusters[inside], int(inside.sum()))
        size = int(codes.max()) + 1
        if size < 2:
            raise DataError("Errors clustered by set need two or more sets; there is one.")
        V = summed_products(influence[inside], codes)
        return np.asarray(V * small_sample_factor(len(codes), size))


def horizon_of(
    outcome: Outcome, target: NDArray, weights: list[NDArray], horizon: float | None
) -> float:
    """Return the time of risks and restricted means, at which all methods have people left.

    Parameters
    ----------
    target : ndarray of bool, shape (n,)
    weights : list of ndarray
        The weights of each method.
    horizon : float, optional
        The given time.
    """
    time = outcome.y
    last = [float(time[a & (w > 0)].max(initial=0.0)) for w in weights for a in (target, ~target)]
    if horizon is None:
        return default_horizon(time, last)
    if not 0 < horizon <= min(last):
        raise DataError(
            f"horizon={horizon:g} must be above 0 and at most {min(last):g}, the last time at "
            "which both groups have somebody under observation."
        )
    return float(horizon)


def group_statistics(
    outcome: Outcome, target: NDArray, w: NDArray, horizon: float | None
) -> Iterator[GroupStatistics]:
    """Yield the statistics of an outcome.

    Parameters
    ----------
    target : ndarray of bool, shape (n,)
    w : ndarray, shape (n,)
        Weights, 0 for people left out.
    horizon : float, optional
        Time of risks and restricted means; none of them without it.
    """
    if outcome.event is None:
        yield _ratios(outcome.statistic, outcome.y, np.ones(len(w)), target, w)
        return
    start = 0.0 if outcome.entry is None else outcome.entry
    yield _ratios("rate", (outcome.event == 1) * 1.0, outcome.y - start, target, w)
    if horizon is None:
        return
    values, influence = np.empty((2, 2)), np.zeros((2, len(w), 2))
    for k, arm in enumerate((target, ~target)):
        risk, lost, own = risk_and_time_lost(outcome.y[arm], outcome.event[arm], w[arm], horizon)
        values[:, k] = risk, horizon - lost
        influence[0, arm, k], influence[1, arm, k] = own[:, 0], -own[:, 1]
    yield GroupStatistics("risk", values[0], influence[0])
    yield GroupStatistics("restricted mean", values[1], influence[1])


def _ratios(
    name: str, above: NDArray, below: NDArray, target: NDArray, w: NDArray
) -> GroupStatistics:
    """Compute Σ w a / Σ w b in each group."""
    values, influence = np.empty(2), np.zeros((len(w), 2))
    for k, arm in enumerate((target, ~target)):
        own = np.where(arm, w, 0.0)
        total = float(own @ below)
        if not total > 0:
            raise DataError("A group has no time at risk, so that it has no rate.")
        values[k] = own @ above / total
        influence[:, k] = own * (above - values[k] * below) / total
    return GroupStatistics(name, values, influence)
