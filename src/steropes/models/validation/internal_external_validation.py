"""Internal–external validation: fits without one group at a time, evaluated in that group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from ...data import check_classes, check_weights, refuse_other_order
from ...data.group_checks_and_counts import check_groups
from ...data.input_types import LabelsLike, VectorLike
from ...data.ordered_categories import with_categories
from ...data.plottable_result_tables import ResultTable, present
from ...data.vector_checks import check_offset, label_strata
from ...errors import DataError, SeparationError
from ..families.family import Family, ValidationData
from ..families.performance_measures import performance
from ..fitting.fit_inputs_from_tables import rows_of_table
from ..fitting.fit_steps import Estimator
from ..fitting.multinomial_inputs import read_class_offset
from ..fitting.setting_types import MatrixLike
from .internal_validation import refuse_without_measures, without_prior

__all__ = ["validate_by_group"]


def validate_by_group(
    model: Estimator,
    X: MatrixLike,
    y: VectorLike | None = None,
    groups: LabelsLike | None = None,
    *,
    sample_weight: VectorLike | str | None = None,
    offset: VectorLike | str | None = None,
    strata: LabelsLike | None = None,
) -> ResultTable:
    """Fit without one group at a time, and measure the performance in that group.

    Groups are sites, practices or calendar years; the spread of the measures over them shows how
    well the model would transfer to another.

    Parameters
    ----------
    model : estimator
        A generalised linear, multinomial, Cox, Fine–Gray or cumulative model with its settings. It
        is cloned, and a ``cv`` chooses the prior's variance in each fit again. Weights of classes
        (``class_weight``) are those of the fit without the group, also in the measures.
    X : array, sparse matrix or data frame, (n, p)
        Covariates, or the table of data for the model's formula. Knots, levels and scales of the
        formula are then those of the rows of each fit, and the arguments below may be names of
        columns.
    y : (n,) array
        Outcome, as in the model's ``fit``.
    groups : (n,) labels
        Group of each row, at least two.
    sample_weight : (n,) array, optional
        Nonnegative row weights. Default 1.
    offset : (n,) array, optional
        Known term of the linear predictor. Default 0.
    strata : (n,) labels, optional
        Strata of a Cox or Fine–Gray model, which may be the groups.

    Returns
    -------
    DataFrame
        Indexed by group; ``n`` (sum of weights) and the measures of
        ``model.validation.validate`` of the group's rows.

    Raises
    ------
    DataError
        If there are fewer than two groups, or the fit without a group fails.
    SeparationError
        If the likelihood of the rows without a group has no finite maximum.

    See Also
    --------
    PenalizedModel.validation.validate : Correct the apparent performance for optimism.

    References
    ----------
    Royston, Parmar and Sylvester (2004), Statistics in Medicine 23:907–926. Steyerberg and Harrell
    (2016), Journal of Clinical Epidemiology 69:245–247.

    Examples
    --------
    >>> import numpy as np
    >>> import steropes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 2))
    >>> y = (rng.random(300) < 1 / (1 + np.exp(-X[:, 0]))) * 1
    >>> table = steropes.validate_by_group(
    ...     steropes.LogisticRegression(), X, y, np.repeat(["a", "b", "c"], 100)
    ... )
    >>> table.columns.tolist()
    ['n', 'auc', 'r2', 'intercept', 'slope', 'brier']
    """
    refuse_without_measures(model)
    if groups is None:
        raise DataError("validate_by_group() needs the group of each row: groups=…")
    vectors: dict[str, Any] = {
        "groups": groups, "sample_weight": sample_weight, "offset": offset, "strata": strata,
    }  # fmt: skip
    if getattr(model, "formula", None) is not None:
        X, y, vectors = rows_of_table(model, X, y, vectors)
    groups, sample_weight, offset, strata = vectors.values()
    refuse_other_order(X, y=y, **vectors)
    family: Family = model._family
    n = int(np.shape(X)[0])
    codes, labels = check_groups(groups, n)
    if len(labels) < 2:
        raise DataError(f"A validation by group needs two groups; there is only {labels[0]}.")
    weight = check_weights(sample_weight, n)
    classes: list[Any] = []
    if family.has_classes:
        found, class_of_row = check_classes(y, n)
        classes = found.tolist()
        _refuse_classes_of_one_group(classes, class_of_row, codes, labels, weight)
    several = family.has_class_predictors
    add = read_class_offset(offset, classes, n) if several else check_offset(offset, n, False)
    stratum = None if strata is None else label_strata(strata, n)[0]
    outcome: Any = with_categories(y)
    rows: dict[str, Any] = {"sample_weight": weight, "offset": add, "strata": stratum}
    given = {name: x for name, x in rows.items() if x is not None}
    lines, measures = [], []
    for k, label in enumerate(labels):
        there, others = np.flatnonzero(codes == k), np.flatnonzero(codes != k)
        own_data = {q: x[others] for q, x in given.items()}
        fitted = _fit_without(label, model, _safe_indexing(X, others), outcome[others], own_data)
        predict = fitted._predictors if several else fitted.linear_predictor
        new = _safe_indexing(X, there)
        known = fitted._formula_vector("offset", new, None if add is None else add[there])
        eta = predict(new, known)
        own = fitted._formula_vector("strata", new, None if stratum is None else stratum[there])
        own = None if own is None else label_strata(own, len(there))[0]
        refuse_without_measures(fitted)  # a formula can have effects that change with time
        values = family.read_outcome(fitted, outcome[there])
        data = ValidationData(family, without_prior(fitted), values, own, known)
        lines.append(float(weight[there].sum()))
        counted = weight[there]
        if family.has_classes:
            counted = counted * fitted.class_weight_[values.astype(np.int64)]
        measures.append(performance(data, eta, counted))
    index = pd.Index(labels, name="group", tupleize_cols=False)
    table = pd.DataFrame(measures, index)
    table.insert(0, "n", lines)
    return present(table, "performance")


def _fit_without(label: str, model: Any, X: Any, y: Any, given: dict[str, Any]) -> Any:
    """Fit a copy of the model to the rows of all groups but one, which errors name."""
    try:
        return clone(model).fit(X, y, **given)
    except (DataError, SeparationError) as error:
        text = f"The fit to the rows without group {label} failed: {error}"
        if isinstance(error, SeparationError):
            raise SeparationError(text, error.columns) from None
        raise DataError(text) from None


def _refuse_classes_of_one_group(
    classes: list[Any], class_of_row: np.ndarray, group_of_row: np.ndarray, labels: Sequence[str],
    weight: np.ndarray,
) -> None:  # fmt: skip
    """Refuse a class with rows of one group only, which the fit without this group cannot have."""
    for k, label in enumerate(classes):
        groups = np.unique(group_of_row[(class_of_row == k) & (weight > 0)])
        if len(groups) == 1:
            raise DataError(
                f"The class {label!r} is in the group {labels[groups[0]]} only, so that a fit "
                "without this group cannot predict it. Leave these rows out, or merge classes or "
                "groups."
            )
