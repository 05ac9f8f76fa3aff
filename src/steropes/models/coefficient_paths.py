"""Coefficients as a function of the prior's variance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone

from ..data.input_types import VectorLike
from ..data.vector_checks import check_vector
from ..errors import DataError
from .base import PenalizedModel
from .setting_types import MatrixLike

__all__ = ["coefficient_path"]


def coefficient_path(
    estimator: PenalizedModel, X: MatrixLike, y: VectorLike, variances: ArrayLike, **fit_params: Any
) -> pd.DataFrame:
    """Fit a model at several variances of its prior.

    Parameters
    ----------
    estimator : estimator with a prior
        Its settings are used, except for the prior's variance and ``cv``; it is not modified.
    X : array, sparse matrix, data frame, Design or ShardedDesign, (n, p)
        Covariates.
    y : (n,) array
        Outcome, as in the estimator's ``fit``.
    variances : (m,) array
        Positive numbers.
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
        If the model has no prior, or a variance is not positive.

    See Also
    --------
    steropes.plots.coefficient_paths : Draw the table.
    CrossValidation : Choose one of the variances.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = steropes.LogisticRegression(prior=steropes.Laplace())
    >>> path = steropes.coefficient_path(model, X, [0, 1, 0, 1], [0.1, 1.0])
    >>> path.shape
    (2, 1)
    """
    prior = getattr(estimator, "prior", None)
    if prior is None:
        raise DataError("A path is one of a prior's variances; the model has no prior.")
    values = np.unique(check_vector(np.atleast_1d(variances), None, "variances"))
    if len(values) == 0 or values[0] <= 0:
        raise DataError("variances must be positive, at least one.")
    rows = []
    model = clone(estimator).set_params(cv=None)
    for value in values:
        model.set_params(prior=prior.with_variance(float(value)))
        model.fit(X, y, **fit_params)
        rows.append(model._estimated)
    names = model._coefficient_names()
    effects = names[len(names) - len(rows[0]) :]  # the intercept or baseline comes first
    return pd.DataFrame(rows, pd.Index(values, name="variance"), effects)
