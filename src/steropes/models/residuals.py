"""`residuals` of the models that have them: reading the arguments, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..errors import DataError
from ..infer.glm_residuals import Family, outcome_and_predictor, response_residuals
from ..infer.glm_residuals import row_scores as unconditional_scores
from ..infer.survival_residuals import (
    deviance_of_martingale,
    deviances_of_people,
    events_of_rows,
    influences,
    martingale,
    row_scores,
    schoenfeld,
)
from .coefficient_tables import coefficient_positions
from .fixed_coefficients import FixedCoefficients
from .single_threaded_methods import SingleThreadedMethods

__all__ = [
    "GeneralizedResiduals",
    "GroupedResiduals",
    "PooledResiduals",
    "ResidualKind",
    "SurvivalResidualKind",
    "survival_residuals",
]

SurvivalResidualKind = Literal[
    "martingale", "deviance", "score", "dfbeta", "schoenfeld", "scaled_schoenfeld"
]
GroupedResidualKind = Literal["martingale", "deviance", "score", "dfbeta"]
ResidualKind = Literal["response", "pearson", "deviance", "score", "dfbeta"]
NO_DFBETA = (
    "{} residuals need the model's covariance matrix, which there is none of under a Laplace "
    "prior. Take 'score' residuals, or fit with prior=None or a Normal prior."
)
Params = str | int | Sequence[str | int] | None


BY_ROW = ("martingale", "deviance", "response", "pearson")  # one number a row


def _has_columns(kind: str, kinds: tuple[str, ...], params: Params) -> bool:
    """Whether residuals of a kind have a column a coefficient; what there is none of is refused."""
    if not isinstance(kind, str) or kind not in kinds:
        raise DataError(f"kind must be one of {', '.join(map(repr, kinds))}, not {kind!r}.")
    by_column = kind not in BY_ROW
    if params is not None and not by_column:
        raise DataError(f"Residuals of kind {kind!r} have no columns; leave params out.")
    return by_column


def _by_row(model: Any, values: np.ndarray, labels: list[str]) -> pd.DataFrame:
    """A row a row of X, with the index that X's rows had."""
    return pd.DataFrame(values, index=model._row_labels, columns=labels)


def _finite_vcov(model: Any, kind: str) -> np.ndarray:
    if model._has_sparse_prior():
        raise DataError(NO_DFBETA.format(kind))
    return model.vcov().to_numpy() / model._residual_variance()


def survival_residuals(
    model: Any, problem: Any, kind: str, params: Params, kinds: tuple[str, ...]
) -> Any:
    """Residuals of a Cox or Fine–Gray model; see `SurvivalModel.residuals`."""
    by_column = _has_columns(kind, kinds, params)
    beta = model._beta
    if not by_column:
        residual = martingale(problem, beta)
        if kind == "martingale":
            return residual
        event = model._events(problem)
        return np.where(np.isnan(residual), np.nan, deviance_of_martingale(residual, event))
    names = model._coefficient_names()
    chosen = np.array(coefficient_positions(params, names, model._fixed), np.int64)
    labels = [names[j] for j in chosen]
    every = np.arange(len(names))
    if kind == "score":
        return _by_row(model, row_scores(problem, beta, chosen, weighted=False), labels)
    if kind == "dfbeta":
        V = _finite_vcov(model, kind)[:, chosen]
        return _by_row(model, row_scores(problem, beta, every, weighted=True) @ V, labels)
    scaled = kind == "scaled_schoenfeld"
    residual, time, code, _ = schoenfeld(problem, beta, every if scaled else chosen)
    if scaled:
        V = _finite_vcov(model, kind)[:, chosen]
        residual = len(residual) * residual @ V + np.asarray(model._coefficients())[chosen]
    index: pd.Index = pd.Index(time, name="time")
    if model._strata_labels is not None:
        stratum = pd.Index(np.fromiter(model._strata_labels, object)[code], name="stratum")
        index = pd.MultiIndex.from_arrays([stratum, index])
    return pd.DataFrame(residual, index, labels)


class GeneralizedResiduals(SingleThreadedMethods):
    """`residuals` of linear, logistic and Poisson models."""

    _family: Family
    _require_data: Any
    _coefficient_names: Any
    _fixed: FixedCoefficients | None
    _beta: np.ndarray

    def residuals(self, kind: ResidualKind = "deviance", params: Params = None) -> Any:
        """Residuals of the rows that the model was fitted to.

        Parameters
        ----------
        kind : {"deviance", "response", "pearson", "score", "dfbeta"}
            ``"response"``: y − μ. ``"pearson"``: (y − μ) / √V(μ). ``"deviance"``: the signed
            square root of the row's part of the deviance. ``"score"``: x (y − μ), the row's part
            of the likelihood's gradient. ``"dfbeta"``: about how much the coefficients would
            change without the row, w x (y − μ) times the inverse of X'WX (the infinitesimal
            jackknife). All but ``"dfbeta"`` are of one copy of a row, whatever its weight, also
            of rows whose weight is zero.
        params : name, position, sequence of them, or mask, optional
            Coefficients whose ``"score"`` or ``"dfbeta"`` residuals are wanted; default all.
            Positions are those of `confint`.

        Returns
        -------
        (n,) array, or DataFrame
            In the order of the rows; of ``"score"`` and ``"dfbeta"`` a DataFrame (n rows,
            X's index) with a column a coefficient. With offset and exposure as in the fit.

        Raises
        ------
        DataError
            ``"dfbeta"`` under a Laplace prior; a fit that was unpickled, without its data.

        References
        ----------
        McCullagh and Nelder (1989), Generalized Linear Models, §2.4 and §12.4.
        """
        check_is_fitted(self, "coef_")
        by_column = _has_columns(kind, get_args(ResidualKind), params)
        problem = self._require_data("residuals")
        y, eta = outcome_and_predictor(problem, self._beta)
        if not by_column:
            return response_residuals(self._family, kind, y, eta)
        response = response_residuals(self._family, "response", y, eta)
        names = self._coefficient_names()
        chosen = np.array(coefficient_positions(params, names, self._fixed), np.int64)
        labels = [names[j] for j in chosen]
        if kind == "score":
            return _by_row(self, unconditional_scores(problem, response, chosen), labels)
        V = _finite_vcov(self, kind)[:, chosen]
        weighted = problem.weights * response
        every = np.arange(len(names))
        return _by_row(self, unconditional_scores(problem, weighted, every) @ V, labels)


class GroupedResiduals(SingleThreadedMethods):
    """`residuals` of models whose rows come in strata, or in intervals of time."""

    _require_data: Any
    _coefficient_names: Any
    _fixed: FixedCoefficients | None
    _has_sparse_prior: Any
    _beta: np.ndarray

    def _deviance(self, problem: Any, residual: np.ndarray) -> np.ndarray:
        """Deviance residuals, (n,), given the martingale ones."""
        return deviance_of_martingale(residual, events_of_rows(problem))

    def residuals(self, kind: GroupedResidualKind = "martingale", params: Params = None) -> Any:
        """Residuals of the rows that the model was fitted to.

        Parameters
        ----------
        kind : {"martingale", "deviance", "score", "dfbeta"}
            ``"martingale"``: events minus expected events. A conditional model expects them given
            the total of the stratum (the person), so that they add up to zero in each; a pooled
            logistic one expects the sum of the probabilities of the intervals at risk.
            ``"deviance"``: the same, made symmetric about zero: its squares are the row's part of
            the deviance. ``"score"``: the row's part of the score; of a conditional model
            (x − x̄) times the martingale residual, x̄ being the mean that the model expects of the
            stratum's events, so that the sum over a stratum is its cases' x less what was expected
            (its Schoenfeld residual). ``"dfbeta"``: about how much the coefficients would change
            without the row, its score times the inverse information (the infinitesimal
            jackknife); rows of a stratum leave together: add theirs up. All but ``"dfbeta"`` are
            of one copy of a row, whatever its weight; rows whose weight is zero have NaN.
        params : name, position, sequence of them, or mask, optional
            Coefficients whose ``"score"`` or ``"dfbeta"`` residuals are wanted; default all.
            Positions are those of `confint`.

        Returns
        -------
        (n,) array, or DataFrame
            In the rows of X; of ``"score"`` and ``"dfbeta"`` a DataFrame with X's index and a
            column a coefficient.

        Raises
        ------
        DataError
            ``"dfbeta"`` under a Laplace prior; a fit that was unpickled, without its data.

        References
        ----------
        Therneau, Grambsch and Fleming (1990), Biometrika 77:147–160. McCullagh and Nelder (1989),
        Generalized Linear Models, §2.4.
        """
        problem = self._require_data("residuals")
        by_column = _has_columns(kind, get_args(GroupedResidualKind), params)
        if not by_column:
            residual = martingale(problem, self._beta)
            if kind == "martingale":
                return residual
            gone = np.isnan(residual)
            return np.where(gone, np.nan, self._deviance(problem, np.where(gone, 0.0, residual)))
        names = self._coefficient_names()
        chosen = np.array(coefficient_positions(params, names, self._fixed), np.int64)
        labels = [names[j] for j in chosen]
        if kind == "score":
            scores = row_scores(problem, self._beta, chosen, weighted=False)
            return _by_row(self, scores, labels)
        if self._has_sparse_prior():
            raise DataError(NO_DFBETA.format("dfbeta"))
        return _by_row(self, influences(problem, self._beta, chosen), labels)


class PooledResiduals(GroupedResiduals):
    """The same of pooled logistic models, whose rows are independent."""

    def _deviance(self, problem: Any, residual: np.ndarray) -> np.ndarray:
        return np.sign(residual) * np.sqrt(deviances_of_people(problem, self._beta))
