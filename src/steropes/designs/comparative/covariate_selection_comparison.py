"""Comparison of selections of covariates by the systematic error of negative controls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from steropes.data import refuse_other_order
from steropes.data.input_types import TableLike
from steropes.designs.comparative.balance_table import balance_table
from steropes.designs.comparative.covariate_columns import CovariateColumns
from steropes.designs.comparative.group_means import compare_means
from steropes.designs.comparative.propensity_weights import PropensityWeights
from steropes.designs.controls.empirical_calibration import fit_systematic_error
from steropes.designs.propensity.weights_by_estimand import propensity_weights
from steropes.designs.values.estimands import check_estimand
from steropes.designs.values.input_checks import require_arms, require_flags, require_numbers
from steropes.designs.values.normal_quantile import Z
from steropes.designs.values.table_reading import read_columns
from steropes.errors import DataError
from steropes.models.estimators.logistic_regression import LogisticRegression
from steropes.priors import Laplace
from steropes.select.crossvalidation import FOLDS

__all__ = ["compare_selections"]


class _Estimates(pd.DataFrame):
    """A table in ``attrs`` of another one.

    pandas compares ``attrs`` by ``==`` where it puts tables together, which it also does to print
    them, and needs one answer.
    """

    def __eq__(self, other: object) -> Any:
        return isinstance(other, pd.DataFrame) and self.equals(other)

    def __deepcopy__(self, memo: Any = None) -> _Estimates:
        return _Estimates(super().__deepcopy__(memo))


def compare_selections(
    selections: Mapping[str, Any],
    treatment: ArrayLike,
    controls: TableLike,
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
    selections : mapping of str to X, array_like, callable or None
        Covariates of each selection: `Covariates`, data frame, sparse matrix, array or Design, of
        shape (n, p). Or propensity scores, (n,), such as those of `OutcomeAdaptiveLasso`; or a
        function that returns the covariates for the name of a control, for selections that depend
        on the outcome; or None for no adjustment.
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
        A row per selection: ``selection``, ``columns`` (NaN for scores), ``controls`` (with an
        estimate), ``mean`` and ``sd`` of the systematic error, ``ease`` (expected absolute
        systematic error), ``covered`` (share of 95 % intervals that contain no effect),
        ``effective_sample_size`` and, with ``balance``, ``largest_smd`` (absolute standardised
        difference); the last two and ``columns`` are means over controls where a selection depends
        on them. ``attrs["estimates"]`` has ``selection``, ``control``, ``log_rr`` and ``se``.

    Raises
    ------
    DataError
        Shapes disagree, a group is missing, or no control has an estimate.

    See Also
    --------
    steropes.designs.controls.compare_errors : Differences of these errors with intervals, from
        ``attrs["estimates"]``.

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
    refuse_other_order(controls, "controls", treatment=treatment)
    target = require_arms(treatment, "treatment")
    table = read_columns(controls, None, "controls")
    if len(table) != len(target):
        raise DataError("controls must have a row for each value of treatment.")
    if not selections or not table.shape[1]:
        raise DataError("selections and controls need one entry or more.")
    for name in table:
        require_flags(f"controls, column {name!r}", table[name])
    if model is None:
        model = LogisticRegression(prior=Laplace(), cv=FOLDS, random_state=0)
    audited = None if balance is None else CovariateColumns.of(balance)
    step = PropensityWeights(estimand=estimand, model=model)
    rows, estimates = [], []
    for name, given in selections.items():
        parts = (
            {each: given(each) for each in table.columns}
            if callable(given)
            else dict.fromkeys(table.columns, given)
        )
        facts, own = [], []
        weighted: _Weighted | None = None
        for control, part in parts.items():
            if weighted is None or callable(given):
                weighted = _weigh(part, target, step)
                facts.append(_facts(weighted, audited, target))
            own.append(_estimate(table[control], target, weighted.weights))
        found = pd.DataFrame(own, columns=["log_rr", "se"]).assign(
            selection=name, control=list(table.columns)
        )
        rows.append({"selection": name, **_errors(found), **pd.DataFrame(facts).mean()})
        estimates.append(found)
    made = pd.DataFrame(rows)
    first = ["selection", "columns"]
    made = made[[*first, *made.columns.difference(first, sort=False)]]
    kept = ["selection", "control", "log_rr", "se"]
    made.attrs["estimates"] = _Estimates(pd.concat(estimates, ignore_index=True)[kept])
    return made


@dataclass(frozen=True)
class _Weighted:
    """Weights of people after a selection, and its number of columns."""

    weights: NDArray
    columns: float


def _weigh(given: Any, target: NDArray, step: PropensityWeights) -> _Weighted:
    """Return the weights of a selection."""
    if given is None:
        return _Weighted(np.ones(len(target)), 0.0)
    if np.ndim(given) == 1:
        score = require_numbers("propensity scores", given)
        if len(score) != len(target):
            raise DataError(f"{len(score)} propensity scores for {len(target)} people.")
        return _Weighted(propensity_weights(score, target, check_estimand(step.estimand)), np.nan)
    columns = CovariateColumns.of(given)
    return _Weighted(clone(step).fit(columns, target).weights_, float(columns.p))


def _facts(
    weighted: _Weighted, audited: CovariateColumns | None, target: NDArray
) -> dict[str, float]:
    """Describe a selection by its columns, weights and balance."""
    w = weighted.weights
    facts = {
        "columns": weighted.columns,
        "effective_sample_size": float(w.sum() ** 2 / (w**2).sum()),
    }
    if audited is not None:
        smd = balance_table(audited, target, weights=w)["smd_after"]
        facts["largest_smd"] = float(smd.abs().max())
    return facts


def _estimate(control: pd.Series, target: NDArray, weights: NDArray) -> tuple[float, float]:
    """Estimate the log risk ratio of a control; NaN where a group has no outcomes."""
    table = compare_means(control, target, weights, kind="HC0").set_index("measure")
    if "ratio" not in table.index:
        return np.nan, np.nan
    return float(np.log(table.loc["ratio", "estimate"])), float(table.loc["ratio", "se"])


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
