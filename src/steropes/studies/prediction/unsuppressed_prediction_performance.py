"""Performance of predicted risks in a population, by evaluation, before release."""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.prediction_measures.prediction_calibration import calibration_table
from steropes.designs.prediction_measures.prediction_performance import (
    demographic_table,
    distribution_table,
    statistics_of,
)
from steropes.designs.prediction_measures.prediction_thresholds import threshold_table
from steropes.studies.covariates.feature_extraction import Features
from steropes.studies.prediction.prediction_population import Population
from steropes.studies.strategus_plans.prediction_settings import SplitSettings

__all__ = [
    "CV",
    "TEST",
    "TRAIN",
    "EvaluatedDesign",
    "EvaluatedPredictions",
    "covariate_summary",
    "performance_tables",
    "standardized",
]

MOST_GROUPS = 1000  # Groups of similar risks; moved risks of larger groups sum to five digits.
CLOSEST = 1e-15  # Means of groups are at least so far from 0 and 1.
TRAIN, CV, TEST = "Train", "CV", "Test"  # The evaluations of a model that is fitted.


class EvaluatedDesign(Protocol):
    """The settings of predictions on which their release depends."""

    @property
    def target(self) -> int:
        """The cohort whose outcomes are predicted."""

    @property
    def outcome(self) -> int:
        """The cohort of outcomes."""

    @property
    def split(self) -> SplitSettings:
        """The division of the population into training and test."""


@dataclass(frozen=True, repr=False, eq=False)
class EvaluatedPredictions(abc.ABC):
    """Exact performance of predicted risks, which is not for release.

    Attributes
    ----------
    most_entries : int
        The largest number of entries of one person.
    attrition : DataFrame
        Entries that remain after each rule.
    statistics, thresholds, calibration, distribution, demographics : DataFrame
        Performance by ``evaluation``: statistics, classifications by thresholds, calibration,
        distribution of predicted risks, and observed and predicted risks by age and gender.
    log_odds : DataFrame
        Log odds of the predicted risks of ``people`` in groups of similar risks, by ``evaluation``.
    covariates : DataFrame
        Covariates of people with and without the outcome, with coefficients.
    """

    most_entries: int
    attrition: pd.DataFrame
    statistics: pd.DataFrame
    thresholds: pd.DataFrame
    calibration: pd.DataFrame
    distribution: pd.DataFrame
    demographics: pd.DataFrame
    log_odds: pd.DataFrame
    covariates: pd.DataFrame

    @property
    @abc.abstractmethod
    def evaluated(self) -> EvaluatedDesign:
        """The settings on which the release depends."""

    @abc.abstractmethod
    def shifted_by(self, evaluation: str) -> str | None:
        """Return the evaluation whose rounded number with the outcome moves these risks.

        Risks that were fitted to the outcomes of this database show how many people have it. They
        are released as those of a model with another intercept. None for risks of other models.
        """

    @abc.abstractmethod
    def sums_to_outcomes(self, evaluation: str) -> bool:
        """Check whether the risks sum to the number of people with the outcome."""

    @abc.abstractmethod
    def order_of(self, evaluation: str) -> str:
        """Return the first evaluation that has the same people in the same order of risks."""


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
            "log_odds": _log_odds(risk),
        }
        for kind, table in tables.items():
            table.insert(0, "evaluation", name)
            found.setdefault(kind, []).append(table)
    return {kind: pd.concat(of, ignore_index=True) for kind, of in found.items()}


def _log_odds(risk: NDArray) -> pd.DataFrame:
    """Return the log odds of groups of similar risks, from which any sum over people follows."""
    groups = np.array_split(np.sort(risk), min(MOST_GROUPS, len(risk)))
    mean = np.clip([of.mean() for of in groups], CLOSEST, 1 - CLOSEST)
    return pd.DataFrame(
        {"log_odds": np.log(mean) - np.log1p(-mean), "people": [len(of) for of in groups]}
    )


def covariate_summary(
    features: Features, outcome: NDArray, coefficients: pd.Series | None = None
) -> pd.DataFrame:
    """Summarise the covariates of people with and without the outcome, with coefficients.

    Parameters
    ----------
    features : Features
        The covariates of the population.
    outcome : ndarray of int, shape (n,)
        1 if the outcome occurs in the time at risk.
    coefficients : Series, optional
        Coefficients by covariate id; missing for covariates that the model does not consider.
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
    none = pd.Series(dtype=float)
    known = none if coefficients is None else coefficients
    table["covariate_value"] = table["covariate_id"].map(known).astype(float)
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
