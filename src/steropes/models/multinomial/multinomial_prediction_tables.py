"""Predictions of multinomial models with standard errors, and tests of variables."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_is_fitted

from ...backends import host_backend
from ...data import check_level
from ...data.input_types import LabelsLike, VectorLike
from ...data.plottable_result_tables import ResultTable, present
from ...errors import DataError
from ...infer.inference_constants import BLOCKS
from ...infer.linear_algebra import square_root
from ...infer.multinomial_performance import class_probabilities, log_odds_of_class
from ..effects.prediction_tables import present_predictions
from ..fitting.coefficient_tables import critical_value
from ..fitting.default_standard_errors import name_errors
from ..fitting.setting_types import Kind, MatrixLike
from ..inference.hypothesis_tests import Test, linear_hypothesis
from ..inference.model_terms import columns_of_terms
from .multinomial_predictions import MultinomialPredictions

__all__ = [
    "prediction_table",
    "term_tests",
]

Scale = Literal["linear", "response", "ratio", "observation"]


def prediction_table(
    model: MultinomialPredictions,
    X: MatrixLike,
    scale: Scale = "linear",
    level: float = 0.95,
    *,
    reference: MatrixLike | None = None,
    offset: VectorLike | None = None,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> ResultTable:
    """Predict log odds, probabilities or odds ratios of the classes with standard errors.

    Parameters
    ----------
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, with the columns of the fit, or a table of data for its formula.
    scale : {"linear", "response", "ratio"}
        ``"linear"``: log odds of each class against the reference class (the first one, unless
        the model has another). ``"response"``: the probability of each class, with limits
        that are symmetric on the logit scale. ``"ratio"``: the exponential of ``"linear"``,
        with ``reference`` the odds ratio of two rows.
    level : float
        Confidence level of the limits.
    reference : as X with one row, optional
        Row from which log odds are counted. Not for ``"response"``.
    offset : (n, K) array or table, optional
        Known terms of the linear predictors, as in ``fit``. Default 0.
    kind : {"model", "robust"}, optional
        Covariance matrix of the coefficients; see `vcov`.
    cluster : (n_fit,) labels, optional
        As in `vcov`.

    Returns
    -------
    DataFrame
        Indexed by row and class; ``estimate``, ``se``, ``lower`` and ``upper``. The standard
        error is that of the estimate on its own scale, by the delta method.

    Raises
    ------
    DataError
        Under a Laplace prior, which has no standard errors, and for a scale that the model
        does not have.

    References
    ----------
    Agresti (2013), Categorical Data Analysis, §8.1 and §16.1 (delta method).

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.array([[0.0], [1.0], [0.0], [1.0], [0.0], [1.0], [1.0], [0.0]])
    >>> y = ["a", "a", "b", "c", "c", "b", "b", "a"]
    >>> model = steropes.MultinomialLogisticRegression().fit(X, y)
    >>> model.effects.predictions([[0.0]], "response").round(2).loc[(0, "a")].tolist()
    [0.5, 0.25, 0.12, 0.88]
    """
    check_level(level)
    _check_class_scale(model, scale, reference, offset)
    covariance = model.vcov(kind, cluster)
    V = covariance.to_numpy()
    eta = model._predictors(X, offset)
    n, K = eta.shape
    base = None if reference is None else model._predictors(reference)
    if base is not None and len(base) != 1:
        raise DataError(f"reference must be one row, not {len(base)}.")
    if scale == "response":
        shown = np.arange(K)
        p, others = class_probabilities(eta)
        # The derivatives of logit p_c in η_d: (1[c = d] − p_d) / (1 − p_c).
        along = -p[:, None, :] / others[:, :, None]
        along[:, shown, shown] = 1.0
        value = np.column_stack([log_odds_of_class(eta, c) for c in range(K)])
    else:
        against = model._reference()
        shown = np.delete(np.arange(K), against)
        contrast = np.zeros((K - 1, K))
        contrast[np.arange(K - 1), shown], contrast[:, against] = 1.0, -1.0
        along = np.broadcast_to(contrast, (n, K - 1, K))
        value = (eta if base is None else eta - base) @ contrast.T
    se = _errors_along(model, X, reference, along, V)
    q = critical_value(level, None)
    table = {"estimate": value, "lower": value - q * se, "upper": value + q * se}
    if scale == "ratio":
        with np.errstate(over="ignore"):
            table = {name: np.exp(x) for name, x in table.items()}
        se = table["estimate"] * se
    elif scale == "response":
        table = {name: 1.0 / (1.0 + np.exp(-x)) for name, x in table.items()}
        se = p * others * se
    rows: Any = X.index if isinstance(X, pd.DataFrame) else pd.RangeIndex(n)
    labels = pd.Index(model.classes_[shown], name="class")
    index = pd.MultiIndex.from_product([rows, labels], names=[rows.name or "row", "class"])
    columns = {"estimate": table["estimate"], "se": se, **table}
    found = pd.DataFrame({name: np.ravel(x) for name, x in columns.items()}, index)
    shown = present_predictions(found, str(scale), level, model._ratio)
    return name_errors(shown, covariance.attrs["errors"], model)


def _check_class_scale(
    model: MultinomialPredictions,
    scale: object,
    reference: MatrixLike | None,
    offset: VectorLike | None,
) -> None:
    """Refuse scales that the model does not have, and contradictory arguments."""
    if scale not in ("linear", "response", "ratio"):
        raise DataError(f"scale must be 'linear', 'response' or 'ratio', not {scale!r}.")
    if scale == "response" and reference is not None:
        raise DataError("reference goes with scale='linear' or 'ratio'.")
    if reference is not None and offset is not None:
        raise DataError("A difference from a reference has no offset; leave offset out.")


def _errors_along(
    model: MultinomialPredictions,
    X: MatrixLike,
    reference: MatrixLike | None,
    along: np.ndarray,
    V: np.ndarray,
) -> np.ndarray:
    """Compute the standard errors of combinations of the linear predictors of each row.

    With V = L L', the variance of Σ_d a_d η_d is the squared length of Σ_d a_d x' L_d, where
    L_d are the rows of L for the coefficients of class d. It is computed for a few columns of
    L at a time, so that X may be sparse.

    Parameters
    ----------
    along : (n, C, K) array
        The factors a of C combinations.
    V : (q, q) array
        Covariance matrix of the estimated coefficients.

    Returns
    -------
    (n, C) array
    """
    design = model._check_columns(X)
    other = None if reference is None else model._check_columns(reference)
    backend = host_backend(model.n_jobs)
    source, channel = model._parameters
    L = square_root(V)

    def times(of: Any, part: np.ndarray, d: int) -> np.ndarray:
        """Multiply rows of X, with an intercept, with the coefficients of class d."""
        m = part.shape[1]
        D, own = np.zeros((of.p, backend.lanes(m))), channel == d
        effects = own & (source >= 0)
        D[source[effects], :m] = part[effects] * of.scale[source[effects], None]
        product = backend.to_host(of.matmul(D, backend))[:, :m]
        return np.asarray(product + part[own & (source < 0)].sum(axis=0))

    total = np.zeros(along.shape[:2])
    for a in range(0, len(L), BLOCKS.columns):
        part = L[:, a : a + BLOCKS.columns]
        classes = []
        for d in range(len(model.classes_)):
            rows = times(design, part, d)
            classes.append(rows if other is None else rows - times(other, part, d))
        for c in range(along.shape[1]):
            combined = sum(along[:, c, d, None] * rows for d, rows in enumerate(classes))
            total[:, c] += (combined**2).sum(axis=1)
    return np.sqrt(total)


def term_tests(
    model: MultinomialPredictions,
    test: Test = "wald",
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> ResultTable:
    """Test each variable in all classes together, as R's ``car::Anova`` of ``multinom`` fits.

    Parameters
    ----------
    test : {"wald", "score", "likelihood ratio"}
        As in `Inference.linear_hypothesis`.
    kind : {"model", "robust"}, optional
        Covariance matrix of Wald tests; see `vcov`.
    cluster : (n,) labels, optional
        As in `vcov`.

    Returns
    -------
    DataFrame
        Indexed by ``term`` and ``part`` (``"all"``); columns ``chisq``, ``df`` and ``p``. A
        row for each variable of the formula, or each column without one, with all terms that
        contain it, and ``TOTAL``.

    Raises
    ------
    DataError
        As `Inference.linear_hypothesis`, for example for variables with a prior.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.array([[0.0], [1.0], [0.0], [1.0], [0.0], [1.0], [1.0], [0.0]])
    >>> y = ["a", "a", "b", "c", "c", "b", "b", "a"]
    >>> model = steropes.MultinomialLogisticRegression().fit(X, y)
    >>> model.inference.term_tests("likelihood ratio").loc["x0"].round(3).to_numpy().tolist()
    [[0.68, 2.0, 0.712]]
    """
    check_is_fitted(model)
    if not model._names:
        raise DataError("The model has no covariates to test.")
    source, first = model._effects[0], len(model._names_by_class) - len(model._effect_names)
    places: dict[str, list[np.ndarray]] = {}
    for _, variables, columns in columns_of_terms(model):
        for name in variables:
            places.setdefault(name, []).append(np.flatnonzero(np.isin(source, columns)))
    names = [*places, "TOTAL"]
    chosen = [*(np.unique(np.concatenate(x)) for x in places.values()), np.arange(len(source))]
    R = np.eye(len(model._names_by_class))[first:]
    rows = [linear_hypothesis(model, R[at], test=test, kind=kind, cluster=cluster)
            for at in chosen]  # fmt: skip
    index = pd.MultiIndex.from_tuples([(x, "all") for x in names], names=["term", "part"])
    shown = present(pd.DataFrame(rows, index), "hypothesis_tests")
    return name_errors(shown, rows[0].attrs["errors"], model)
