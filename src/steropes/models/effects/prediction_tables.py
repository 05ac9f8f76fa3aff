"""Predictions of new rows with standard errors: linear predictors, means, ratios and terms."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd

from ...backends import host_backend
from ...data import check_level
from ...data.formatted_tables_for_papers import Interval
from ...data.input_types import LabelsLike, VectorLike
from ...data.plottable_result_tables import ResultTable, present
from ...errors import DataError
from ...infer.inference_constants import BLOCKS
from ...infer.linear_algebra import square_root
from ...infer.response_distributions import NormalResponse
from ..fitting.coefficient_tables import critical_value
from ..fitting.default_standard_errors import name_errors, refuse_errors_not_asked_for
from ..fitting.fit_steps import Estimator
from ..fitting.setting_types import Kind, MatrixLike
from ..inference.model_terms import model_terms

__all__ = [
    "mean_response",
    "mean_response_slope",
    "predict_terms",
    "prediction_table",
]

Scale = Literal["linear", "response", "ratio", "observation"]
SCALES = ("linear", "response", "ratio", "observation")
# Step of the numerical derivative of a mean that has no canonical link.
STEP = 1e-5


def prediction_table(
    model: Estimator,
    X: MatrixLike,
    scale: Scale = "linear",
    level: float = 0.95,
    *,
    reference: MatrixLike | None = None,
    offset: VectorLike | None = None,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> ResultTable:
    """Predict linear predictors, means or ratios with standard errors and limits.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit, or a table of data for its formula.
    scale : {"linear", "response", "ratio", "observation"}
        ``"linear"``: the linear predictor η. ``"response"``: the mean of y (a probability or
        a rate) in generalised linear models. ``"ratio"``: exp η, the ratio (of hazards, odds
        or rates) to X = 0 or to ``reference``. ``"observation"``: in linear models a new
        observation, with the residual variance in its error; its limits are R's
        ``interval = "prediction"`` and hold for normal errors.
    level : float
        Confidence level of the limits, which are symmetric for η.
    reference : as X with one row, optional
        Row that X is compared with: η is then the difference from it, such as the log hazard
        ratio of two people, and the intercept cancels. Not for ``"response"``.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    kind : {"model", "robust"}, optional
        Covariance matrix of the coefficients; see `vcov`.
    cluster : (n_fit,) labels, optional
        As in `vcov`.

    Returns
    -------
    DataFrame
        A line for each row of X: ``estimate``, ``se``, ``lower`` and ``upper``. The standard
        error is that of the estimate on its own scale, by the delta method.

    Raises
    ------
    DataError
        Under a Laplace prior, which has no standard errors, and for a scale that the model
        does not have.

    See Also
    --------
    CoxRegression.curves.survival : Predict survival with limits.

    References
    ----------
    McCullagh and Nelder (1989), Generalized Linear Models, §4.4. Therneau and Grambsch (2000),
    §10.2 (Cox models).

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
    >>> model = steropes.LogisticRegression().fit(X, y)
    >>> model.effects.predictions([[0.0]], "response").round(2).to_numpy().tolist()
    [[0.33, 0.27, 0.04, 0.85]]
    >>> model.effects.predictions([[1.0]], "ratio", reference=[[0.0]])["estimate"].round(2).item()
    4.0
    """
    check_level(level)
    _check_scale(model, scale, reference, offset)
    covariance = model.vcov(kind, cluster)
    eta = model.linear_predictor(X, offset)
    if reference is not None:
        base = model.linear_predictor(reference)
        if len(base) != 1:
            raise DataError(f"reference must be one row, not {len(base)}.")
        eta = eta - base
    se = _predictor_errors(model, X, reference, covariance.to_numpy())
    if scale == "observation":
        se = np.sqrt(se**2 + model._residual_variance())
    q = critical_value(level, model._residual_df())
    table = {"estimate": eta, "se": se, "lower": eta - q * se, "upper": eta + q * se}
    if scale == "ratio":
        with np.errstate(over="ignore"):
            table = {name: np.exp(x) for name, x in table.items() if name != "se"}
        table["se"] = table["estimate"] * se
    elif scale == "response":
        slope = mean_response_slope(model, eta)
        table = {name: mean_response(model, x) for name, x in table.items() if name != "se"}
        table["se"] = slope * se
        ends = np.sort([table["lower"], table["upper"]], axis=0)
        table["lower"], table["upper"] = ends
    index = X.index if isinstance(X, pd.DataFrame) else None
    found = pd.DataFrame(table, index, columns=["estimate", "se", "lower", "upper"])
    shown = present_predictions(found, str(scale), level, model._ratio)
    return name_errors(shown, covariance.attrs["errors"], model)


def present_predictions(
    table: pd.DataFrame, scale: str, level: float, ratio: str | None
) -> ResultTable:
    """Make a table of predictions a result; ratios are drawn on a log scale."""
    caption = {
        "linear": "Linear predictor", "ratio": str(ratio).capitalize(),
        "response": "Predicted mean", "observation": "Predicted outcome",
    }[scale]  # fmt: skip
    shown = Interval(caption, level=level)
    if scale == "ratio":
        columns = ("estimate", "lower", "upper")
        return present(table, "ratio_forest", intervals=[shown], columns=columns, ratio=caption)
    return present(table, "forest", intervals=[shown])


def predict_terms(
    model: Estimator,
    X: MatrixLike,
    *,
    reference: MatrixLike | None = None,
    return_se: bool = False,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> Any:
    """Predict the part of each term in the linear predictor.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit, or a table of data for its formula.
    reference : as X with one row, optional
        Row from which terms are counted, for example the means. Default X = 0.
    return_se : bool
        Whether to return the standard errors too.
    kind : {"model", "robust"}, optional
        With ``return_se``: covariance matrix of the coefficients; see `vcov`.
    cluster : (n_fit,) labels, optional
        With ``return_se``: as in `vcov`.

    Returns
    -------
    DataFrame, (n, terms), or a pair of them with ``return_se``
        Terms are those of the formula, or the columns of X. They add up to the linear
        predictor without intercept and offset (less that of ``reference``). As R's
        ``predict(fit, type="terms", se.fit=TRUE)``, which counts from the means of the data.

    Raises
    ------
    DataError
        With ``return_se`` under a Laplace prior, and for ``kind`` or ``cluster`` without it.

    Examples
    --------
    >>> import pandas as pd, steropes
    >>> data = pd.DataFrame({"y": [1.0, 2.0, 4.0, 5.0], "dose": [0.0, 1.0, 2.0, 3.0]})
    >>> model = steropes.LinearRegression.from_formula("y ~ dose", data)
    >>> model.effects.terms(data, reference=data.iloc[[0]])["dose"].round(6).tolist()
    [0.0, 1.4, 2.8, 4.2]
    """
    refuse_errors_not_asked_for(return_se, kind, cluster)
    terms = model_terms(model)
    coef = np.asarray(model._coefficients())
    covariance = model.vcov(kind, cluster) if return_se else None
    V = None if covariance is None else covariance.to_numpy()
    from_row = None if reference is None else _columns_of_terms(model, reference)
    if from_row is not None and len(from_row) != 1:
        raise DataError(f"reference must be one row, not {len(from_row)}.")
    Z = _columns_of_terms(model, X)
    parts, errors = {}, {}
    for term in terms:
        z = Z[:, term.columns] if from_row is None else (Z - from_row)[:, term.columns]
        parts[term.name] = z @ coef[term.coefficients]
        if V is not None:
            part = V[np.ix_(term.coefficients, term.coefficients)]
            errors[term.name] = np.sqrt(np.maximum(((z @ part) * z).sum(axis=1), 0.0))
    index = X.index if isinstance(X, pd.DataFrame) else pd.RangeIndex(len(Z))
    table = present(pd.DataFrame(parts, index), "terms")
    if covariance is None:
        return table
    return table, name_errors(pd.DataFrame(errors, index), covariance.attrs["errors"], model)


def _check_scale(
    model: Estimator, scale: object, reference: MatrixLike | None, offset: VectorLike | None
) -> None:
    """Refuse scales that the model does not have, and contradictory arguments."""
    if not isinstance(scale, str) or scale not in SCALES:
        raise DataError(f"scale must be one of {', '.join(map(repr, SCALES))}, not {scale!r}.")
    if scale == "ratio" and model._ratio is None:
        raise DataError("The exponential of this model's predictor is no ratio; take 'linear'.")
    if scale == "response" and model._distribution is None:
        raise DataError(
            "scale='response' is the mean of a generalised linear model. Survival models have "
            "curves.survival() or curves.incidence(), cumulative models predict_mean()."
        )
    if scale == "response" and reference is not None:
        raise DataError("reference goes with scale='linear' or 'ratio'.")
    linear = isinstance(model._distribution, NormalResponse)
    if scale == "observation" and (not linear or reference is not None):
        raise DataError("scale='observation' is for rows of linear models, without reference.")
    if reference is not None and offset is not None:
        raise DataError("A difference from a reference has no offset; leave offset out.")


def mean_response(model: Estimator, eta: np.ndarray) -> np.ndarray:
    """Compute the mean of y at linear predictors."""
    return np.asarray(model._distribution.mean(eta))


def mean_response_slope(model: Estimator, eta: np.ndarray) -> np.ndarray:
    """Compute the size of the derivative of the mean in η."""
    if model._distribution.canonical_link:
        return np.asarray(model._distribution.variance(mean_response(model, eta)))
    return np.abs(mean_response(model, eta + STEP) - mean_response(model, eta - STEP)) / (
        2.0 * STEP
    )


def _predictor_errors(
    model: Estimator, X: MatrixLike, reference: MatrixLike | None, V: np.ndarray
) -> np.ndarray:
    """Compute the standard errors of η, or of its differences from a row, (n,).

    With V = L L', the variance of row x is the squared length of x' L, which is computed for
    a few columns of L at a time, so that X may be sparse.
    """
    design = model._check_new(X)
    other = None if reference is None else model._check_new(reference)
    first = int(model._has_intercept)
    if design.p + first != len(V):
        raise DataError(
            f"A row of this {type(model).__name__} has a linear predictor for each interval of "
            "time; see predict_survival()."
        )
    L = square_root(V)
    backend = host_backend(model.n_jobs)

    def times(of: Any, part: np.ndarray) -> np.ndarray:
        D = np.zeros((of.p, backend.lanes(part.shape[1])))
        D[:, : part.shape[1]] = part[first:] * of.scale[:, None]
        product = backend.to_host(of.matmul(D, backend))[:, : part.shape[1]]
        return product + of.center @ part[first:] + (part[0] if first else 0.0)

    total = np.zeros(design.n)
    for a in range(0, len(L), BLOCKS.columns):
        part = L[:, a : a + BLOCKS.columns]
        rows = times(design, part)
        if other is not None:
            rows = rows - times(other, part)
        total += (rows**2).sum(axis=1)
    return np.sqrt(total)


def _columns_of_terms(model: Estimator, X: MatrixLike) -> np.ndarray:
    """Return the columns with estimated coefficients as a dense array, (n, p)."""
    design = model._check_new(X)
    backend = host_backend(model.n_jobs)
    D = np.zeros((design.p, backend.lanes(design.p)))
    np.fill_diagonal(D, design.scale)
    return np.asarray(backend.to_host(design.matmul(D, backend))[:, : design.p] + design.center)
