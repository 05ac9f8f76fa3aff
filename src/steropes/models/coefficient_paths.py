"""Coefficients along a row of variances of the prior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone

from ..data.vector_checks import check_vector
from ..errors import DataError
from .base import PenalizedModel

__all__ = ["coefficient_path"]


def coefficient_path(
    estimator: PenalizedModel, X: Any, y: Any, variances: ArrayLike, **fit_params: Any
) -> pd.DataFrame:
    """Fit a model at each of some variances of its prior.

    Parameters
    ----------
    estimator : estimator with a prior
        Its settings are used, but for the prior's variance and ``cv``; it is left as it is.
    X, y, **fit_params
        As of its ``fit``.
    variances : (m,) array
        Positive.

    Returns
    -------
    DataFrame
        A row a variance, ascending; a column a coefficient (not the intercept, nor a baseline's).

    Raises
    ------
    DataError
        A model without a prior, variances that are not positive.
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
    effects = names[len(names) - len(rows[0]) :]  # those of a baseline come before
    return pd.DataFrame(rows, pd.Index(values, name="variance"), effects)
