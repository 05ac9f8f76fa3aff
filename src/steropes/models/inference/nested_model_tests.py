"""Comparison of nested fits to the same data by likelihood-ratio tests."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats
from sklearn.utils.validation import check_is_fitted

from ...backends import host_backend
from ...data.plottable_result_tables import ResultTable, present
from ...errors import DataError
from ...infer.linear_algebra import columns_outside
from ..fitting.default_standard_errors import name_errors
from ..fitting.fit_steps import Estimator

__all__ = ["compare_nested_fits"]

# Log-likelihoods that differ by less than this, relative to their size, are equal.
EQUAL = 1e-7


def compare_nested_fits(*models: Estimator) -> ResultTable:
    """Compare nested maximum-likelihood fits to the same data by likelihood-ratio tests.

    Parameters
    ----------
    *models : fitted estimators
        Two or more fits of one family without prior, from the smallest to the largest. The
        columns of each must be linear combinations of those of the next.

    Returns
    -------
    DataFrame
        A line for each model, as R's ``anova(m1, m2, test="LRT")``: ``log_likelihood``,
        ``parameters``, and from the second on ``chisq``, ``df`` and ``p`` of the test against
        the line before. Models with a formula are labelled by it, others by their position.
        The likelihood takes weights as numbers of rows: if they are not whole, the tests are not
        valid, as ``attrs["note"]`` and the printed table state.

    Raises
    ------
    DataError
        If models are of different families or data, have a prior or are not nested.

    See Also
    --------
    PenalizedModel.inference.term_tests : Test the terms of one fit.

    References
    ----------
    Cox and Hinkley (1974), Theoretical Statistics, §9.3.

    Examples
    --------
    >>> import numpy as np, steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((100, 3))
    >>> y = (rng.random(100) < 1 / (1 + np.exp(-X[:, 0]))) * 1
    >>> small = steropes.LogisticRegression().fit(X[:, :1], y)
    >>> large = steropes.LogisticRegression().fit(X, y)
    >>> steropes.compare_nested_fits(small, large)[["parameters", "df"]].to_numpy().tolist()
    [[2.0, nan], [4.0, 2.0]]
    """
    if len(models) < 2:
        raise DataError("A comparison needs two fitted models.")
    for model in models:
        check_is_fitted(model)
    first: Any = models[0]
    for i, other in enumerate(models):
        _refuse_incomparable(first, other, i)
    for i, (small, large) in enumerate(pairwise(models), 1):
        _refuse_unless_nested(small, large, i)
    lines = []
    for model in models:
        of_all: Any = model
        lines.append((of_all.log_likelihood_, of_all._degrees_of_freedom()))
    table = pd.DataFrame(lines, _labels(models), ["log_likelihood", "parameters"])
    chisq, df, p = np.full((3, len(models)), np.nan)
    for i, ((low, few), (high, many)) in enumerate(pairwise(lines), 1):
        rounding = EQUAL * max(1.0, abs(high))
        if many <= few or high < low - rounding:
            raise DataError(
                f"Model {i} is not nested in model {i + 1}: the larger one needs more parameters "
                "and at least the log-likelihood of the smaller one. Give the smallest first."
            )
        chisq[i], df[i] = max(2.0 * (high - low), 0.0), many - few
        p[i] = stats.chi2.sf(chisq[i], df[i])
    shown = present(table.assign(chisq=chisq, df=df, p=p), "hypothesis_tests")
    return name_errors(shown, "model", first)


def _refuse_incomparable(first: Any, other: Any, i: int) -> None:
    """Refuse a fit of another family, with a prior, or to other data."""
    if type(other) is not type(first):
        raise DataError(
            f"Model {i + 1} is a {type(other).__name__} and the first a {type(first).__name__}: "
            "likelihoods of different families cannot be compared by this test."
        )
    if other.prior_ is not None:
        raise DataError(
            f"Model {i + 1} has a prior; the likelihood-ratio test is one of maximum likelihood "
            "fits (prior=None)."
        )
    a, b = first._require_replicable("a comparison"), other._require_replicable("a comparison")
    same = len(a.weights) == len(b.weights) and np.array_equal(a.weights, b.weights)
    # The null model depends on outcome, weights, offset and strata, but not on X.
    null = same and np.isclose(
        first.null_log_likelihood_, other.null_log_likelihood_, rtol=EQUAL, atol=EQUAL
    )
    if not null:
        raise DataError(
            f"Model {i + 1} was not fitted to the data of the first: rows, outcome, weights, "
            "strata or offset differ."
        )


def _refuse_unless_nested(small: Any, large: Any, i: int) -> None:
    """Refuse a model with a column that is no linear combination of those of the larger one."""
    a, b = (model._require_replicable("a comparison") for model in (small, large))
    apart = columns_outside(a, b, host_backend(large.n_jobs))
    if apart.any():
        names = ["the intercept"] * (len(apart) - len(small._names)) + list(small._names)
        name = names[int(apart.argmax())]
        raise DataError(
            f"Model {i} is not nested in model {i + 1}: {name!r} is not a linear combination of "
            "the columns of the larger one, so that their likelihood ratio has no chi-squared "
            "distribution. Compare such models by AIC, or by the model with all columns."
        )


def _labels(models: tuple[Estimator, ...]) -> pd.Index:
    """Return the formulas of models if all are different, otherwise their positions."""
    texts = [getattr(model, "formula_", None) for model in models]
    if None in texts or len(set(texts)) < len(texts):
        return pd.RangeIndex(len(models), name="model")
    return pd.Index(texts, name="model")
