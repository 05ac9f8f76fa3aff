"""`residuals` of the models that have them: reading the arguments, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ..errors import DataError
from ..infer.survival_residuals import deviance_of_martingale, martingale, row_scores, schoenfeld
from ..infer.unconditional_residuals import Family, of_response, outcome_and_predictor
from ..infer.unconditional_residuals import row_scores as unconditional_scores
from .one_thread import OneBlasThread
from .tables import positions

__all__ = [
    "GeneralizedResiduals",
    "ResidualKind",
    "SurvivalResidualKind",
    "survival_residuals",
]

SurvivalResidualKind = Literal[
    "martingale", "deviance", "score", "dfbeta", "schoenfeld", "scaled_schoenfeld"
]
ResidualKind = Literal["response", "pearson", "deviance", "score", "dfbeta"]
Params = str | int | Sequence[str | int] | None


def _check_kind(kind: str, kinds: tuple[str, ...], params: Params, by_column: bool) -> None:
    if kind not in kinds:
        raise DataError(f"kind must be one of {', '.join(map(repr, kinds))}, not {kind!r}.")
    if params is not None and not by_column:
        raise DataError(f"Residuals of kind {kind!r} have no columns; leave params out.")


def _finite_vcov(model: Any, kind: str) -> np.ndarray:
    if model._shrunken():
        raise DataError(
            f"{kind} residuals need the model's covariance matrix, which there is none of under "
            "a Laplace prior. Take 'score' residuals, or fit with prior=None or a Normal prior."
        )
    return model.vcov().to_numpy() / model._dispersion()


def survival_residuals(
    model: Any, problem: Any, kind: str, params: Params, kinds: tuple[str, ...]
) -> Any:
    """Residuals of a Cox or Fine–Gray model; see `SurvivalModel.residuals`."""
    by_column = kind not in ("martingale", "deviance")
    _check_kind(kind, kinds, params, by_column)
    beta = model._beta
    if not by_column:
        residual = martingale(problem, beta)
        if kind == "martingale":
            return residual
        event = model._events(problem)
        return np.where(np.isnan(residual), np.nan, deviance_of_martingale(residual, event))
    names = model._coefficient_names()
    chosen = np.array(positions(params, names), np.int64)
    labels = [names[j] for j in chosen]
    every = np.arange(len(names))
    if kind == "score":
        return pd.DataFrame(row_scores(problem, beta, chosen, weighted=False), columns=labels)
    if kind == "dfbeta":
        V = _finite_vcov(model, kind)[:, chosen]
        return pd.DataFrame(row_scores(problem, beta, every, weighted=True) @ V, columns=labels)
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


class GeneralizedResiduals(OneBlasThread):
    """`residuals` of linear, logistic and Poisson models."""

    _family: Family
    _needs_data: Any
    _coefficient_names: Any
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
            Of ``"score"`` and ``"dfbeta"``: whose columns; default those of all coefficients.

        Returns
        -------
        (n,) array, or DataFrame
            In the order of the rows; of ``"score"`` and ``"dfbeta"`` a DataFrame (n rows) with a
            column a coefficient. With offset and exposure as in the fit.

        Raises
        ------
        DataError
            ``"dfbeta"`` under a Laplace prior; a fit that was unpickled, without its data.

        References
        ----------
        McCullagh and Nelder (1989), Generalized Linear Models, §2.4 and §12.4.
        """
        check_is_fitted(self, "coef_")
        by_column = kind in ("score", "dfbeta")
        _check_kind(kind, get_args(ResidualKind), params, by_column)
        problem = self._needs_data("residuals")
        y, eta = outcome_and_predictor(problem, self._beta)
        if not by_column:
            return of_response(self._family, kind, y, eta)
        response = of_response(self._family, "response", y, eta)
        names = self._coefficient_names()
        chosen = np.array(positions(params, names), np.int64)
        labels = [names[j] for j in chosen]
        if kind == "score":
            return pd.DataFrame(unconditional_scores(problem, response, chosen), columns=labels)
        V = _finite_vcov(self, kind)[:, chosen]
        weighted = problem.weights * response
        every = np.arange(len(names))
        return pd.DataFrame(unconditional_scores(problem, weighted, every) @ V, columns=labels)
