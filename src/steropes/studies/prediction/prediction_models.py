"""Prediction models: a lasso logistic regression of each design, and tables of its performance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.covariates.preprocessing import Tidied, tidy
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.covariates.feature_extraction import Features, extract_features
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.execution.resumable_steps import REFUSED
from steropes.studies.prediction.prediction_population import TEST as TESTED
from steropes.studies.prediction.prediction_population import divided, population
from steropes.studies.prediction.unsuppressed_prediction_performance import (
    CV,
    TEST,
    TRAIN,
    EvaluatedPredictions,
    covariate_summary,
    performance_tables,
)
from steropes.studies.strategus_plans.prediction_plan import (
    PREDICTION,
    PredictionDesign,
    PredictionPlan,
)

if TYPE_CHECKING:
    from steropes.models import LogisticRegression

__all__ = ["PredictionResult", "predicted", "predicted_designs"]


@dataclass(frozen=True, repr=False, eq=False)
class PredictionResult(EvaluatedPredictions):
    """The exact results of a design, which are not for release.

    Attributes
    ----------
    design : PredictionDesign
        The design.
    variance : float
        Variance of the prior.
    intercept : float
        The log odds without any covariate.
    converged : bool
        Whether the fit and those of the held-out folds ended at their optima.
    coefficients : Series
        The coefficients of the scaled covariates, by id.
    scales : Series
        The largest value in the training data of each covariate that the model considers, by id.
    """

    design: PredictionDesign
    variance: float
    intercept: float
    converged: bool
    coefficients: pd.Series
    scales: pd.Series

    @property
    def evaluated(self) -> PredictionDesign:
        """The design."""
        return self.design

    def shifted_by(self, evaluation: str) -> str:
        """Return the training data, to which the model of all evaluations is fitted."""
        return TRAIN

    def sums_to_outcomes(self, evaluation: str) -> bool:
        """Check whether the evaluation is that of the training data."""
        return evaluation == TRAIN

    def order_of(self, evaluation: str) -> str:
        """Return the evaluation, because no other has its risks."""
        return evaluation


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
    features = extract_features(
        db, people.entries[["person_id", "start"]], design.rules, cohorts=cohorts,
        of_cohorts=design.of_cohorts,
    )  # fmt: skip
    training = np.flatnonzero(group > 0)
    fitted = _tidied(features.take(training), design)
    outcome, fold = people.outcome[training], group[training]
    model = _fit(fitted, outcome, fold, design)
    variance = design.variance if design.variance is not None else float(model.variance_)
    risk = _risk(features, fitted, model)
    parts = {TRAIN: (training, risk[training])}
    free = _without_prior(fitted, design)
    held_out, held_out_converged = _held_out(fitted, outcome, fold, variance, free)
    parts[CV] = (training, held_out)
    if (group == TESTED).any():
        tested = np.flatnonzero(group == TESTED)
        parts[TEST] = (tested, risk[tested])
    coefficients = _coefficients(fitted, model)
    return PredictionResult(
        most_entries=int(people.entries["person_id"].value_counts().max()),
        attrition=people.attrition,
        **performance_tables(parts, people),
        covariates=(
            covariate_summary(features, people.outcome, coefficients)
            if design.summary
            else pd.DataFrame()
        ),
        design=design,
        variance=variance,
        intercept=float(model.intercept_),
        converged=bool(model.converged_) and held_out_converged,
        coefficients=coefficients,
        scales=pd.Series(fitted.scale, index=coefficients.index),
    )


def _tidied(features: Features, design: PredictionDesign) -> Tidied:
    """Filter and scale the covariates of the training data."""
    known = {*features.columns.loc[features.columns["people"] > 0, "covariate_id"]}
    only = [i for i in design.only if i in known]
    # An empty list would mean all covariates, so `tidy` refuses the full list if no one has any.
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


def _coefficients(fitted: Tidied, model: LogisticRegression) -> pd.Series:
    """Return the coefficients by covariate, each of the covariate divided by its largest value."""
    ids = fitted.features.columns["covariate_id"]
    return pd.Series(np.asarray(model.coef_, float), index=pd.Index(ids, name="covariate_id"))


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
