"""Comparison of selections of covariates by the systematic error of negative controls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from steropes.designs.comparative.balance_table import balance_table
from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.designs.comparative.group_means import compare_means
from steropes.designs.comparative.propensity_weights import PropensityWeights
from steropes.designs.controls.empirical_calibration import fit_systematic_error
from steropes.designs.covariates.covariates_by_column import Covariates
from steropes.designs.values.input_checks import require_arms
from steropes.designs.values.normal_quantile import Z
from steropes.errors import DataError
from steropes.models.estimators.logistic_regression import LogisticRegression
from steropes.priors import Laplace

__all__ = ["compare_selections"]

# Folds of the cross-validation that chooses the penalty of the default model.
FOLDS = 10


def compare_selections(
    selections: Mapping[str, Any],
    treatment: ArrayLike,
    controls: pd.DataFrame,
    *,
    estimand: str = "ate",
    model: Any = None,
    balance: Any = None,
) -> pd.DataFrame:
    """Compare selections of covariates by estimates of outcomes without an effect.

    Each selection gives propensity weights and, with them, a risk ratio of every negative control.
    The distribution of these log ratios around zero is the systematic error that the selection
    leaves.

    Parameters
    ----------
    selections : mapping of str to X, or to None
        Covariates of each selection: `Covariates`, data frame, sparse matrix, array or Design, of
        shape (n, p); None for no adjustment.
    treatment : array_like, shape (n,)
        1 for the target group and 0 for the comparator.
    controls : DataFrame, shape (n, m)
        A column of 0 and 1 for each negative control.
    estimand : str, default "ate"
        As of `PropensityWeights`.
    model : estimator, optional
        Unfitted model of the treatment. Default: logistic regression with a Laplace prior, whose
        variance is chosen by cross-validation.
    balance : X, optional
        Covariates whose balance is reported for each selection, such as all candidates.

    Returns
    -------
    DataFrame
        A row per selection: ``selection``, ``columns``, ``controls`` (with an estimate), ``mean``
        and ``sd`` of the systematic error, ``ease`` (expected absolute systematic error),
        ``covered`` (share of 95 % intervals that contain no effect), ``effective_sample_size``
        and, with ``balance``, ``largest_smd`` (absolute standardised difference).
        ``attrs["estimates"]`` has ``selection``, ``control``, ``log_rr`` and ``se``.

    Raises
    ------
    DataError
        Shapes disagree, a group is missing, or no control has an estimate.

    Notes
    -----
    Errors of the estimates take weights as known, which makes intervals wide. Choosing the
    selection with the smallest error and reporting its calibrated estimates uses the controls
    twice; set some aside for the second use.

    References
    ----------
    Schuemie and others (2014), Statistics in Medicine 33:209–218. Schuemie and others (2020),
    Harvard Data Science Review 2(1) (EASE).

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import steropes
    >>> from steropes.designs import compare_selections
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame(rng.binomial(1, 0.4, (4000, 2)), columns=["frail", "other"])
    >>> treatment = rng.binomial(1, 0.3 + 0.4 * X["frail"])
    >>> risk = np.where(X["frail"], 0.3, 0.1)[:, None]
    >>> controls = pd.DataFrame(rng.random((4000, 8)) < risk).astype(int)
    >>> found = compare_selections(
    ...     {"none": None, "other": X[["other"]], "both": X}, treatment, controls,
    ...     model=steropes.LogisticRegression(),
    ... )
    >>> (found["ease"] > 0.2).tolist()
    [True, True, False]
    """
    target = require_arms(treatment)
    if not isinstance(controls, pd.DataFrame) or len(controls) != len(target):
        raise DataError("controls must be a data frame with a row for each value of treatment.")
    if not selections or not controls.shape[1]:
        raise DataError("selections and controls need one entry or more.")
    if model is None:
        model = LogisticRegression(prior=Laplace(), cv=FOLDS, random_state=0)
    audited = None if balance is None else _matrix(balance)
    rows, estimates = [], []
    for name, given in selections.items():
        X = None if given is None else _matrix(given)
        weights = np.ones(len(target))
        if X is not None:
            step = PropensityWeights(estimand=estimand, model=model)
            weights = step.fit(X, target).weights_
        own = _estimates(controls, target, weights).assign(selection=name)
        row = {"selection": name, "columns": 0 if X is None else X.p, **_errors(own)}
        row["effective_sample_size"] = float(weights.sum() ** 2 / (weights**2).sum())
        if audited is not None:
            smd = balance_table(audited, target, weights=weights)["smd_after"]
            row["largest_smd"] = float(smd.abs().max())
        rows.append(row)
        estimates.append(own)
    table = pd.DataFrame(rows)
    table.attrs["estimates"] = pd.concat(estimates, ignore_index=True)[
        ["selection", "control", "log_rr", "se"]
    ]
    return table


def _matrix(X: Any) -> CovariateColumns:
    """Return the columns of covariates."""
    return CovariateColumns.of(X.design() if isinstance(X, Covariates) else X)


def _estimates(controls: pd.DataFrame, target: NDArray, weights: NDArray) -> pd.DataFrame:
    """Estimate the log risk ratio of each control; NaN where a group has no outcomes."""
    rows = []
    for name in controls.columns:
        table = compare_means(controls[name], target, weights, kind="HC0").set_index("measure")
        known = "ratio" in table.index
        ratio, se = table.loc["ratio", ["estimate", "se"]] if known else (np.nan, np.nan)
        rows.append({"control": name, "log_rr": np.log(ratio), "se": se})
    return pd.DataFrame(rows)


def _errors(estimates: pd.DataFrame) -> dict[str, float]:
    """Describe the systematic error of estimates of controls."""
    y, se = estimates["log_rr"].to_numpy(), estimates["se"].to_numpy()
    error = fit_systematic_error(y, se)
    usable = np.isfinite(y) & np.isfinite(se) & (se > 0)
    covered = np.abs(y[usable]) <= Z * se[usable]
    return {
        "controls": error.controls, "mean": error.mean, "sd": error.sd,
        "ease": error.expected_absolute, "covered": float(covered.mean()),
    }  # fmt: skip
