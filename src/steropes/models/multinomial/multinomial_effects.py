"""Average marginal effects of multinomial models, on the probabilities of the classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import softmax

from ...backends import host_backend
from ...data import check_level, check_weights
from ...data.input_types import LabelsLike, VectorLike
from ...data.plottable_result_tables import ResultTable
from ...errors import DataError
from ..effects.average_effects import (
    Matrix,
    changes_inside,
    chosen_variables,
    known_variable,
    table_of_effects,
    variable_changes,
)
from ..fitting.designs_of_new_rows import dense_matrix
from ..fitting.fitted_variables import fitted_variable
from ..fitting.setting_types import Kind, MatrixLike
from .multinomial_predictions import MultinomialPredictions

__all__ = [
    "average_effects",
]

# The name of an effect, its values in all classes (K,), and their derivatives (K, q).
ClassEffect = tuple[str, np.ndarray, np.ndarray]


def average_effects(
    model: MultinomialPredictions,
    X: MatrixLike,
    variables: str | Sequence[str] | None = None,
    level: float = 0.95,
    *,
    sample_weight: VectorLike | None = None,
    offset: VectorLike | None = None,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> ResultTable:
    """Compute average effects of variables on the probability of each class.

    The effect of a number is the derivative of each row's probabilities, that of a variable of
    zeros and ones the difference of the probabilities if all rows had 1 and 0, and that of
    labels the difference from the first label. Effects are averaged over the rows of X.

    Parameters
    ----------
    X : array, sparse matrix or data frame, (n, p)
        Covariates, with the columns of the fit, or a table of data for its formula. A formula
        changes all columns of a variable together, such as those of a spline.
    variables : str or list of str, optional
        Columns of X, or of the data of a formula; default all that the model uses.
    level : float
        Confidence level of the limits.
    sample_weight : (n,) array, optional
        Weights of the average. Default 1.
    offset : (n, K) array or table, optional
        Known terms of the linear predictors, as in ``fit``. Default 0.
    kind : {"model", "robust"}, optional
        Covariance matrix of the coefficients; see `vcov`.
    cluster : (n_fit,) labels, optional
        As in `vcov`.

    Returns
    -------
    DataFrame
        Indexed by variable and class; ``effect``, ``lower``, ``upper``, ``se``, ``z`` and
        ``p``. The effects of a variable add up to zero over the classes. Errors are those of
        the coefficients by the delta method; X is not regarded as a sample.

    Raises
    ------
    DataError
        Under a Laplace prior, which has no standard errors, and for a variable that X or the
        formula does not have.

    References
    ----------
    Greene (2018), Econometric Analysis, 8th ed., §18.2.3.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.array([[0.0], [1.0], [0.0], [1.0], [0.0], [1.0], [1.0], [0.0]])
    >>> y = ["a", "a", "b", "c", "c", "b", "b", "a"]
    >>> m = steropes.MultinomialLogisticRegression().fit(X, y)
    >>> m.effects.average(X)["effect"].round(2).tolist()
    [-0.25, 0.25, 0.0]
    """
    check_level(level)
    covariance = model.vcov(kind, cluster)
    V = covariance.to_numpy()
    there, all_names, names = chosen_variables(model, X, variables)
    weights = check_weights(sample_weight, there.shape[0])
    share = weights / weights.sum()
    if isinstance(there, pd.DataFrame):
        found = _effects_of_class_variables(model, there, names, share, offset)
    else:
        eta = model._predictors(X, offset)
        columns = [(name, all_names.index(name)) for name in names]
        found = _effects_of_class_columns(model, there, columns, eta, share)
    labels, effects, errors = [], [], []
    for label, effect, gradient in found:
        labels.append(label)
        effects.append(effect)
        variances = np.einsum("cq,qr,cr->c", gradient, V, gradient)
        errors.append(np.sqrt(np.maximum(variances, 0.0)))
    index = pd.MultiIndex.from_product([labels, model.classes_], names=["variable", "class"])
    effect, se = np.ravel(effects), np.ravel(errors)
    return table_of_effects(effect, se, index, level, covariance.attrs["errors"], model)


def _effects_of_class_variables(
    model: MultinomialPredictions,
    table: pd.DataFrame,
    names: list[str],
    share: np.ndarray,
    offset: VectorLike | None,
) -> Iterator[ClassEffect]:
    """Yield the effects of variables, which may determine several columns of X."""

    def change(name: str, high: object, low: object, share: np.ndarray) -> Any:
        """Compute the change of mean probabilities between two values, with its slope."""
        ends = []
        for values in (high, low):
            X = model._apply_formula(table.assign(**{name: values}))
            x = dense_matrix(model._check_columns(X), host_backend(model.n_jobs))
            ends.append(_mean_probabilities(model, model._predictors(X, offset), x, share))
        (first, slope), (second, base) = ends
        return first - second, slope - base

    for name in names:
        known = known_variable(model, name)
        for label, high, low, width in variable_changes(name, table[name], known):
            try:
                effect, gradient = change(name, high, low, share / width)
            except DataError:
                ends = changes_inside(table[name], high, low)
                if ends is None:
                    raise
                effect, gradient = change(name, ends[0], ends[1], share / ends[2])
            yield label, effect, gradient


def _effects_of_class_columns(
    model: MultinomialPredictions,
    X: Matrix,
    columns: list[tuple[str, int]],
    eta: np.ndarray,
    share: np.ndarray,
) -> Iterator[ClassEffect]:
    """Yield the effects of columns of X, which change each η_c by their coefficient."""
    for name, j in columns:
        x = X[:, j] if isinstance(X, np.ndarray) else X[:, [j]].toarray()[:, 0]
        known = fitted_variable(model, name, j, "matrix")
        for label, high, low, width in variable_changes(name, pd.Series(x), known):
            ends = []
            for values in (high, low):
                v = np.broadcast_to(np.asarray(values, np.float64), x.shape)
                moved = eta + np.outer(v - x, model.coef_[:, j])
                ends.append(_mean_probabilities(model, moved, X, share, j, v))
            (first, slope), (second, base) = ends
            yield label, (first - second) / width, (slope - base) / width


def _mean_probabilities(
    model: MultinomialPredictions,
    eta: np.ndarray,
    X: Any,
    share: np.ndarray,
    j: int = -1,
    v: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Sum the weighted probabilities of the classes, and their derivatives.

    Parameters
    ----------
    eta : (n, K) array
    X : (n, p) array or sparse array
    share : (n,) array
        Weights of the sum.
    j, v : int and (n,) array, optional
        A column of X, and its values instead of those in X.

    Returns
    -------
    (K,) array, (K, q) array
    """
    p = np.asarray(softmax(eta, axis=1))
    source, channel = model._parameters
    gradient = np.empty((p.shape[1], len(source)))
    for c in range(p.shape[1]):
        # ∂p_c / ∂η_d = p_c (1[c = d] − p_d)
        slope = -(share * p[:, c])[:, None] * p
        slope[:, c] += share * p[:, c]
        by_column = np.asarray(X.T @ slope)
        if v is not None:
            by_column[j] = v @ slope
        whole = np.vstack([by_column, slope.sum(axis=0)])  # −1 is the intercept
        gradient[c] = whole[source, channel]
    return share @ p, gradient
