"""Prediction models: a lasso logistic regression of each design, and tables of its performance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.covariates.preprocessing import Tidied, tidy
from steropes.designs.prediction_measures.prediction_calibration import calibration_table
from steropes.designs.prediction_measures.prediction_performance import (
    demographic_table,
    distribution_table,
    statistics_of,
)
from steropes.designs.prediction_measures.prediction_thresholds import threshold_table
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.covariates.feature_extraction import Features, extract_features
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.execution.resumable_steps import REFUSED
from steropes.studies.prediction.prediction_population import TEST, Population, divided, population
from steropes.studies.strategus_plans.prediction_plan import (
    PREDICTION,
    PredictionDesign,
    PredictionPlan,
)

if TYPE_CHECKING:
    from steropes.models import LogisticRegression

__all__ = [
    "PredictionResult",
    "performance_tables",
    "predicted",
    "predicted_designs",
    "standardized",
]


@dataclass(frozen=True, repr=False, eq=False)
class PredictionResult:
    """The exact results of a design, which are not for release.

    Attributes
    ----------
    variance : float
        Variance of the prior.
    converged : bool
        Whether the fit and those of the held-out folds ended at their optima.
    most_entries : int
        The largest number of entries of one person.
    attrition : DataFrame
        Entries that remain after each rule.
    statistics, thresholds, calibration, distribution, demographics : DataFrame
        Performance by ``evaluation``: statistics, classifications by thresholds, calibration,
        distribution of predicted risks, and observed and predicted risks by age and gender.
    covariates : DataFrame
        Covariates of people with and without the outcome, with coefficients.
    """

    design: PredictionDesign
    variance: float
    intercept: float
    converged: bool
    most_entries: int
    attrition: pd.DataFrame
    statistics: pd.DataFrame
    thresholds: pd.DataFrame
    calibration: pd.DataFrame
    distribution: pd.DataFrame
    demographics: pd.DataFrame
    covariates: pd.DataFrame


def predicted_designs(
    db: OmopDatabase,
    plan: PredictionPlan,
    cohorts: CohortTable,
    failed: dict[str, str],
    say: Callable[[str], None],
) -> list[PredictionResult]:
    """Fit the models of designs; the reason why one cannot be fitted is added to ``failed``."""
    results = []
    for design in plan.designs:
        name = f"{PREDICTION}, design {design.number}"
        say(name)
        try:
            results.append(predicted(db, design, cohorts))
        except REFUSED as error:
            failed[name] = str(error)
    return results


def predicted(db: OmopDatabase, design: PredictionDesign, cohorts: CohortTable) -> PredictionResult:
    """Fit the model of a design, and evaluate it.

    Returns
    -------
    PredictionResult
        Performance in the training data (``Train``), of its held-out folds (``CV``), for which the
        model is fitted without them with the same prior, and in the other people (``Test``).

    Raises
    ------
    DataError
        The outcome is too rare, or no covariate is common enough.
    """
    people = population(db, design, cohorts)
    group = divided(people.outcome, design.split)
    features = extract_features(db, people.entries[["person_id", "start"]], design.rules)
    training = np.flatnonzero(group > 0)
    fitted = _tidied(features.take(training), design)
    outcome, fold = people.outcome[training], group[training]
    model = _fit(fitted, outcome, fold, design)
    variance = design.variance if design.variance is not None else float(model.variance_)
    risk = _risk(features, fitted, model)
    parts = {"Train": (training, risk[training])}
    free = _without_prior(fitted, design)
    held_out, held_out_converged = _held_out(fitted, outcome, fold, variance, free)
    parts["CV"] = (training, held_out)
    if (group == TEST).any():
        tested = np.flatnonzero(group == TEST)
        parts["Test"] = (tested, risk[tested])
    return PredictionResult(
        design,
        variance,
        float(model.intercept_),
        bool(model.converged_) and held_out_converged,
        int(people.entries["person_id"].value_counts().max()),
        people.attrition,
        **performance_tables(parts, people),
        covariates=(
            _covariates(features, people.outcome, fitted, model)
            if design.summary
            else pd.DataFrame()
        ),
    )


def performance_tables(
    parts: dict[str, tuple[NDArray, NDArray]], people: Population
) -> dict[str, pd.DataFrame]:
    """Tabulate the performance of the risks of each evaluation, given with rows of the population.

    Parameters
    ----------
    parts : dict of str to (ndarray of int, ndarray of float)
        Rows and their risks by the name of the evaluation.
    """
    found: dict[str, list[pd.DataFrame]] = {}
    age, gender = (people.entries[name].to_numpy(float) for name in ("age", "gender_id"))
    for name, (rows, risk) in parts.items():
        outcome = people.outcome[rows]
        statistics = statistics_of(risk, outcome)
        tables = {
            "statistics": pd.DataFrame({"metric": [*statistics], "value": [*statistics.values()]}),
            "thresholds": threshold_table(risk, outcome),
            "calibration": calibration_table(risk, outcome),
            "distribution": distribution_table(risk, outcome),
            "demographics": demographic_table(risk, outcome, age[rows], gender[rows]),
        }
        for kind, table in tables.items():
            table.insert(0, "evaluation", name)
            found.setdefault(kind, []).append(table)
    return {kind: pd.concat(of, ignore_index=True) for kind, of in found.items()}


def _tidied(features: Features, design: PredictionDesign) -> Tidied:
    """Filter and scale the covariates of the training data."""
    known = {*features.columns.loc[features.columns["people"] > 0, "covariate_id"]}
    only = [i for i in design.only if i in known]
    # An empty list would mean all covariates, so `tidy` refuses the full list if nobody has any.
    return tidy(features, design.tidy, include=only or design.only)


def _fit(
    fitted: Tidied, outcome: NDArray, fold: NDArray, design: PredictionDesign
) -> LogisticRegression:
    """Fit the logistic regression with a given or a cross-validated variance."""
    from steropes.models import LogisticRegression
    from steropes.priors import Laplace
    from steropes.select import CrossValidation

    free = _without_prior(fitted, design)
    if design.variance is not None:
        model = LogisticRegression(prior=Laplace(variance=design.variance, exclude=free))
    else:
        splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in np.unique(fold)]
        model = LogisticRegression(
            prior=Laplace(exclude=free),
            cv=CrossValidation(folds=splits),
            random_state=design.seed,
        )
    return model.fit(fitted.design, outcome)


def _without_prior(fitted: Tidied, design: PredictionDesign) -> NDArray:
    """Mark the covariates that have no prior."""
    return np.isin(fitted.features.columns["covariate_id"].to_numpy(), design.exempt)


def _held_out(
    fitted: Tidied, outcome: NDArray, fold: NDArray, variance: float, free: NDArray
) -> tuple[NDArray, bool]:
    """Predict the risks of each fold by a model of the others; return whether all converged."""
    from scipy.special import expit

    from steropes.models import LogisticRegression
    from steropes.priors import Laplace

    risk, columns = np.empty(len(outcome)), fitted.features.matrix().tocsr()
    converged = True
    for k in np.unique(fold):
        weight = (fold != k).astype(float)
        model = LogisticRegression(prior=Laplace(variance=variance, exclude=free))
        model.fit(fitted.design, outcome, sample_weight=weight)
        converged = converged and bool(model.converged_)
        logit = columns[fold == k] @ (np.asarray(model.coef_) / fitted.scale)
        risk[fold == k] = expit(logit + float(model.intercept_))
    return risk, converged


def _risk(features: Features, fitted: Tidied, model: LogisticRegression) -> NDArray:
    """Predict the risks of everybody."""
    ids = fitted.features.columns["covariate_id"].to_numpy()
    at = np.searchsorted(features.columns["covariate_id"].to_numpy(), ids)
    logit = features.select(at).matrix() @ (np.asarray(model.coef_) / fitted.scale)
    from scipy.special import expit

    return expit(np.asarray(logit).ravel() + float(model.intercept_))


def _covariates(
    features: Features, outcome: NDArray, fitted: Tidied, model: LogisticRegression
) -> pd.DataFrame:
    """Summarise the covariates of people with and without the outcome, with coefficients.

    A coefficient is that of the covariate divided by its largest value, as in R, and missing for
    covariates that the model does not consider.
    """
    x = features.matrix()
    squares = x.multiply(x)
    parts = {
        "": np.ones(len(outcome)),
        "with_no_outcome_": (outcome == 0).astype(float),
        "with_outcome_": (outcome == 1).astype(float),
    }
    table = features.columns[["covariate_id", "name", "concept_id", "binary"]].rename(
        columns={"name": "covariate_name"}
    )
    coefficients = pd.Series(
        np.asarray(model.coef_, float), index=fitted.features.columns["covariate_id"]
    )
    table["covariate_value"] = table["covariate_id"].map(coefficients)
    have = (x != 0).astype(float)
    for name, of in parts.items():
        n = of.sum()
        mean = np.asarray(x.T @ of).ravel() / n
        table[f"{name}covariate_count"] = np.asarray(have.T @ of).ravel().astype(int)
        table[f"{name}people"] = int(n)
        table[f"{name}covariate_mean"] = mean
        spread = np.asarray(squares.T @ of).ravel() / n - mean**2
        table[f"{name}covariate_st_dev"] = np.sqrt(np.maximum(spread, 0.0))
    return table.assign(standardized_mean_diff=standardized(table))


def standardized(table: pd.DataFrame) -> pd.Series:
    """Return the standardised differences of the means of people with and without the outcome."""
    spreads = [table[f"{name}covariate_st_dev"] for name in ("with_outcome_", "with_no_outcome_")]
    spread = ((spreads[0] ** 2 + spreads[1] ** 2) / 2) ** 0.5
    gap = table["with_outcome_covariate_mean"] - table["with_no_outcome_covariate_mean"]
    return gap / spread.where(spread > 0, math.nan)
