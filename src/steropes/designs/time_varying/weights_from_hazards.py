"""Ratios of probabilities per period, for stabilised weights, from Cox models of a hazard."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.data import Surv
from steropes.designs.target_trials.weights_over_time import Ratio
from steropes.errors import SeparationError, separation_of
from steropes.models.estimators.cox_regression import CoxRegression

__all__ = ["HazardProbability"]


@dataclass(frozen=True, repr=False)
class HazardProbability:
    """Probabilities of an event of each row that ends the risk of it, such as a first treatment.

    Attributes
    ----------
    what : str
        The event, for messages.
    period : ndarray of int, shape (n,)
        Each row is at risk from the period before to its own.
    event : ndarray of int8, shape (n,)
    rows : ndarray of bool, shape (n,)
        Rows at risk; the others have the probability 1.
    whatever_happened : bool
        Whether the probability is that of what happened, and not of no event in every row.
    """

    what: str
    period: NDArray[np.int64]
    event: NDArray[np.int8]
    rows: NDArray[np.bool_]
    whatever_happened: bool = True

    def ratio(
        self, X: pd.DataFrame, columns: Ratio, weights: NDArray | None = None
    ) -> NDArray[np.float64]:
        """Compute the ratio of the probabilities of models with these columns of X, (n,)."""
        below = self._probability(X[list(columns.denominator)], weights)
        if columns.numerator is None:
            return 1 / below
        return self._probability(X[list(columns.numerator)], weights) / below

    def _probability(self, X: pd.DataFrame, weights: NDArray | None) -> NDArray[np.float64]:
        """Compute the probability of each row."""
        used = self.rows if weights is None else self.rows & (weights > 0)
        p = np.ones(len(self.event))
        w = np.ones(int(used.sum())) if weights is None else weights[used]
        when, event = self.period[used], self.event[used] == 1
        if not event.any():
            return p
        steps, hazard, risk = self._hazard(X[used].reset_index(drop=True), when, event, w)
        at = np.searchsorted(steps, when)
        inside = at < len(steps)
        h = np.where(inside & (steps[np.minimum(at, len(steps) - 1)] == when),
                     hazard[np.minimum(at, len(steps) - 1)], 0.0)  # fmt: skip
        none = np.exp(-h * risk)
        p[used] = np.where(event & self.whatever_happened, 1 - none, none)
        return p

    def _hazard(
        self, X: pd.DataFrame, when: NDArray, event: NDArray, w: NDArray
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Fit the Cox model: times, steps of the baseline hazard, and e^xβ of its rows."""
        columns = X.columns[(X.to_numpy() != X.to_numpy()[:1]).any(axis=0)]
        if not len(columns):
            steps, place = np.unique(when, return_inverse=True)
            at_risk = np.bincount(place, w)
            return steps, np.bincount(place, w * event) / at_risk, np.ones(len(when))
        try:
            model = CoxRegression().fit(X[columns], Surv(when, event, when - 1), sample_weight=w)
        except SeparationError as error:
            raise SeparationError(
                f"The model of {self.what} in the weights has no finite maximum: "
                f"{separation_of(self.what, error)} Some people's {self.what} is certain; leave "
                "out or merge the columns.",
                error.columns,
            ) from None
        table = model.curves.baseline_hazard(level=None)
        risk = np.exp(X[columns].to_numpy() @ model.coef_)
        return table["time"].to_numpy(), table["hazard"].to_numpy(), risk
