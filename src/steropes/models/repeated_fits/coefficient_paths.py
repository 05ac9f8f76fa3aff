"""Coefficients as a function of the prior's variance."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone

from ...data.input_types import VectorLike
from ...data.plottable_result_tables import ResultTable, present
from ...data.vector_checks import check_vector
from ...errors import DataError
from ...fit import Problem
from ...priors import Laplace, LimitedPrior
from ...select.first_variance_of_problem import beginning
from ..estimators.penalized_model import PenalizedModel
from ..fitting.setting_types import MatrixLike

__all__ = ["coefficient_path"]

# An automatic path ends where λ is this share of its first value, as in glmnet with p > n.
LAST_LAMBDA = 0.01


def coefficient_path(
    estimator: PenalizedModel,
    X: MatrixLike,
    y: VectorLike | None = None,
    variances: ArrayLike | None = None,
    *,
    n_variances: int = 50,
    relax: bool = False,
    **fit_params: object,
) -> ResultTable:
    """Fit a model at several variances of its prior.

    Parameters
    ----------
    estimator : estimator with a prior
        Its settings are used, except for the prior's variance and ``cv``; it is not modified.
    X : array, sparse matrix, data frame, Design or ShardedDesign, (n, p)
        Covariates, or the table of data for the estimator's formula.
    y : (n,) array
        Outcome, as in the estimator's ``fit``.
    variances : (m,) array, optional
        Positive numbers, one for the coefficients at a single λ. By default ``n_variances`` values
        from the one at which the first coefficient leaves zero, glmnet's largest λ (a ridge: at
        which coefficients are nearly zero), to the one with a λ of one hundredth; λ is
        proportional to variance^(−1/2).
    n_variances : int
        Length of a path without ``variances``, default 50.
    relax : bool
        Whether to fit the nonzero coefficients of each variance again without a prior but
        within its limits, default no.
    **fit_params
        Further arguments of ``fit``.

    Returns
    -------
    DataFrame
        A row for each variance in ascending order and a column for each coefficient, without
        intercept and baseline.

    Raises
    ------
    DataError
        If the model has no prior, it has no automatic path, or a variance is not positive.
    SeparationError
        With ``relax``, if the data do not determine the selected coefficients.

    See Also
    --------
    steropes.plots.coefficient_paths : Draw the table.
    CrossValidation : Choose one of the variances.
    variance_from_glmnet : Convert λ of glmnet to a variance.

    References
    ----------
    Friedman, Hastie and Tibshirani (2010), Journal of Statistical Software 33(1), §2.5 (path).
    Meinshausen (2007), Computational Statistics and Data Analysis 52:374–393 (relaxed lasso).

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = steropes.LogisticRegression(prior=steropes.Laplace())
    >>> path = steropes.coefficient_path(model, X, [0, 1, 0, 1], [0.1, 1.0])
    >>> path.shape
    (2, 1)
    >>> whole = steropes.coefficient_path(model, X, [0, 1, 0, 1], n_variances=5)
    >>> relaxed = steropes.coefficient_path(model, X, [0, 1, 0, 1], [0.1, 9.0], relax=True)
    >>> relaxed["x0"].round(2).tolist()
    [0.0, 0.91]
    """
    prior = getattr(estimator, "prior", None)
    if prior is None:
        raise DataError("A path is one of a prior's variances; the model has no prior.")
    model = clone(estimator).set_params(cv=None)
    if variances is None:
        values = _automatic_variances(model, X, y, n_variances, fit_params)
    else:
        values = np.unique(check_vector(np.atleast_1d(variances), None, "variances"))
    if len(values) == 0 or values[0] <= 0:
        raise DataError("variances must be positive, at least one.")
    rows = []
    for value in values:
        model.set_params(prior=prior.with_variance(float(value)))
        model.fit(X, y, **fit_params)
        rows.append(model._estimated)
    names = model._coefficient_names()
    effects = names[len(names) - len(rows[0]) :]  # the intercept or baseline comes first
    table = pd.DataFrame(rows, pd.Index(values, name="variance"), effects)
    path = present(table, "coefficient_paths")
    if not relax:
        return path
    limited = isinstance(prior, LimitedPrior) and prior.limited
    flat = Laplace(np.inf, lower=prior.lower, upper=prior.upper) if limited else None
    return _relaxed(path, model.set_params(prior=flat), X, y, fit_params)


def _automatic_variances(
    model: PenalizedModel,
    X: MatrixLike,
    y: VectorLike | None,
    number: int,
    fit_params: dict[str, object],
) -> np.ndarray:
    """Return variances from the smallest with a nonzero coefficient, evenly on a log scale."""
    if isinstance(number, bool) or not isinstance(number, Integral) or number < 2:
        raise DataError(f"n_variances must be a whole number of 2 or more, not {number!r}.")
    prior = model.prior
    assert prior is not None
    if prior.adaptive:
        raise DataError(f"A {type(prior).__name__} prior has no automatic path; list variances.")
    model.fit(X, y, **fit_params)
    problem = model._problem
    if not isinstance(problem, Problem):
        raise DataError(f"{type(model).__name__} has no automatic path here; list variances.")
    first, _ = beginning(problem, prior, problem.batch(), beyond=1.0)
    return np.geomspace(first, first / LAST_LAMBDA**2, number)


def _relaxed(
    path: ResultTable,
    model: PenalizedModel,
    X: MatrixLike,
    y: VectorLike | None,
    fit_params: dict[str, Any],
) -> ResultTable:
    """Replace the nonzero coefficients of each row by those of a fit without a prior."""
    known = dict(fit_params.pop("fixed", None) or {})
    fits: dict[bytes, np.ndarray] = {}
    out = path.copy()
    for variance, row in path.iterrows():
        chosen = row.to_numpy() != 0
        key = chosen.tobytes()
        if key not in fits and not chosen.any():
            fits[key] = np.zeros(len(row))
        if key not in fits:
            zero = dict.fromkeys(path.columns[~chosen], 0.0)
            model.fit(X, y, **fit_params, fixed=known | zero or None)
            fits[key] = np.zeros(len(row))
            fits[key][chosen] = model._estimated
        out.loc[variance] = fits[key]
    return out
