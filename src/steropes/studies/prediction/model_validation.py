"""Validation of prediction models: risks by known coefficients, recalibrated, and evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, logit

from steropes.designs.prediction_measures.prediction_calibration import recalibrated
from steropes.errors import DataError
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.covariates.feature_extraction import Features, extract_features
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.execution.resumable_steps import REFUSED
from steropes.studies.prediction.prediction_population import FEWEST_OUTCOMES, population
from steropes.studies.prediction.unsuppressed_prediction_performance import (
    EvaluatedPredictions,
    covariate_summary,
    performance_tables,
)
from steropes.studies.strategus_plans.prediction_model_files import PredictionModel
from steropes.studies.strategus_plans.validation_plan import (
    IN_THE_LARGE,
    VALIDATION,
    WEAK,
    ValidationDesign,
    ValidationPlan,
)

__all__ = ["ValidationResult", "evaluation_of", "validated", "validated_designs"]

AS_GIVEN = "Validation"  # R's name of the evaluation of the risks of the model itself.
BETWEEN = "|"  # Divides the number of the model from the name of its evaluation.
CLOSEST = 1e-15  # Risks are at least so far from 0 and 1 before their log odds are taken.


@dataclass(frozen=True, repr=False, eq=False)
class ValidationResult(EvaluatedPredictions):
    """The exact results of models in one population, which are not for release.

    Evaluations are named by the number of the model, from 1, and R's name; see `evaluation_of`.

    Attributes
    ----------
    design : ValidationDesign
        The population and the models.
    reversed : tuple of int
        Models whose risks are in the reverse order of the outcomes, so that they have no weak
        recalibration.
    """

    design: ValidationDesign
    reversed: tuple[int, ...]

    @property
    def evaluated(self) -> ValidationDesign:
        """The population and the models."""
        return self.design

    def shifted_by(self, evaluation: str) -> str | None:
        """Return the evaluation itself if its risks are recalibrated in this database."""
        return None if evaluation_of(evaluation)[1] == AS_GIVEN else evaluation

    def sums_to_outcomes(self, evaluation: str) -> bool:
        """Check whether the evaluation is a weak recalibration, a logistic regression."""
        return evaluation_of(evaluation)[1] == WEAK

    def order_of(self, evaluation: str) -> str:
        """Return the evaluation of the model without recalibration, which keeps the order."""
        return _named(evaluation_of(evaluation)[0], AS_GIVEN)


def evaluation_of(name: str) -> tuple[int, str]:
    """Return the number of the model, from 1, and R's name of an evaluation."""
    number, _, kind = name.partition(BETWEEN)
    return int(number), kind


def validated_designs(
    db: OmopDatabase,
    plan: ValidationPlan,
    cohorts: CohortTable,
    failed: dict[str, str],
    say: Callable[[str], None],
) -> list[ValidationResult]:
    """Apply the models of validations; the reason why one fails is added to ``failed``."""
    results = []
    for design in plan.designs:
        name = f"{VALIDATION}, validation {design.number}"
        say(name)
        try:
            results.append(validated(db, design, cohorts))
        except REFUSED as error:
            failed[name] = str(error)
    return results


def validated(db: OmopDatabase, design: ValidationDesign, cohorts: CohortTable) -> ValidationResult:
    """Apply the models of a validation to its population, and evaluate them.

    Returns
    -------
    ValidationResult
        Performance of the risks as the model gives them (``Validation``) and recalibrated:
        ``recalibrationInTheLarge`` adds the difference of the log odds of the observed and the mean
        predicted risk, and ``weakRecalibration`` regresses the outcome on the log odds.

    Raises
    ------
    DataError
        The outcome is too rare to evaluate the risks.
    """
    people = population(db, design, cohorts)
    cases = int(people.outcome.sum())
    if cases < FEWEST_OUTCOMES or cases == len(people.outcome):
        raise DataError(
            f"fewer than {FEWEST_OUTCOMES} people have the outcome, or everybody has it"
        )
    everybody = np.arange(len(people.outcome))
    entries = people.entries[["person_id", "start"]]
    parts, summaries, backwards = {}, [], []
    extracted: dict[str, Features] = {}
    for k, model in enumerate(design.models, 1):
        key = repr((model.rules, model.of_cohorts))
        if key not in extracted:
            extracted[key] = extract_features(
                db, entries, model.rules, cohorts=cohorts, of_cohorts=model.of_cohorts
            )
            if design.summary:
                summaries.append(covariate_summary(extracted[key], people.outcome))
        risk = _risk(extracted[key], model)
        parts[_named(k, AS_GIVEN)] = everybody, risk
        for kind in design.recalibrate:
            moved = _recalibrated(risk, people.outcome, kind)
            if moved is None:
                backwards.append(k)
            else:
                parts[_named(k, kind)] = everybody, moved
    return ValidationResult(
        most_entries=int(people.entries["person_id"].value_counts().max()),
        attrition=people.attrition,
        **performance_tables(parts, people),
        covariates=_joined(summaries),
        design=design,
        reversed=tuple(backwards),
    )


def _named(model: int, kind: str) -> str:
    """Name the evaluation of a model."""
    return f"{model}{BETWEEN}{kind}"


def _risk(features: Features, model: PredictionModel) -> NDArray:
    """Return the risks by the coefficients of a model; covariates that nobody has are zero.

    Raises
    ------
    DataError
        The risks are no numbers, or all are 0 or all 1 in the precision of the computer.
    """
    own = pd.Series(model.coefficients, index=pd.Index(model.covariate_ids), dtype=float)
    known = features.columns["covariate_id"].map(own).fillna(0.0).to_numpy(float)
    with np.errstate(over="ignore", invalid="ignore"):
        risk = expit(np.asarray(features.matrix() @ known).ravel() + model.intercept)
    if not 0 < risk.mean() < 1:  # Also if a risk is no number.
        raise DataError(
            f"the model {model.name} has coefficients that are too large: its risks are all 0, all "
            "1 or no numbers"
        )
    return risk


def _recalibrated(risk: NDArray, outcome: NDArray, kind: str) -> NDArray | None:
    """Return recalibrated risks; None if they would be in the reverse order."""
    odds = logit(np.clip(risk, CLOSEST, 1 - CLOSEST))
    if kind == IN_THE_LARGE:
        return expit(odds + logit(outcome.mean()) - logit(np.clip(risk.mean(), CLOSEST, 1)))
    _, (intercept, gradient) = recalibrated(risk, outcome)
    return expit(intercept + gradient * odds) if gradient > 0 else None


def _joined(summaries: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Join summaries of the same people; a covariate of several models has one row."""
    if not summaries:
        return pd.DataFrame()
    both = pd.concat(summaries).drop_duplicates("covariate_id")
    return both.sort_values("covariate_id", ignore_index=True)
