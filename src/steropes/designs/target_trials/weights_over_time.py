"""Inverse probabilities of treatment and of remaining uncensored, period by period.

The weight of a person who has followed a strategy from period m to period t is

    Π_{m<j≤t} P(A_j = a_j | A_{j−1}, V_j) / P(A_j = a_j | A_{j−1}, L_j),

times the same ratio for remaining uncensored. Its numerator stabilises it and has no effect on the
estimand if the outcome model has the same columns V (Robins, Hernán and Brumback 2000).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from steropes.errors import SeparationError
from steropes.models.estimators.logistic_regression import LogisticRegression

__all__ = ["FittedProbability", "ProbabilityModel", "Ratio", "cumulative_ratios"]


@dataclass(frozen=True)
class Ratio:
    """Columns of the models in the numerator and in the denominator of a weight.

    Attributes
    ----------
    numerator : list of str, or None
        None for weights that are not stabilised, with the numerator 1.
    denominator : list of str
    pooled : tuple of bool
        Whether the numerator and the denominator are one model for both previous treatments.
    """

    numerator: Sequence[str] | None
    denominator: Sequence[str]
    pooled: tuple[bool, bool] = (False, False)


@dataclass(frozen=True, repr=False)
class FittedProbability:
    """A logistic model of probabilities, fitted by maximum likelihood to some rows.

    Attributes
    ----------
    rows : ndarray of int, shape (m,)
    Z : ndarray, shape (m, z)
        Columns, with a constant.
    y, p : ndarray, shape (m,)
        Whether the event happened, and its probability.
    slope : ndarray, shape (m,)
        Derivative of the logarithm of the row's ratio in the linear predictor.
    """

    rows: NDArray[np.int64]
    Z: NDArray[np.float64]
    y: NDArray
    p: NDArray[np.float64]
    slope: NDArray[np.float64]

    def influences(self, person: NDArray, people: int) -> NDArray[np.float64]:
        """Compute the influence of people on the coefficients, (people, z)."""
        information = self.Z.T @ (self.Z * (self.p * (1 - self.p))[:, None])
        of = person[self.rows]
        scores = [np.bincount(of, (self.y - self.p) * z, people) for z in self.Z.T]
        return np.asarray(np.linalg.solve(information, np.array(scores)).T, np.float64)

    def cumulative(self, n: int) -> NDArray[np.float64]:
        """Sum the derivatives of log ratios over the rows before each of n rows, (n + 1, z)."""
        out = np.zeros((n + 1, self.Z.shape[1]))
        out[self.rows + 1] = self.Z * self.slope[:, None]
        return np.cumsum(out, axis=0, out=out)


@dataclass(frozen=True, repr=False)
class ProbabilityModel:
    """Probabilities of an event of each row, from models of groups of rows.

    Attributes
    ----------
    what : str
        The event, for messages.
    y : ndarray of int8, shape (n,)
        Whether it happened.
    rows : ndarray of bool, shape (n,)
        Rows of the fits; the others have the probability 1.
    groups : ndarray of int, shape (n,)
        Previous treatments.
    model : estimator, optional
        Unfitted model, default logistic regression by maximum likelihood.
    whatever_happened : bool, default True
        Whether the probability is that of what happened, and not of the event in every row.
    """

    what: str
    y: NDArray[np.int8]
    rows: NDArray[np.bool_]
    groups: NDArray[np.int8]
    model: Any = None
    whatever_happened: bool = True

    def ratio(
        self, X: pd.DataFrame, columns: Ratio, weights: NDArray | None = None
    ) -> NDArray[np.float64]:
        """Compute the ratio of the probabilities, (n,).

        Parameters
        ----------
        X : DataFrame, shape (n, p)
        columns : Ratio
            Names of columns of X.
        weights : ndarray, shape (n,), optional
            Row weights, such as those of a bootstrap draw.
        """
        pooled_n, pooled_d = columns.pooled
        below = self._probability(X[list(columns.denominator)], pooled_d, weights, "denominator")
        if columns.numerator is None:
            return 1 / below
        above = self._probability(X[list(columns.numerator)], pooled_n, weights, "numerator")
        return above / below

    def fitted(self, X: pd.DataFrame, columns: Ratio) -> Iterator[FittedProbability]:
        """Yield the models of the numerator and the denominator with the parts that errors need."""
        pooled_n, pooled_d = columns.pooled
        parts = [(columns.denominator, pooled_d, "denominator", -1.0)]
        if columns.numerator is not None:
            parts.append((columns.numerator, pooled_n, "numerator", 1.0))
        for names, pooled, part, sign in parts:
            chosen = X[list(names)]
            for own, y, where in self._groups(pooled, None):
                p = self._fit(chosen[own], y, None, part, where)
                values = chosen[own].to_numpy(np.float64)
                changing = (values != values[:1]).any(axis=0)
                Z = np.column_stack([np.ones(len(y)), values[:, changing]])
                slope = sign * (y - p if self.whatever_happened else 1 - p)
                yield FittedProbability(np.flatnonzero(own), Z, y, p, slope)

    def _groups(
        self, pooled: bool, weights: NDArray | None
    ) -> Iterator[tuple[NDArray[np.bool_], NDArray, str]]:
        """Yield the rows of each model, their outcome, and words for messages."""
        for group in (None,) if pooled else (0, 1):
            own = self.rows if group is None else self.rows & (self.groups == group)
            if weights is not None:
                own = own & (weights > 0)
            y = self.y[own]
            if len(y) and not (y == y[0]).all():  # What always happens has the probability 1.
                yield own, y, "" if group is None else f" of rows with previous treatment {group}"

    def _probability(
        self, X: pd.DataFrame, pooled: bool, weights: NDArray | None, part: str
    ) -> NDArray[np.float64]:
        """Compute the probability of each row."""
        p = np.ones(len(self.y))
        for own, y, where in self._groups(pooled, weights):
            fitted = self._fit(X[own], y, None if weights is None else weights[own], part, where)
            p[own] = np.where(y == 1, fitted, 1 - fitted) if self.whatever_happened else fitted
        return p

    def _fit(
        self, X: pd.DataFrame, y: NDArray, weights: NDArray | None, part: str, where: str
    ) -> NDArray[np.float64]:
        """Fit one model and return the probabilities of its rows."""
        if X.shape[1] == 0:
            return np.full(len(y), np.average(y, weights=weights))
        changing = X.columns[(X.to_numpy() != X.to_numpy()[:1]).any(axis=0)]
        model = LogisticRegression() if self.model is None else clone(self.model)
        try:
            model.fit(X[changing], y, sample_weight=weights)
        except SeparationError as error:
            raise SeparationError(
                f"The model of {self.what} in the {part} of the weights{where} has no finite "
                f"maximum: {error} Some people's {self.what} is certain, so that the strategies "
                "cannot be compared in them; leave out or merge the columns, or give weight_model "
                "a prior.",
                error.columns,
            ) from None
        return np.asarray(model.predict_proba(X[changing])[:, 1])


def cumulative_ratios(ratio: NDArray, starts: NDArray) -> NDArray[np.float64]:
    """Multiply ratios from the first row of each person on, (n,)."""
    total = np.cumsum(np.log(ratio))
    before = np.append(0.0, total)[starts[:-1]]
    return np.exp(total - np.repeat(before, np.diff(starts)))
