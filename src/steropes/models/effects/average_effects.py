"""Average marginal effects of generalised linear models, on the scale of the mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse, stats

from ...backends import host_backend
from ...data import check_level, check_weights
from ...data.formatted_tables_for_papers import Interval
from ...data.input_types import LabelsLike, VectorLike
from ...data.plottable_result_tables import ResultTable, present
from ...design_matrix import Design, has_names
from ...errors import DataError, listed
from ...fit.shards import ShardedDesign
from ..fitting.coefficient_tables import critical_value
from ..fitting.default_standard_errors import name_errors
from ..fitting.designs_of_new_rows import dense_matrix
from ..fitting.fit_steps import Estimator
from ..fitting.fitted_variables import FittedVariable, fitted_variable
from ..fitting.setting_types import Kind, MatrixLike
from ..formulas.formula_data_types import as_pandas_table
from ..formulas.formula_evaluation import missing_value_error
from .prediction_tables import mean_response, mean_response_slope

__all__ = [
    "Matrix",
    "average_effects",
    "changes_inside",
    "chosen_variables",
    "known_variable",
    "table_of_effects",
    "variable_changes",
]

Matrix: TypeAlias = np.ndarray | sparse.csc_array
# The name of an effect, its value, and its derivatives in the coefficients.
Effect: TypeAlias = tuple[str, float, np.ndarray]

# Step of a numerical derivative, in standard deviations of the variable.
STEP = 1e-4


def average_effects(
    model: Estimator,
    X: MatrixLike,
    variables: str | Sequence[str] | None = None,
    level: float = 0.95,
    *,
    sample_weight: VectorLike | None = None,
    offset: VectorLike | None = None,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> ResultTable:
    """Compute average effects of variables on the mean of y.

    The effect of a number is the derivative of each row's mean, that of a variable of zeros
    and ones the difference of the means if all rows had 1 and 0, and that of labels the
    difference from the first label. Labels, and whether a variable has zeros and ones only,
    are those of the fit. Effects are averaged over the rows of X.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit, or a table of data for its formula. A formula
        changes all columns of a variable together, such as those of a spline.
    variables : str or list of str, optional
        Columns of X, or of the data of a formula; default all that the model uses.
    level : float
        Confidence level of the limits.
    sample_weight, offset : (n,) arrays, optional
        Weights of the average and known terms of the linear predictor.
    kind : {"model", "robust"}, optional
        Covariance matrix of the coefficients; see `vcov`.
    cluster : (n_fit,) labels, optional
        As in `vcov`.

    Returns
    -------
    DataFrame
        ``effect``, ``lower``, ``upper``, ``se``, ``z`` and ``p``. Errors are those of the
        coefficients by the delta method; X is not regarded as a sample.

    Raises
    ------
    DataError
        Under a Laplace prior, which has no standard errors, and for a variable that X or the
        formula does not have.

    References
    ----------
    Williams (2012), Stata Journal 12:308–331. Greene (2018), Econometric Analysis, 8th ed.,
    §17.2.4.

    Examples
    --------
    >>> import steropes
    >>> X, y = [[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]], [0, 0, 1, 0, 1, 1]
    >>> steropes.LogisticRegression().fit(X, y).effects.average(X)["effect"].round(3).item()
    0.333
    """
    check_level(level)
    covariance = model.vcov(kind, cluster)
    V = covariance.to_numpy()
    there, all_names, names = chosen_variables(model, X, variables)
    weights = check_weights(sample_weight, there.shape[0])
    known: Any = model._formula_vector("offset", X, offset)
    rows = {}
    if isinstance(there, pd.DataFrame):
        found = _effects_of_variables(model, there, names, weights, known)
    else:
        eta = model.linear_predictor(X, known)
        columns = [(name, all_names.index(name)) for name in names]
        found = _effects_of_columns(model, there, columns, eta, weights)
    for label, mean, gradient in found:
        rows[label] = mean, np.sqrt(gradient @ V @ gradient)
    effect, se = np.array(list(rows.values())).reshape(-1, 2).T
    return table_of_effects(effect, se, list(rows), level, covariance.attrs["errors"], model)


def table_of_effects(
    effect: np.ndarray,
    se: np.ndarray,
    index: pd.Index | list[str],
    level: float,
    errors: str,
    model: Any,
) -> ResultTable:
    """Tabulate average effects with normal limits and p values."""
    q = critical_value(level, None)
    table = {"effect": effect, "lower": effect - q * se, "upper": effect + q * se, "se": se}
    out = pd.DataFrame(table, index=index)
    with np.errstate(divide="ignore", invalid="ignore"):
        out["z"] = effect / se
    out["p"] = 2 * stats.norm.sf(np.abs(out["z"]))
    shown = present(out, "forest", intervals=[Interval("Average effect", "effect", level=level)])
    return name_errors(shown, errors, model)


def chosen_variables(
    model: Estimator, X: MatrixLike, variables: str | Sequence[str] | None
) -> tuple[pd.DataFrame | Matrix, list[str], list[str]]:
    """Return X as a table or matrix, the names of its variables, and those asked for."""
    there: pd.DataFrame | Matrix
    if model._is_formula_table(X) or model._is_labelled_table(X):
        there = _variables_of(model, X)
        all_names = list(there.columns)
    else:
        all_names, there = _matrix_of(model, X)
    if variables is None:
        return there, all_names, all_names
    names = [variables] if isinstance(variables, str) else list(variables)
    if not names:
        raise DataError("variables is empty; leave it out for all.")
    unknown = [name for name in names if name not in all_names]
    if unknown:
        raise DataError(f"There is no variable {listed(unknown)}; there are {listed(all_names)}.")
    return there, all_names, names


def _variables_of(model: Estimator, X: MatrixLike) -> pd.DataFrame:
    """Return the variables as a table: the data of the formula, or the columns of X."""
    if model._is_formula_table(X):
        table = as_pandas_table(X)
        used = set(map(str, model._formula.spec.variables_by_source.get("data", ())))
        return table[[name for name in table.columns if name in used]]
    model._check_columns(X)
    return as_pandas_table(X)


def _matrix_of(model: Estimator, X: MatrixLike) -> tuple[list[str], Matrix]:
    """Return the names and the values of the columns; a sparse X stays sparse."""
    if isinstance(X, Design | ShardedDesign):
        raise DataError("average_effects changes columns; give X as a table or a matrix.")
    names = list(model._check_columns(X).names)
    if isinstance(X, pd.DataFrame) and len(names) and X.dtypes.map(_is_sparse).all():
        return names, sparse.csc_array(X.sparse.to_coo(), dtype=np.float64)
    if sparse.issparse(X):
        return names, sparse.csc_array(X, dtype=np.float64)
    values = as_pandas_table(X).to_numpy() if has_names(X) else X
    return names, np.asarray(values, np.float64)


def _effects_of_variables(
    model: Estimator,
    table: pd.DataFrame,
    names: list[str],
    weights: np.ndarray,
    offset: VectorLike | None,
) -> Iterator[Effect]:
    """Yield the effects of variables, which may determine several columns of X."""
    for name in names:
        known = known_variable(model, name)
        for label, high, low, width in variable_changes(name, table[name], known):
            try:
                first, slope = _mean_and_gradient(model, table, name, high, weights, offset)
                second, base = _mean_and_gradient(model, table, name, low, weights, offset)
            except DataError:
                ends = changes_inside(table[name], high, low)
                if ends is None:
                    raise
                own = weights / ends[2]
                width = float(weights.sum() / own.sum())
                first, slope = _mean_and_gradient(model, table, name, ends[0], own, offset)
                second, base = _mean_and_gradient(model, table, name, ends[1], own, offset)
            yield label, (first - second) / width, (slope - base) / width


def known_variable(model: Estimator, name: str) -> FittedVariable | None:
    """Return the values that a variable of a table had in the fit."""
    source = "labels" if getattr(model, "_formula", None) is None else "formula"
    return fitted_variable(model, name, -1, source)


def _effects_of_columns(
    model: Estimator,
    X: Matrix,
    columns: list[tuple[str, int]],
    eta: np.ndarray,
    weights: np.ndarray,
) -> Iterator[Effect]:
    """Yield the effects of columns of X, which change η by their coefficient."""
    share = weights / weights.sum()
    kept = slice(None) if model._fixed is None else model._fixed.kept
    for name, j in columns:
        x = X[:, j] if isinstance(X, np.ndarray) else X[:, [j]].toarray()[:, 0]
        known = fitted_variable(model, name, j, "matrix")
        for label, high, low, width in variable_changes(name, pd.Series(x), known):
            ends = [eta + model.coef_[j] * (np.asarray(v, float) - x) for v in (high, low)]
            mean = share @ (mean_response(model, ends[0]) - mean_response(model, ends[1]))
            slope, base = (share * mean_response_slope(model, end) for end in ends)
            gradient = np.asarray((slope - base) @ X)
            gradient[j] = np.sum(slope * high) - np.sum(base * low)
            gradient = gradient[kept]
            if model._has_intercept:
                gradient = np.append(slope.sum() - base.sum(), gradient)
            yield label, float(mean) / width, gradient / width


def _mean_and_gradient(
    model: Estimator,
    table: pd.DataFrame,
    name: str,
    values: object,
    weights: np.ndarray,
    offset: VectorLike | None,
) -> tuple[float, np.ndarray]:
    """Average the means with other values of a variable, and their derivatives in β."""
    changed = table.assign(**{name: values})
    X = model._apply_formula(changed)
    eta = model.linear_predictor(X, offset)
    x = dense_matrix(model._check_new(X), host_backend(model.n_jobs))
    slope = weights * mean_response_slope(model, eta) / weights.sum()
    gradient = slope @ x
    if model._has_intercept:
        gradient = np.append(slope.sum(), gradient)
    return float(np.average(mean_response(model, eta), weights=weights)), gradient


def variable_changes(
    name: str, column: pd.Series, known: FittedVariable | None
) -> Iterator[tuple[str, object, object, float]]:
    """Yield the name of each effect of a variable, both values to compare, and their distance.

    Labels, their reference and the kind of a variable are those of the fit, if these are known.
    """
    if column.isna().any():
        raise missing_value_error(name, pd.DataFrame({name: column}))
    if known is not None and known.labels:
        known.refuse_unseen(name, column)
        reference, *others = known.values
        for label in others:
            yield (
                f"{name}[{label}]",
                known.constant(label, column),
                known.constant(reference, column),
                1.0,
            )
    elif known.binary if known is not None else column.isin((0, 1)).all():
        kind = column.dtype.type
        yield name, kind(1), kind(0), 1.0
    else:
        step = _step(column.to_numpy(np.float64, na_value=np.nan))
        yield name, column + step, column - step, 2.0 * step


def changes_inside(
    column: pd.Series, high: object, low: object
) -> tuple[pd.Series, pd.Series, np.ndarray] | None:
    """Move changed numbers into the range of a column, which splines may refuse to leave.

    Returns
    -------
    high, low : Series
        The values to compare, at the ends of the range on one side only.
    width : (n,) array
        Their distances.
    None
        If there is no such change, as of labels and of a constant.
    """
    if not (isinstance(high, pd.Series) and isinstance(low, pd.Series)):
        return None
    if not pd.api.types.is_numeric_dtype(column):
        return None
    inner, outer = low.clip(lower=column.min()), high.clip(upper=column.max())
    width = np.asarray(outer - inner, np.float64)
    return (outer, inner, width) if (width > 0).all() else None


def _step(x: np.ndarray) -> float:
    """Choose the step of a numerical derivative: a power of two, which adds to x without rounding.

    A single value has no standard deviation; the step is then relative to its size.
    """
    spread = float(np.std(x)) or max(float(np.abs(x).max()), 1.0)
    return float(2.0 ** np.ceil(np.log2(max(STEP * spread, 4.0 * np.spacing(np.abs(x).max())))))


def _is_sparse(dtype: object) -> bool:
    """Return whether a column of pandas is stored as sparse values."""
    return isinstance(dtype, pd.SparseDtype)
