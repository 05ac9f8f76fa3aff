"""Residuals of each family, ``model.checks.residuals``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args, overload

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ...data.plottable_result_tables import ResultTable, present
from ...errors import DataError
from ...fit import Problem
from ...infer.independent_row_scores import outcome_and_predictor, predictor_scores
from ...infer.independent_row_scores import row_scores as unconditional_scores
from ...infer.survival_residuals import (
    deviance_of_martingale,
    deviances_of_people,
    events_of_rows,
    influences,
    martingale,
    row_scores,
    schoenfeld,
)
from ...likelihoods.pooled_logistic_likelihood import PooledLogisticLikelihood
from ..fitting.coefficient_tables import coefficient_positions
from ..fitting.fit_steps import Estimator
from ..fitting.fitted_model import FittedModel

__all__ = [
    "ResidualKind",
    "SurvivalResidualKind",
    "generalized_residuals",
    "grouped_residuals",
    "survival_residuals",
]

SurvivalResidualKind = Literal[
    "martingale", "deviance", "score", "dfbeta", "dfbetas", "schoenfeld", "scaled_schoenfeld"
]
GroupedResidualKind = Literal["martingale", "deviance", "score", "dfbeta", "dfbetas"]
ResidualKind = Literal["response", "pearson", "deviance", "score", "dfbeta", "dfbetas"]
NO_DFBETA = (
    "{} residuals need the model's covariance matrix, which there is none of under a Laplace "
    "prior or with limits. Take 'score' residuals, or fit with prior=None or a Normal prior."
)
Params = str | int | Sequence[str | int] | None


# Kinds of residuals with one number per row; the others have a column for each coefficient.
BY_ROW = ("martingale", "deviance", "response", "pearson")


def has_columns(kind: str, kinds: tuple[str, ...], params: Params) -> bool:
    """Return whether residuals have a column per coefficient; refuse invalid arguments."""
    if not isinstance(kind, str) or kind not in kinds:
        raise DataError(f"kind must be one of {', '.join(map(repr, kinds))}, not {kind!r}.")
    by_column = kind not in BY_ROW
    if params is not None and not by_column:
        raise DataError(f"Residuals of kind {kind!r} have no columns; leave params out.")
    return by_column


def table_by_row(model: FittedModel, values: np.ndarray, labels: list[str]) -> ResultTable:
    """Return a table with the index of X's rows."""
    return present(pd.DataFrame(values, index=model._row_labels, columns=labels), "residuals")


def _finite_vcov(model: FittedModel, kind: str) -> np.ndarray:
    """Return the inverse information; refuse under a Laplace prior."""
    if model._has_sparse_prior():
        raise DataError(NO_DFBETA.format(kind))
    return model.vcov("model").to_numpy() / model._residual_variance()


def per_standard_error(
    model: FittedModel, change: np.ndarray, chosen: np.ndarray, kind: str
) -> np.ndarray:
    """Divide changes of coefficients by their standard errors if ``kind`` is "dfbetas"."""
    if kind == "dfbeta":
        return change
    return change / np.sqrt(np.diag(model.vcov("model").to_numpy())[chosen])


def coefficient_residuals(
    model: FittedModel, problem: Problem, kind: str, params: Params
) -> ResultTable:
    """Compute the residuals that have a column for each coefficient.

    Parameters
    ----------
    problem : Problem
        That of the fit.
    kind : {"score", "dfbeta", "dfbetas"}
    params : names or positions of coefficients, or None for all

    Raises
    ------
    DataError
        If changes of coefficients are asked for under a Laplace prior.
    """
    names = model._coefficient_names()
    chosen = np.array(coefficient_positions(params, names, model._fixed), np.int64)
    labels = [names[j] for j in chosen]
    if kind == "score":
        scores = row_scores(problem, model._beta, chosen, weighted=False)
        return table_by_row(model, scores, labels)
    if model._has_sparse_prior():
        raise DataError(NO_DFBETA.format(kind))
    change = influences(problem, model._beta, chosen)
    return table_by_row(model, per_standard_error(model, change, chosen, kind), labels)


def survival_residuals(
    model: FittedModel,
    problem: Problem,
    kind: str,
    params: Params,
    kinds: tuple[str, ...],
    events: Callable[[Problem], np.ndarray],
    strata: list | None,
) -> np.ndarray | pd.DataFrame:
    """Compute residuals of a proportional hazards model; see its method ``checks.residuals``."""
    by_column = has_columns(kind, kinds, params)
    beta = model._beta
    if not by_column:
        residual = martingale(problem, beta)
        if kind == "martingale":
            return residual
        event = events(problem)
        return np.where(np.isnan(residual), np.nan, deviance_of_martingale(residual, event))
    names = model._coefficient_names()
    chosen = np.array(coefficient_positions(params, names, model._fixed), np.int64)
    labels = [names[j] for j in chosen]
    every = np.arange(len(names))
    if kind == "score":
        return table_by_row(model, row_scores(problem, beta, chosen, weighted=False), labels)
    if kind in ("dfbeta", "dfbetas"):
        V = _finite_vcov(model, kind)[:, chosen]
        change = row_scores(problem, beta, every, weighted=True) @ V
        return table_by_row(model, per_standard_error(model, change, chosen, kind), labels)
    scaled = kind == "scaled_schoenfeld"
    residual, time, code, _ = schoenfeld(problem, beta, every if scaled else chosen)
    if scaled:
        V = _finite_vcov(model, kind)[:, chosen]
        residual = len(residual) * residual @ V + np.asarray(model._coefficients())[chosen]
    index: pd.Index = pd.Index(time, name="time")
    if strata is not None:
        stratum = pd.Index(np.fromiter(strata, object)[code], name="stratum")
        index = pd.MultiIndex.from_arrays([stratum, index])
    return present(pd.DataFrame(residual, index, labels), "residuals")


@overload
def generalized_residuals(
    model: Any,
    kind: Literal["response", "pearson", "deviance"] = "deviance",
    params: Params = None,
) -> np.ndarray: ...
@overload
def generalized_residuals(
    model: Any, kind: Literal["score", "dfbeta", "dfbetas"], params: Params = None
) -> pd.DataFrame: ...


def generalized_residuals(
    model: Estimator, kind: ResidualKind = "deviance", params: Params = None
) -> np.ndarray | pd.DataFrame:
    """Compute residuals of the rows of the fit.

    Parameters
    ----------
    kind : {"deviance", "response", "pearson", "score", "dfbeta", "dfbetas"}
        ``"response"``: y − μ. ``"pearson"``: (y − μ) / √V(μ). ``"deviance"``: the signed
        square root of the row's contribution to the deviance. ``"score"``: the row's
        contribution to the gradient of the log-likelihood, x (y − μ) with a canonical link.
        ``"dfbeta"``: the approximate change of the coefficients if the row were removed, its
        weighted score times the inverse information (the infinitesimal jackknife).
        ``"dfbetas"``: the same divided by the coefficients' standard errors. All but these
        two refer to one copy of a row regardless of its weight, and include rows with a
        weight of zero.
    params : name, position, sequence of them, or mask, optional
        Coefficients to include in the kinds with columns; default all. Positions are
        those of `confint`.

    Returns
    -------
    (n,) array, or DataFrame
        In the order of the rows, with offset and exposure as in the fit. The other
        kinds return a DataFrame with X's index and a column for each coefficient.

    Raises
    ------
    DataError
        For ``"dfbeta"`` and ``"dfbetas"`` under a Laplace prior, or if the model was
        unpickled without its data.

    References
    ----------
    McCullagh and Nelder (1989), Generalized Linear Models, §2.4 and §12.4.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [1.0], [1.0]], [0.0, 2.0, 3.0, 5.0]
    >>> steropes.LinearRegression().fit(X, y).checks.residuals("response").round(6).tolist()
    [-1.0, 1.0, -1.0, 1.0]
    """
    check_is_fitted(model)
    has_columns(kind, get_args(ResidualKind), params)  # refuses invalid arguments
    problem = model._require_data("residuals")
    y, eta = outcome_and_predictor(problem, model._beta)
    distribution = model._distribution
    if kind == "response":
        return distribution.response(y, eta)
    if kind == "pearson":
        return distribution.pearson(y, eta)
    if kind == "deviance":
        return distribution.deviance(y, eta)
    slope = predictor_scores(problem, distribution, y, eta)
    names = model._coefficient_names()
    chosen = np.array(coefficient_positions(params, names, model._fixed), np.int64)
    labels = [names[j] for j in chosen]
    if kind == "score":
        return table_by_row(model, unconditional_scores(problem, slope, chosen), labels)
    if not problem.likelihood.additive:  # an estimated dispersion changes too
        if model._has_sparse_prior():
            raise DataError(NO_DFBETA.format(kind))
        change = influences(problem, model._beta, chosen)
        return table_by_row(model, per_standard_error(model, change, chosen, kind), labels)
    V = _finite_vcov(model, kind)[:, chosen]
    weighted = problem.weights * slope
    every = np.arange(len(names))
    change = unconditional_scores(problem, weighted, every) @ V
    return table_by_row(model, per_standard_error(model, change, chosen, kind), labels)


def _grouped_deviance(model: Estimator, problem: Problem, residual: np.ndarray) -> np.ndarray:
    """Compute deviance residuals, (n,); in pooled models those of people."""
    if isinstance(problem.likelihood, PooledLogisticLikelihood):
        return np.sign(residual) * np.sqrt(deviances_of_people(problem, model._beta))
    return deviance_of_martingale(residual, events_of_rows(problem))


@overload
def grouped_residuals(
    model: Any, kind: Literal["martingale", "deviance"] = "martingale", params: Params = None
) -> np.ndarray: ...
@overload
def grouped_residuals(
    model: Any, kind: Literal["score", "dfbeta", "dfbetas"], params: Params = None
) -> pd.DataFrame: ...


def grouped_residuals(
    model: Estimator, kind: GroupedResidualKind = "martingale", params: Params = None
) -> np.ndarray | pd.DataFrame:
    """Compute residuals of the rows of the fit.

    Parameters
    ----------
    kind : {"martingale", "deviance", "score", "dfbeta", "dfbetas"}
        ``"martingale"``: events minus expected events. In a conditional model the
        expectation is given the total of the stratum (or person), so that residuals sum to
        zero within strata; in a pooled logistic model it is the sum of the probabilities over
        the intervals at risk. ``"deviance"``: martingale residuals transformed to be
        symmetric about zero; their squares are the rows' contributions to the deviance.
        ``"score"``: the row's contribution to the score, in a conditional model (x − x̄)
        times the martingale residual, where x̄ is the expected mean of x over the stratum's
        events; the sum over a stratum is its Schoenfeld residual. ``"dfbeta"``: the
        approximate change of the coefficients if the row were removed, its score times the
        inverse information (the infinitesimal jackknife); for the removal of a stratum add
        up its rows. ``"dfbetas"``: the same divided by the coefficients' standard errors. All
        but these two refer to one copy of a row regardless of its weight; rows with a weight
        of zero have NaN.
    params : name, position, sequence of them, or mask, optional
        Coefficients to include in the kinds with columns; default all. Positions are
        those of `confint`.

    Returns
    -------
    (n,) array, or DataFrame
        In the order of X's rows. The kinds with columns return a DataFrame with X's
        index and a column for each coefficient.

    Raises
    ------
    DataError
        For ``"dfbeta"`` and ``"dfbetas"`` under a Laplace prior, or if the model was
        unpickled without its data.

    References
    ----------
    Therneau, Grambsch and Fleming (1990), Biometrika 77:147–160. McCullagh and Nelder (1989),
    Generalized Linear Models, §2.4.

    Examples
    --------
    >>> import steropes
    >>> X = [[1.0], [0.0], [0.0], [1.0], [1.0], [0.0]]
    >>> model = steropes.ConditionalLogisticRegression()
    >>> model = model.fit(X, [1, 0, 1, 0, 1, 0], strata=["a", "a", "b", "b", "c", "c"])
    >>> model.checks.residuals("martingale").round(2).tolist()
    [0.33, -0.33, 0.67, -0.67, 0.33, -0.33]
    """
    problem = model._require_data("residuals")
    by_column = has_columns(kind, get_args(GroupedResidualKind), params)
    if not by_column:
        residual = martingale(problem, model._beta)
        if kind == "martingale":
            return residual
        gone = np.isnan(residual)
        return np.where(
            gone, np.nan, _grouped_deviance(model, problem, np.where(gone, 0.0, residual))
        )
    return coefficient_residuals(model, problem, kind, params)
