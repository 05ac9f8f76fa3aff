"""Standardisation: an outcome model, averaged over people as if all were in each of both groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import linalg
from scipy.special import expit

from steropes.data import Surv
from steropes.designs.comparative.comparison_table import ComparisonTable
from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.designs.comparative.effect_rows import EffectRow, contrasts
from steropes.designs.comparative.group_statistics import GroupStatistics
from steropes.designs.values.estimands import AnyEstimand
from steropes.designs.values.normal_quantile import Z
from steropes.errors import DataError, SeparationError, listed
from steropes.models.estimators.cox_regression import CoxRegression
from steropes.models.estimators.linear_regression import LinearRegression
from steropes.models.estimators.logistic_regression import LogisticRegression

__all__ = ["standardized_effects"]

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
            return _of_numbers(table, estimand, interactions, level)
        return _of_times(table, estimand, interactions, horizon, ties, level)
    except SeparationError as error:
        raise DataError(f"standardization: the outcome model cannot be estimated. {error}") from (
            error
        )


def population_of(target: NDArray, estimand: AnyEstimand) -> NDArray:
    """Return the shares of people in the population of an estimand, (n,)."""
    inside = {"att": target, "atu": ~target}.get(estimand, np.ones(len(target), dtype=bool))
    return inside / inside.sum()


def _of_numbers(
    table: ComparisonTable,
    estimand: AnyEstimand,
    interactions: bool | Sequence[str] | None,
    level: float,
) -> list[EffectRow]:
    """Standardise a linear or a logistic model."""
    binary = table.outcome.kind == "binary"
    target, y = table.target == 1, table.outcome.y
    X, names = _coded(table)
    products = _products(table, names, interactions)
    both = [_columns(X, np.full(table.n, t), products) for t in (1.0, 0.0)]
    observed = np.where(target[:, None], both[0], both[1])
    own_name = _name_of_treatment(names)
    labels = [own_name, *names, *(f"{own_name} × {names[j]}" for j in products)]
    model = LogisticRegression() if binary else LinearRegression()
    model.fit(pd.DataFrame(observed, columns=labels), y)
    beta = np.append(float(model.intercept_), model.coef_)
    Z1, Z0, own = (np.column_stack([np.ones(table.n), x]) for x in (*both, observed))
    mean = expit(own @ beta) if binary else own @ beta
    slope = mean * (1 - mean) if binary else np.ones(table.n)
    influence = _influences(own, slope, y - mean)
    q = population_of(target, estimand)
    values, on_means = np.empty(2), np.empty((table.n, 2))
    for k, x in enumerate((Z1, Z0)):
        there = expit(x @ beta) if binary else x @ beta
        gradient = (q * (there * (1 - there) if binary else 1.0)) @ x
        values[k] = q @ there
        on_means[:, k] = q * (there - values[k]) + influence @ gradient
    found = GroupStatistics("risk" if binary else "mean", values, on_means)
    V = found.covariance()
    rows = [
        EffectRow.of(METHOD, measure, value, se, STACKED, level, groups=(values[0], values[1]))
        for measure, value, se in contrasts(found.name, values, V)
    ]
    if not products:
        se = float(np.sqrt((influence[:, 1] ** 2).sum()))
        measure = "odds ratio" if binary else "mean difference"
        rows.append(
            EffectRow.of(METHOD, measure, float(beta[1]), se, "robust (HC0)", level,
                         scale="conditional")
        )  # fmt: skip
    return rows


def _name_of_treatment(names: list[str]) -> str:
    """Return a name for the column of the treatment that no covariate has."""
    name = "treatment"
    while name in names:
        name += " (group)"
    return name


def _coded(table: ComparisonTable) -> tuple[NDArray, list[str]]:
    """Return the covariates without the first levels of labels, (n, p), and their names."""
    columns = CovariateColumns(table.X)
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


def _columns(X: NDArray, treatment: NDArray, products: list[int]) -> NDArray:
    """Return the columns of the outcome model, (n, 1 + p + k)."""
    return np.column_stack([treatment, X, treatment[:, None] * X[:, products]])


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
    found = model.summary(kind="robust").loc[name]
    rows = [
        EffectRow.of(METHOD, "hazard ratio", float(found["coef"]), float(found["se"]), "robust",
                     level, scale="conditional")
    ]  # fmt: skip
    if horizon is None:
        return rows
    inside = population_of(table.target == 1, estimand) > 0
    curves = model.curves.standardized_survival(
        people[inside], times=[horizon], by=name, kind="robust"
    )
    how = "robust, given the covariates"
    survival = curves.survival["survival"].to_numpy()[::-1]
    means = curves.restricted_means["mean"].to_numpy()[::-1]
    assert curves.differences is not None
    assert curves.restricted_mean_differences is not None
    assert curves.risk_ratios is not None
    at = tuple(map(float, 1 - survival)), tuple(map(float, means))
    difference, longer = curves.differences.iloc[0], curves.restricted_mean_differences.iloc[0]
    ratio = curves.risk_ratios.iloc[0]
    log_se = math.log(ratio["upper"] / ratio["lower"]) / (2 * Z) if ratio["lower"] > 0 else math.nan
    for measure, value, se, groups in (
        ("risk difference", -difference["difference"], difference["se"], at[0]),
        ("risk ratio", math.log(ratio["ratio"]), log_se, at[0]),
        ("restricted mean difference", longer["difference"], longer["se"], at[1]),
    ):
        rows.append(
            EffectRow.of(METHOD, measure, float(value), float(se), how, level,
                         groups=(groups[0], groups[1]))
        )  # fmt: skip
    return rows
