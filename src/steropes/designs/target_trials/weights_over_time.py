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
from scipy.special import expit
from sklearn.base import clone

from steropes.designs.target_trials.columns_on_demand import columns_on_demand, rows_of
from steropes.errors import SeparationError, separation_of
from steropes.models.estimators.logistic_regression import LogisticRegression
from steropes.models.repeated_fits.draws_of_people import refit_to_draws

__all__ = ["FittedProbability", "ProbabilityModel", "ProbabilityPart", "Ratio", "cumulative_ratios"]


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

    @property
    def parts(self) -> list[tuple[Sequence[str], bool, str, float]]:
        """Columns, whether they are one model, the name, and the power in the ratio of each."""
        pooled_n, pooled_d = self.pooled
        below = (self.denominator, pooled_d, "denominator", -1.0)
        if self.numerator is None:
            return [below]
        return [below, (self.numerator, pooled_n, "numerator", 1.0)]


@dataclass(frozen=True, repr=False)
class ProbabilityPart:
    """One fitted model of a ratio.

    Attributes
    ----------
    rows : ndarray of int, shape (m,)
        Rows of the fit.
    y, fitted : ndarray, shape (m,)
        Whether the event happened, and its probability.
    columns : tuple of ndarray, shape (n,)
        Columns that vary, over all rows.
    model : estimator, or None
        None without columns.
    sign : float
        Power of the probability in the ratio.
    """

    rows: NDArray[np.int64]
    y: NDArray
    columns: tuple[NDArray, ...]
    model: Any
    fitted: NDArray[np.float64]
    sign: float

    def drawn(self, times: NDArray, person: NDArray) -> NDArray[np.float64]:
        """Fit the model again to draws of people: coefficients (B, 1 + columns).

        Those of draws without a finite maximum are NaN. What always or never happens in a draw has
        an intercept that is infinite.

        Parameters
        ----------
        times : ndarray, shape (B, people)
            How often each draw has each person.
        person : ndarray of int, shape (n,)
            Person of each row.
        """
        of = person[self.rows]
        happened = times @ np.bincount(of, self.y, times.shape[1])
        every = times @ np.bincount(of, minlength=times.shape[1])
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = np.log(happened) - np.log(every - happened)
        out = np.zeros((len(times), 1 + len(self.columns)))
        if self.columns:
            out = refit_to_draws(self.model, times, of)
            out[np.isinf(odds)] = 0.0
        some = np.isinf(odds) if self.columns else slice(None)
        out[some, 0] = odds[some]
        return out

    def probabilities(self, coef: NDArray) -> NDArray[np.float64]:
        """Compute the probabilities of the event of its rows at other coefficients."""
        eta = np.full(len(self.rows), coef[0])
        for x, one in zip(self.columns, coef[1:], strict=True):
            eta += one * rows_of(x, self.rows)
        return np.asarray(expit(eta))


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
        out = np.ones(len(self.y))
        for part in self.parts(X, columns, weights):
            out[part.rows] *= self.probability_of(part, part.fitted) ** part.sign
        return out

    def parts(
        self, X: pd.DataFrame, columns: Ratio, weights: NDArray | None = None
    ) -> Iterator[ProbabilityPart]:
        """Fit the models of the denominator and of the numerator; see `ratio`."""
        for names, pooled, part, sign in columns.parts:
            for own, y, where in self._groups(pooled, weights):
                w = None if weights is None else weights[own]
                yield self._fit(X, names, np.flatnonzero(own), y, w, part, where, sign)

    def probability_of(self, part: ProbabilityPart, p: NDArray) -> NDArray[np.float64]:
        """Return the probability of what happened, or of the event, from that of the event."""
        return np.where(part.y == 1, p, 1 - p) if self.whatever_happened else p

    def fitted(self, X: pd.DataFrame, columns: Ratio) -> Iterator[FittedProbability]:
        """Yield the models of the numerator and the denominator with the parts that errors need."""
        for part in self.parts(X, columns):
            Z = np.column_stack([np.ones(len(part.y)), *(x[part.rows] for x in part.columns)])
            slope = part.y - part.fitted if self.whatever_happened else 1 - part.fitted
            yield FittedProbability(part.rows, Z, part.y, part.fitted, part.sign * slope)

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

    def _fit(
        self, X: pd.DataFrame, names: Sequence[str], rows: NDArray, y: NDArray,
        weights: NDArray | None, part: str, where: str, sign: float,
    ) -> ProbabilityPart:  # fmt: skip
        """Fit one model to some rows."""
        columns = {name: X[name].to_numpy() for name in names}
        columns = {name: x for name, x in columns.items() if (x[rows] != x[rows[0]]).any()}
        if not columns:
            p = np.full(len(y), np.average(y, weights=weights))
            return ProbabilityPart(rows, y, (), None, p, sign)

        def read(some: slice) -> list[NDArray]:
            return [rows_of(x, rows[some]) for x in columns.values()]

        model = LogisticRegression() if self.model is None else clone(self.model)
        Z: Any = X[list(columns)]
        Z = (
            Z.iloc[rows]
            if self.model is not None
            else columns_on_demand(list(columns), read, len(rows))
        )
        try:
            model.fit(Z, y, sample_weight=weights)
        except SeparationError as error:
            raise SeparationError(
                f"The model of {self.what} in the {part} of the weights{where} has no finite "
                f"maximum: {separation_of(self.what, error)} Some people's {self.what} is "
                "certain, so that the strategies cannot be compared in them; leave out or "
                "merge the columns, or give weight_model a prior.",
                error.columns,
            ) from None
        p = np.asarray(model.predict_proba(Z)[:, 1])
        return ProbabilityPart(rows, y, tuple(columns.values()), model, p, sign)


def cumulative_ratios(ratio: NDArray, starts: NDArray) -> NDArray[np.float64]:
    """Multiply ratios from the first row of each person on, (n,)."""
    total = np.cumsum(np.log(ratio))
    before = np.append(0.0, total)[starts[:-1]]
    return np.exp(total - np.repeat(before, np.diff(starts)))
