"""Standardisation: an outcome model, averaged over people as if all were in each of both groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import expit

from steropes.data import Surv
from steropes.designs.comparative.compared_people import ComparisonTable
from steropes.designs.comparative.comparison_bootstrap import TOGETHER, SeededDraws
from steropes.designs.comparative.effect_table_rows import EffectRow, Values, contrasts
from steropes.designs.comparative.group_statistics import GroupStatistics
from steropes.designs.values.estimands import AnyEstimand
from steropes.errors import DataError, SeparationError, listed
from steropes.models.curves.cox_curves import standardized_survival_of_sample
from steropes.models.estimators.cox_regression import CoxRegression
from steropes.models.estimators.linear_regression import LinearRegression
from steropes.models.estimators.logistic_regression import LogisticRegression

__all__ = ["StandardizedModel", "standardized_effects"]

STACKED = "stacked equations (include the outcome model)"
METHOD = "standardization"


def standardized_effects(
    table: ComparisonTable,
    estimand: AnyEstimand,
    interactions: bool | Sequence[str] | None,
    horizon: float | None,
    ties: Any,
    level: float,
) -> list[EffectRow]:
    """Estimate effects by an outcome model without a prior.

    Parameters
    ----------
    interactions : bool or sequence of str, optional
        Covariates whose products with the treatment are in the model; default all, but none in
        Cox models.
    horizon : float, optional
        Time of risks and restricted means.
    ties : {"efron", "breslow"}
        Tied times of Cox models.
    """
    if table.long:
        raise DataError(
            "adjust='standardization' needs an outcome model by maximum likelihood, and so "
            "covariates that are columns of data, not a long table. Take 'weights' or 'matching'."
        )
    try:
        if table.outcome.event is None:
            return StandardizedModel(table, estimand, interactions).rows(level)
        return _of_times(table, estimand, interactions, horizon, ties, level)
    except SeparationError as error:
        raise DataError(f"standardization: the outcome model cannot be estimated. {error}") from (
            error
        )


def population_of(target: NDArray, estimand: AnyEstimand) -> NDArray:
    """Return the shares of people in the population of an estimand, (n,)."""
    inside = {"att": target, "atu": ~target}.get(estimand, np.ones(len(target), dtype=bool))
    return inside / inside.sum()


class StandardizedModel:
    """A linear or logistic outcome model whose predictions are averaged over a population.

    Parameters
    ----------
    table : ComparisonTable
        People with an outcome that is a number.
    estimand : str
        The population.
    interactions : bool or sequence of str, optional
        As in `standardized_effects`.
    """

    def __init__(
        self,
        table: ComparisonTable,
        estimand: AnyEstimand,
        interactions: bool | Sequence[str] | None,
    ) -> None:
        self.binary = table.outcome.kind == "binary"
        self.statistic = table.outcome.statistic
        self.target, self.y = table.target == 1, table.outcome.y
        self.clusters, self.errors = table.clusters, _clustered(STACKED, table)
        self.population = population_of(self.target, estimand)
        self.X, names = _coded(table)
        self.products = _products(table, names, interactions)
        own_name = _name_of_treatment(names)
        labels = [own_name, *names, *(f"{own_name} × {names[j]}" for j in self.products)]
        t = self.target.astype(float)
        observed = np.column_stack([t, self.X, t[:, None] * self.X[:, self.products]])
        self.model = LogisticRegression() if self.binary else LinearRegression()
        self.model.fit(pd.DataFrame(observed, columns=labels, copy=False), self.y)
        self.beta = np.append(float(self.model.intercept_), self.model.coef_)
        self.own = np.column_stack([np.ones(table.n), observed])

    @property
    def conditional(self) -> tuple[str, str] | None:
        """Measure and scale of the coefficient of the treatment, without products only."""
        if self.products:
            return None
        return ("odds ratio" if self.binary else "mean difference"), "conditional"

    def means(self, beta: NDArray, treated: bool) -> NDArray:
        """Predict the means of all people as if they were in one group, (n,) or (n, b)."""
        slopes = beta[2 : 2 + self.X.shape[1]].copy()
        if treated:
            slopes[self.products] += beta[2 + self.X.shape[1] :]
        eta = self.X @ slopes + (beta[0] + treated * beta[1])
        return np.asarray(expit(eta)) if self.binary else np.asarray(eta)

    def rows(self, level: float) -> list[EffectRow]:
        """Estimate the effects with errors by stacked equations."""
        both = [self.means(self.beta, treated) for treated in (True, False)]
        mean = np.where(self.target, *both)
        influence = _influences(self.own, self._slope(mean), self.y - mean)
        q = self.population
        values, on_means = np.empty(2), np.empty((len(q), 2))
        for k, there in enumerate(both):
            values[k] = q @ there
            slope = q * self._slope(there)
            along, treated = slope @ self.X, 1.0 - k
            gradient = np.concatenate(
                [slope.sum() * np.array([1.0, treated]), along, treated * along[self.products]]
            )
            on_means[:, k] = q * (there - values[k]) + influence @ gradient
        V = GroupStatistics(self.statistic, values, on_means).covariance(self.clusters)
        rows = [
            EffectRow.of(METHOD, measure, value, se, self.errors, level,
                         groups=(values[0], values[1]))
            for measure, value, se in contrasts(self.statistic, values, V)
        ]  # fmt: skip
        if self.conditional:
            own = GroupStatistics("", self.beta[:2], influence[:, :2]).covariance(self.clusters)
            measure, scale = self.conditional
            how = "robust (HC0)" if self.clusters is None else self.errors
            rows.append(
                EffectRow.of(METHOD, measure, float(self.beta[1]), float(np.sqrt(own[1, 1])), how,
                             level, scale=scale)
            )  # fmt: skip
        return rows

    def values_of_draws(self, draws: SeededDraws) -> Iterator[Values | None]:
        """Yield the effects of bootstrap draws, whose models are replicates of the fitted one."""
        found = self.model.inference.bootstrap(
            len(draws.seeds), draws.unit, random_state=draws.seed
        ).coef
        for a in range(0, len(found), TOGETHER):
            numbers = list(range(a, min(a + TOGETHER, len(found))))
            times = draws(numbers) * self.population[:, None]
            usable = np.isfinite(found[numbers]).all(axis=1)
            beta = np.where(usable[:, None], found[numbers], 0.0).T
            means = np.stack(
                [(times * self.means(beta, treated)).sum(axis=0) for treated in (True, False)]
            )
            with np.errstate(invalid="ignore"):
                means = means / times.sum(axis=0)
            for k, values in enumerate(means.T):
                fine = usable[k] and np.isfinite(values).all()
                yield self._values(values, float(beta[1, k])) if fine else None

    def _values(self, means: NDArray, coefficient: float) -> Values:
        """Return all measures of the means of one draw."""
        values: Values = {
            (measure, "marginal"): value
            for measure, value, _ in contrasts(self.statistic, means, np.zeros((2, 2)))
        }
        if self.conditional:
            values[self.conditional] = coefficient
        return values

    def _slope(self, mean: NDArray) -> NDArray:
        """Return the derivative of means in the linear predictor."""
        return mean * (1 - mean) if self.binary else np.ones(len(mean))


def _clustered(how: str, table: ComparisonTable) -> str:
    """Add the clusters to the name of errors."""
    return how if table.clusters is None else f"{how}, clustered by {table.cluster!r}"


def _name_of_treatment(names: list[str]) -> str:
    """Return a name for the column of the treatment that no covariate has."""
    name = "treatment"
    while name in names:
        name += " (group)"
    return name


def _coded(table: ComparisonTable) -> tuple[NDArray, list[str]]:
    """Return the covariates without the first levels of labels, (n, p), and their names."""
    columns = table.columns
    first = {int(own[0]) for own in columns.factors.values()}
    kept = [j for j in range(columns.p) if j not in first]
    return columns.dense()[:, kept], [columns.names[j] for j in kept]


def _products(
    table: ComparisonTable, names: list[str], interactions: bool | Sequence[str] | None
) -> list[int]:
    """Return the positions of columns whose products with the treatment are in the model."""
    if interactions is None or interactions is True:
        return list(range(len(names)))
    if interactions is False:
        return []
    asked = [interactions] if isinstance(interactions, str) else list(interactions)
    assert isinstance(table.X, pd.DataFrame)
    unknown = [name for name in asked if name not in table.X]
    if unknown:
        raise DataError(f"interactions names {listed(unknown)}, which is no covariate.")
    return [j for j, name in enumerate(names) if any(_is_of(name, given) for given in asked)]


def _is_of(column: str, variable: str) -> bool:
    """Return whether a column is a variable or one of its levels."""
    return column == variable or (column.startswith(f"{variable}[") and column.endswith("]"))


def _influences(Z: NDArray, slope: NDArray, residual: NDArray) -> NDArray:
    """Compute the influences of people on coefficients, (n, p), from columns of any units."""
    scale = np.sqrt((Z**2).mean(axis=0))
    scaled = Z / scale
    hessian = (scaled * slope[:, None]).T @ scaled
    solved = linalg.solve(hessian, (scaled * residual[:, None]).T, assume_a="pos")
    return np.asarray(solved.T / scale)


def _of_times(
    table: ComparisonTable,
    estimand: AnyEstimand,
    interactions: bool | Sequence[str] | None,
    horizon: float | None,
    ties: Any,
    level: float,
) -> list[EffectRow]:
    """Standardise a Cox model, whose competing events count as censored."""
    if interactions:
        raise DataError("Standardised Cox models have no interactions; leave interactions out.")
    outcome = table.outcome
    assert outcome.event is not None
    assert isinstance(table.X, pd.DataFrame)
    if (outcome.event == 2).any():
        raise DataError(
            "adjust='standardization' takes no competing events (event 2), because risks need "
            "models of both. Take 'weights' or 'matching'."
        )
    name = _name_of_treatment(list(table.X))
    people = table.X.assign(**{name: table.target.astype(float)})
    model = CoxRegression(ties=ties).fit(people, Surv(outcome.y, outcome.event, outcome.entry))
    found = model.summary(kind="robust", cluster=table.clusters).loc[name]
    rows = [
        EffectRow.of(METHOD, "hazard ratio", float(found["coef"]), float(found["se"]),
                     _clustered("robust", table), level, scale="conditional")
    ]  # fmt: skip
    if horizon is None:
        return rows
    rows_inside = np.flatnonzero(population_of(table.target == 1, estimand))
    curves = standardized_survival_of_sample(
        model, people.iloc[rows_inside], rows_inside, [horizon], name, cluster=table.clusters
    )
    how = _clustered(STACKED, table)
    assert curves.differences is not None
    assert curves.restricted_mean_differences is not None
    risks = _values_and_covariance(curves.survival, "survival", curves.differences)
    means = _values_and_covariance(
        curves.restricted_means, "mean", curves.restricted_mean_differences
    )
    for name, values, V in (
        ("risk", 1 - risks[0], risks[1]), ("restricted mean", *means)
    ):  # fmt: skip
        rows += [
            EffectRow.of(METHOD, measure, value, se, how, level, groups=(values[0], values[1]))
            for measure, value, se in contrasts(name, values, V)
        ]
    return rows


def _values_and_covariance(
    groups: pd.DataFrame, column: str, differences: pd.DataFrame
) -> tuple[NDArray, NDArray]:
    """Return the values of the target and of the comparator with their covariance matrix."""
    last = groups.iloc[::-1]
    V = np.diag(last["se"].to_numpy(float) ** 2)
    V[0, 1] = V[1, 0] = (V.trace() - float(differences["se"].iloc[0]) ** 2) / 2
    return last[column].to_numpy(float), V
