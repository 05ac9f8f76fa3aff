"""Models of the variables of a period given the history, and histories simulated from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.base import clone, is_classifier

from steropes.design_matrix import null_design
from steropes.designs.target_trials.person_time import PersonTime
from steropes.errors import SeparationError, separation_of
from steropes.models.estimators.linear_regression import LinearRegression
from steropes.models.estimators.logistic_regression import LogisticRegression
from steropes.models.multinomial.multinomial_logistic_regression import (
    MultinomialLogisticRegression,
)

__all__ = ["Flag", "Histories", "PeriodModels", "Plan", "variable_of"]

# The treatments of rows of covariates and ``period``; None takes those of the treatment's model.
Plan = Callable[[pd.DataFrame, NDArray], NDArray] | None


class Variable(Protocol):
    """A variable that is simulated: its columns, its default model, and draws from it."""

    @property
    def columns(self) -> list[str]: ...
    @property
    def model(self) -> Any: ...
    def values(self, data: Mapping[str, NDArray]) -> NDArray:
        """Return the outcome of its model."""
        ...

    def spread(self, y: NDArray, fitted: NDArray, weights: NDArray) -> float:
        """Return the standard deviation of draws around the mean."""
        ...

    def draw(self, fitted: NDArray, spread: float, u: NDArray) -> dict[str, NDArray]:
        """Draw its columns at quantiles u of the distribution of each row."""
        ...


@dataclass(frozen=True)
class Flag:
    """A variable of 0 and 1, by logistic regression."""

    name: str

    @property
    def columns(self) -> list[str]:
        """The column."""
        return [self.name]

    @property
    def model(self) -> Any:
        """Logistic regression."""
        return LogisticRegression()

    def values(self, data: Mapping[str, NDArray]) -> NDArray:
        """Return 0 and 1."""
        return np.asarray(data[self.name])

    def spread(self, y: NDArray, fitted: NDArray, weights: NDArray) -> float:
        """Return 0; the outcome follows from the probability alone."""
        return 0.0

    def draw(self, fitted: NDArray, spread: float, u: NDArray) -> dict[str, NDArray]:
        """Return 1 with the fitted probabilities."""
        return {self.name: (u > 1 - fitted) * 1.0}


@dataclass(frozen=True)
class Number:
    """A number with normal residuals, kept in the range of the data."""

    name: str
    low: float
    high: float

    @property
    def columns(self) -> list[str]:
        """The column."""
        return [self.name]

    @property
    def model(self) -> Any:
        """Least squares."""
        return LinearRegression()

    def values(self, data: Mapping[str, NDArray]) -> NDArray:
        """Return the numbers."""
        return np.asarray(data[self.name], np.float64)

    def spread(self, y: NDArray, fitted: NDArray, weights: NDArray) -> float:
        """Return the root of the mean square of the residuals."""
        return float(np.sqrt(np.average((y - fitted) ** 2, weights=weights)))

    def draw(self, fitted: NDArray, spread: float, u: NDArray) -> dict[str, NDArray]:
        """Return normal numbers around the fitted means."""
        return {self.name: np.clip(fitted + spread * norm.ppf(u), self.low, self.high)}


@dataclass(frozen=True)
class Label:
    """A label, as columns of 0 and 1 without that of the first, by multinomial regression."""

    columns: list[str]

    @property
    def model(self) -> Any:
        """Multinomial logistic regression."""
        return MultinomialLogisticRegression()

    def values(self, data: Mapping[str, NDArray]) -> NDArray:
        """Return numbers of labels."""
        return sum(
            (k * np.asarray(data[name], np.int64) for k, name in enumerate(self.columns, 1)),
            start=np.zeros(len(data[self.columns[0]]), np.int64),
        )

    def spread(self, y: NDArray, fitted: NDArray, weights: NDArray) -> float:
        """Return 0; the outcome follows from the probability alone."""
        return 0.0

    def draw(self, fitted: NDArray, spread: float, u: NDArray) -> dict[str, NDArray]:
        """Return the label at which the cumulative probability passes u."""
        drawn = (np.cumsum(fitted, axis=1)[:, :-1] < u[:, None]).sum(axis=1)
        return {name: (drawn == k) * 1.0 for k, name in enumerate(self.columns, 1)}


def variable_of(rows: PersonTime, name: str) -> Variable:
    """Return how a covariate is simulated: as 0 or 1, as a number, or as a label."""
    columns = rows.names[name]
    if len(columns) > 1:
        return Label(columns)
    values = rows.data[columns[0]].to_numpy(np.float64)
    if np.isin(values, (0.0, 1.0)).all():
        return Flag(columns[0])
    return Number(name, float(values.min()), float(values.max()))


@dataclass(frozen=True, repr=False)
class Histories:
    """Columns from which the variables of a period are predicted.

    ``period`` and its powers, baseline columns, ``lag1_x`` (the value one period before) and
    ``mean_x`` (the mean over all earlier periods) of each changing column x, both 0 before the
    first period, and the values of the period itself.

    Attributes
    ----------
    baseline, changing : list of str
        Coded columns; the treatment is the last of ``changing``.
    lags, degree : int
    """

    baseline: list[str]
    changing: list[str]
    lags: int
    degree: int

    @property
    def powers(self) -> list[str]:
        """Columns of the period in the default models."""
        return ["period" if d == 1 else f"period^{d}" for d in range(1, self.degree + 1)]

    @property
    def lagged(self) -> list[str]:
        """Columns of earlier periods in the default models."""
        return [f"lag{k}_{x}" for k in range(1, self.lags + 1) for x in self.changing]

    @property
    def before(self) -> list[str]:
        """Columns of the default models that are known before the period."""
        return [*self.powers, *self.baseline, *self.lagged]

    @property
    def made(self) -> list[str]:
        """Columns that are made from those of the table."""
        return ["period", *self.powers, *self.lagged, *(f"mean_{x}" for x in self.changing)]

    def start(
        self, t: NDArray, baseline: Mapping[str, NDArray], seen: Sequence[Mapping[str, NDArray]]
    ) -> dict[str, NDArray]:
        """Return the columns that are known before period t of simulated histories."""
        out: dict[str, NDArray] = {"period": t, **baseline}
        for d in range(2, self.degree + 1):
            out[f"period^{d}"] = t**d
        for x in self.changing:
            for k in range(1, self.lags + 1):
                out[f"lag{k}_{x}"] = seen[-k][x] if len(seen) >= k else np.zeros(len(t))
            total = sum((past[x] for past in seen), start=np.zeros(len(t)))
            out[f"mean_{x}"] = total / max(1, len(seen))
        return out

    def observed(self, rows: PersonTime, when: NDArray, treatment: str) -> pd.DataFrame:
        """Return all columns of the observed rows."""
        now = rows.data.astype(np.float64).assign(**{treatment: rows.treatment.astype(np.float64)})
        out: dict[str, NDArray] = {"period": when.astype(np.float64)}
        for d in range(2, self.degree + 1):
            out[f"period^{d}"] = out["period"] ** d
        at = np.arange(rows.n)
        for x in self.changing:
            values = now[x].to_numpy()
            for k in range(1, self.lags + 1):
                out[f"lag{k}_{x}"] = np.where(when >= k, values[np.maximum(at - k, 0)], 0.0)
            sums = np.append(0.0, np.cumsum(values))
            earlier = sums[at] - sums[rows.starts[rows.person]]
            out[f"mean_{x}"] = earlier / np.maximum(when, 1)
        return pd.concat([pd.DataFrame(out), now], axis=1)


@dataclass(frozen=True, repr=False)
class Fitted:
    """The fitted model of a variable."""

    variable: Variable
    names: list[str]
    model: Any
    spread: float

    def mean(self, table: Mapping[str, NDArray]) -> NDArray[np.float64]:
        """Predict the mean, or the probabilities of labels."""
        m = len(table["period"])
        X = pd.DataFrame({name: table[name] for name in self.names}) if self.names else None
        return _predicted(self.model, null_design(m) if X is None else X)


@dataclass(frozen=True, repr=False)
class PeriodModels:
    """Models of all variables of a period, in the order in which they are drawn.

    Attributes
    ----------
    histories : Histories
    variables : list of Variable
        The covariates, then the treatment.
    outcome : Flag
    given : mapping of str to estimator or str
        Models, or right-hand sides of formulas, by the name of the variable.
    keys : list of str
        Names of the variables and of the outcome in ``given`` and in messages.
    occurs : ndarray of bool, shape (periods,)
        Whether the outcome can occur in each period.
    """

    histories: Histories
    variables: list[Variable]
    outcome: Flag
    given: Mapping[str, Any]
    keys: list[str]
    occurs: NDArray[np.bool_]

    def fit(
        self, table: pd.DataFrame, later: NDArray, known: NDArray, weights: NDArray
    ) -> list[Fitted]:
        """Fit the models of all variables and, last, of the outcome.

        Parameters
        ----------
        table : DataFrame, shape (n, q)
            The observed histories with the outcome.
        later, known : ndarray of bool, shape (n,)
            Rows of the models of variables, and of the outcome.
        weights : ndarray, shape (n,)
            How often the person of each row counts.
        """
        names, found = list(self.histories.before), []
        for key, variable in zip(self.keys, self.variables, strict=False):
            if later.any():
                found.append(self._fit(key, variable, names, table, later, weights))
            names = names + variable.columns
        found.append(self._fit(self.keys[-1], self.outcome, names, table, known, weights))
        return found

    def _fit(
        self, key: str, variable: Variable, names: list[str], table: pd.DataFrame, rows: NDArray,
        weights: NDArray,
    ) -> Fitted:  # fmt: skip
        """Fit the model of one variable."""
        used = rows & (weights > 0)
        own, w = table[used], weights[used]
        y = variable.values({name: own[name].to_numpy() for name in variable.columns})
        given = self.given.get(key)
        formula = isinstance(given, str)
        if not formula:
            names = [name for name in names if own[name].nunique() > 1]
        else:  # All columns before the variable, from which the formula chooses.
            means = [name for name in own if name.startswith("mean_")]
            names = list(dict.fromkeys(["period", *names, *means]))
        model = variable.model if given is None or formula else clone(given)
        weigh = {} if (w == 1).all() else {"sample_weight": w}
        try:
            if formula:
                model.set_params(formula=f"_drawn ~ {given}")
                model.fit(own[names].assign(_drawn=y), **weigh)
            else:
                model.fit(own[names] if names else null_design(len(y)), y, **weigh)
        except SeparationError as error:
            raise SeparationError(
                f"The model of {key!r} has no finite maximum: {separation_of(repr(key), error)} "
                f"Leave out or merge the columns, or give models={{{key!r}: ...}} with a prior.",
                error.columns,
            ) from None
        X = own[names] if names else null_design(len(y))
        return Fitted(variable, names, model, variable.spread(y, _predicted(model, X), w))

    def simulate(
        self, fitted: Sequence[Fitted], first: Mapping[str, NDArray], plan: Plan, periods: int,
        rng: np.random.Generator,
    ) -> NDArray[np.float64]:  # fmt: skip
        """Simulate histories from their first period, and return risks, (m, periods).

        Risks are sums of hazards times the survival so far, so that no outcome is drawn.

        Parameters
        ----------
        first : mapping of str to ndarray, shape (m,)
            Baseline columns, and the changing ones of the first period.
        plan : callable or None
            See `Plan`.
        """
        h, m = self.histories, len(next(iter(first.values())))
        baseline = {name: first[name] for name in h.baseline}
        seen: list[dict[str, NDArray]] = []
        alive, risk = np.ones(m), np.empty((m, periods))
        treatment = self.variables[-1].columns[0]
        for t in range(periods):
            table = h.start(np.full(m, float(t)), baseline, seen)
            for k, variable in enumerate(self.variables):
                # One stream of quantiles for all strategies makes their differences less noisy.
                u = rng.random(m)
                natural = plan is None or variable is not self.variables[-1]
                if not natural:
                    shown = {name: table[name] for name in [*h.baseline, *h.changing[:-1]]}
                    rows = pd.DataFrame(shown | {"period": np.full(m, t)})
                    assert plan is not None
                    table[treatment] = plan(rows, np.full(m, t)).astype(np.float64)
                elif t == 0:
                    table |= {name: first[name] for name in variable.columns}
                else:
                    table |= variable.draw(fitted[k].mean(table), fitted[k].spread, u)
            hazard = fitted[-1].mean(table) if self.occurs[t] else np.zeros(m)
            risk[:, t] = (risk[:, t - 1] if t else 0.0) + alive * hazard
            alive = alive * (1 - hazard)
            seen.append({x: table[x] for x in h.changing})
        return risk


def _predicted(model: Any, X: Any) -> NDArray[np.float64]:
    """Return means, probabilities of 1, or those of each of several labels."""
    if not is_classifier(model):
        return np.asarray(model.predict(X))
    p = np.asarray(model.predict_proba(X))
    return p[:, 1] if p.shape[1] == 2 else p
