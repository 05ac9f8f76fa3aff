"""Propensity scores by a given model of the treatment, from this package or from the user."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.designs.values.input_checks import require_numbers
from steropes.errors import DataError, SeparationError, listed, separation_of
from steropes.models.cumulative.cumulative_probability_model import CumulativeProbabilityModel
from steropes.models.estimators.penalized_model import PenalizedModel

__all__ = ["fit_treatment_model", "given_scores", "refuse_model_beside_scores"]


def fit_treatment_model(
    model: Any,
    columns: CovariateColumns,
    treatment: NDArray,
    sample_weight: NDArray | None = None,
) -> tuple[Any, NDArray]:
    """Fit a copy of a model to the treatment.

    Parameters
    ----------
    model : estimator
        Unfitted, with ``predict_proba``. Models of other packages receive X as it is.
    columns : CovariateColumns
        Covariates.
    treatment : ndarray, shape (n,)
        Codes or labels of the groups.
    sample_weight : ndarray, shape (n,), optional
        Weights of people.

    Returns
    -------
    model : estimator
        The fitted copy.
    score : ndarray, shape (n, K)
        Probabilities of the groups.

    Raises
    ------
    DataError
        The model cannot be fitted to X, or has no probabilities.
    SeparationError
        A model of this package has no maximum.
    """
    kind, groups = type(model).__name__, len(np.unique(treatment))
    try:
        model = clone(model)
    except TypeError as error:
        raise DataError(
            f"model must be an unfitted estimator, such as LogisticRegression(), not {model!r}."
        ) from error
    data = columns.coded if isinstance(model, PenalizedModel) else columns.source
    weights = {} if sample_weight is None else {"sample_weight": sample_weight}
    if isinstance(model, CumulativeProbabilityModel):  # has probabilities of categories only
        treatment = pd.Categorical(treatment, ordered=True)
    try:
        model.fit(data, treatment, **weights)
        score = np.asarray(model.predict_proba(data), dtype=float)
    except SeparationError as error:
        raise SeparationError(
            f"The model of the treatment: {separation_of('the treatment', error)}", error.columns
        ) from None
    except DataError:
        raise
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(f"The model {kind} cannot be used: {_reason(columns, weights)}") from error
    expected = (columns.n, groups)
    if score.shape != expected:
        raise DataError(
            f"predict_proba of the model {kind} has the shape {score.shape}, not {expected}."
        )
    wrong = ~((score >= 0) & (score <= 1)).all(axis=1)
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(
            f"predict_proba of the model {kind} has no probabilities in row {row} (counted from 0)."
        )
    return model, score


def refuse_model_beside_scores(model: object, score: object) -> None:
    """Refuse a model of the treatment that would not be fitted."""
    if model is not None and score is not None:
        raise DataError("score replaces the model of the treatment; leave out score or model.")


def given_scores(score: ArrayLike, n: int, groups: int) -> NDArray:
    """Check scores from elsewhere, and return those of all groups, (n, K)."""
    shape = np.shape(score)
    given = require_numbers("score", score).reshape(shape)
    if groups == 2 and given.ndim == 1:
        given = np.column_stack([1.0 - given, given])
    if given.shape != (n, groups):
        raise DataError(
            f"score has shape {shape}; {groups} groups and {n} people need "
            f"{(n,) if groups == 2 else (n, groups)}."
        )
    wrong = ~((given >= 0) & (given <= 1)).all(axis=1) | ~np.isclose(given.sum(axis=1), 1.0)
    if wrong.any():
        row = int(wrong.argmax())
        raise DataError(f"score: row {row} (counted from 0) has no probabilities that add up to 1.")
    return given


def _reason(columns: CovariateColumns, weights: dict[str, Any]) -> str:
    """Return the attribute that models of other packages often lack, with the remedy."""
    if columns.factors:
        return (
            f"X has the columns of labels {listed(list(columns.factors))}. Put the model behind "
            "an encoder (make_pipeline(make_column_transformer(...), model) of scikit-learn), "
            "pass columns of 0 and 1, or take steropes.LogisticRegression()."
        )
    if weights:
        return (
            "it must have predict_proba, and fit(X, y, sample_weight=...) for weights of people; "
            "take steropes.LogisticRegression(), for example."
        )
    return (
        "it must have fit(X, y) and predict_proba(X); take steropes.LogisticRegression(), for "
        "example."
    )
