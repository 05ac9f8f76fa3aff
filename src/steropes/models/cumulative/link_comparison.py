"""Comparison of the link functions of a cumulative model by their log-likelihoods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import pandas as pd
from sklearn.base import clone

from ...data.input_types import VectorLike
from ...data.plottable_result_tables import ResultTable, present
from ...likelihoods.cumulative import Link
from ..fitting.setting_types import MatrixLike
from .cumulative_probability_model import CumulativeProbabilityModel

__all__ = ["compare_links"]


def compare_links(
    model: CumulativeProbabilityModel,
    X: MatrixLike,
    y: VectorLike | None = None,
    links: Sequence[Link] = get_args(Link),
    **fit: object,
) -> ResultTable:
    """Fit the same model with several links and compare their log-likelihoods.

    All models have the same number of parameters, so that the order is also that of AIC and BIC.

    Parameters
    ----------
    model : CumulativeProbabilityModel
        Its settings are used; it is not modified.
    X : array, sparse matrix, data frame or Design, (n, p)
        Covariates, or the table of data for the model's formula.
    y : (n,) array
        Outcome, as in the model's ``fit``.
    links : sequence of str
        Links to compare; default all.
    **fit
        Further arguments of ``fit``.

    Returns
    -------
    DataFrame
        Indexed by link, best first; columns ``log_likelihood``, ``difference`` (from the best),
        ``converged``.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> X = np.linspace(-1.0, 1.0, 40)[:, None]
    >>> y = X[:, 0] + np.sin(7.0 * np.arange(40))
    >>> model = steropes.CumulativeProbabilityModel()
    >>> steropes.compare_links(model, X, y, links=["logit", "probit"]).shape
    (2, 3)
    """
    rows = {}
    for link in links:
        m = clone(model).set_params(link=link).fit(X, y, **fit)
        rows[link] = {"log_likelihood": m.log_likelihood_, "converged": m.converged_}
    table = pd.DataFrame.from_dict(rows, orient="index").sort_values(
        "log_likelihood", ascending=False
    )
    table.insert(1, "difference", table["log_likelihood"] - table["log_likelihood"].iloc[0])
    table.index.name = "link"
    return present(
        table,
        "interval_curves",
        column="difference",
        x="link",
        label="Log-likelihood minus the best",
    )
