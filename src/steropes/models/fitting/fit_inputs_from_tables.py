"""Inputs of a fit from a table by its formula: X, the outcome and vectors with a value a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from ...data import check_weights, refuse_other_order
from ...data.array_conversion import refuse_lazy_query
from ...data.input_types import VectorLike
from ...design_matrix import has_names, null_design
from ...errors import DataError
from ..formulas.formula_data_types import (
    DOT,
    as_pandas_table,
    drop_unused_categories,
    widen_numbers,
    without_function_names,
)
from ..formulas.formula_evaluation import evaluate_expression
from ..formulas.formula_parsing import Formula, outcome_of, read_formula
from ..formulas.formula_safety import MAX_CHARACTERS
from .row_arguments import FitInputs
from .setting_types import MatrixLike
from .variable_summaries import summarize_variables

__all__ = [
    "columns_of_table",
    "outcome_of_table",
    "outcomes_of_table",
    "read_fit_table",
    "read_table",
    "rows_of_table",
    "without_formula",
]

# Arguments of `fit` with an entry for each row.
ROWS = ("sample_weight", "offset", "exposure", "strata")


def read_fit_table(model: Any, X: MatrixLike, inputs: FitInputs) -> tuple[MatrixLike, FitInputs]:
    """Compute the arguments of a fit from a table and store its formula, if the model has one."""
    if model.formula is None:
        return X, inputs
    found, inputs, model._formula = read_table(model, X, inputs)
    model.formula_ = model._formula.text
    if model._formula.cluster is not None:
        model._clusters = model._formula.vector("cluster", as_pandas_table(X))
    return found, inputs


def read_table(
    model: Any, data: MatrixLike, inputs: FitInputs, needs_outcome: bool = True
) -> tuple[MatrixLike, FitInputs, Formula]:
    """Compute the arguments of a fit from a table, by the estimator's formula.

    Parameters
    ----------
    model : estimator
        With a formula.
    data : pandas, polars or pyarrow table
    inputs : FitInputs
        As passed to ``fit``; vectors may be names of columns.
    needs_outcome : bool
        Whether the outcome is one of the formula or of ``inputs``; otherwise it is not read.

    Returns
    -------
    X : DataFrame, or Design without columns
    inputs : FitInputs
    formula : Formula

    Raises
    ------
    DataError
        If ``data`` is no table, the formula cannot be evaluated, or arguments contradict it.
    """
    text = model.formula
    refuse_lazy_query(data, "data")
    if not has_names(data):
        raise DataError(
            f"The model has the formula {text!r}, so that fit() takes a table with its columns, "
            f"not {type(data).__name__}."
        )
    whole = frame = table = drop_unused_categories(as_pandas_table(data))
    if isinstance(text, str) and (model.trusted or len(text) <= MAX_CHARACTERS):
        table = without_function_names(whole, text)
        frame = widen_numbers(table, text)
    columns = {name: value for name in ROWS if isinstance(value := getattr(inputs, name), str)}
    inputs = replace(inputs, **columns_of_table(whole, columns))
    weights = check_weights(inputs.sample_weight, len(frame))
    read = read_formula(text, frame, model._intercept, model.trusted, weights)
    for name, value in read.vectors(table).items():
        if getattr(inputs, name) is not None:
            raise DataError(f"{name} is in the formula and among the arguments; give it once.")
        inputs = replace(inputs, **{name: value})
    read.columns = {name: x for name, x in columns.items() if name != "sample_weight"}
    used = set(map(str, read.spec.variables_by_source.get("data", ())))
    read.variables = summarize_variables(frame[weights > 0], used, read.categories)
    if needs_outcome:
        inputs = replace(inputs, y=_outcome(read, frame, inputs.y, data))
    X = _matrix(read, frame, weights > 0)
    if read.varying:
        own = getattr(model, "time_varying", None)
        read.effects = _with_time_effects(model, own, read.time_varying(list(X.columns)))
    return (X if X.shape[1] else null_design(len(X))), inputs, read


def _matrix(read: Formula, frame: pd.DataFrame, counted: np.ndarray) -> pd.DataFrame:
    """Compute X of the rows of the fit.

    A row without weight may have a level, or a value beyond the boundary knots, that the other
    rows lack. It counts for nothing and takes the columns of the first row with weight.
    """
    try:
        return read.matrix(frame)
    except DataError:
        if counted.all() or not counted.any():
            raise
    X = read.matrix(frame[counted])
    rows = np.where(counted, np.cumsum(counted) - 1, 0)
    return X.iloc[rows].set_axis(frame.index)


def columns_of_table(table: pd.DataFrame, given: Mapping[str, Any]) -> dict[str, Any]:
    """Replace arguments that name a column of the table by the column."""
    out = dict(given)
    for name, value in given.items():
        if isinstance(value, str):
            if value not in table.columns:
                raise DataError(f"{name}={value!r} is not a column of the data.")
            out[name] = table[value]
    return out


def _outcome(read: Formula, frame: pd.DataFrame, y: Any, data: MatrixLike) -> Any:
    """Return the outcome of the formula, or y if the formula has none.

    scikit-learn's tools pass y, for example for folds with equal shares of the classes. It must
    then be the outcome of the formula, because permuted or other values would be ignored.
    """
    if not read.outcome:
        if y is None:
            raise DataError(
                "The formula has no outcome before '~', and y is not passed. Write 'y ~ x', or "
                "pass y."
            )
        return y
    own = evaluate_expression(read.outcome, frame)
    if y is not None:
        refuse_other_order(data, "the table", y=y)
        if not _equal(own, y):
            right = read.text.partition("~")[2].strip()
            raise DataError(
                f"y is not the outcome {read.outcome!r} of the formula. Leave y out, or write the "
                f"formula without its outcome, '~ {right}'."
            )
    return own


def _equal(a: Any, b: Any) -> bool:
    """Return whether two outcomes are equal, entry by entry."""
    first, second = np.asarray(a), np.asarray(b)
    if second.ndim == 2 and second.shape[1] == 1:
        second = second[:, 0]
    if first.shape != second.shape:
        return False
    if first.dtype.names is None or second.dtype.names is None:
        same = first.dtype.names is None and second.dtype.names is None
        return same and bool(np.asarray(first == second).all())
    return set(first.dtype.names) == set(second.dtype.names) and all(
        bool((first[name] == second[name]).all()) for name in first.dtype.names
    )


def _with_time_effects(
    model: Any, given: object, effects: dict[str, object]
) -> dict[object, object]:
    """Combine the setting ``time_varying`` with the effects in the formula."""
    if "time_varying" not in signature(type(model)).parameters:
        raise DataError(
            f"{type(model).__name__} has no effects that change with time; leave step() and tt() "
            "out."
        )
    if given is not None and not isinstance(given, Mapping):
        raise DataError("The formula has step() or tt(): leave time_varying out.")
    own = dict(given or {})
    twice = [name for name in own if name in effects]
    if twice:
        raise DataError(f"time_varying and the formula both have {twice[0]!r}; give it once.")
    return own | effects


def outcome_of_table(model: Any, X: MatrixLike, y: VectorLike | None) -> Any:
    """Return the outcome of new rows: y, or that of the fitted model's formula.

    Raises
    ------
    DataError
        If y is None and the formula has no outcome, or X is not a table with its columns.
    """
    if y is not None:
        return y
    read = getattr(model, "_formula", None)
    if read is None or not read.outcome or not has_names(X):
        raise DataError(
            f"{type(model).__name__} requires y to be passed, but the target y is None."
        )
    return outcomes_of_table(read.text, as_pandas_table(X))


def outcomes_of_table(text: str, data: pd.DataFrame) -> Any:
    """Evaluate the outcome of a formula in a table; None if the formula has none."""
    outcome = outcome_of(text)
    if not outcome:
        return None
    return evaluate_expression(outcome, widen_numbers(without_function_names(data, text), text))


def rows_of_table(
    model: Any, data: MatrixLike, y: VectorLike | None, vectors: Mapping[str, Any]
) -> tuple[pd.DataFrame, Any, dict[str, Any]]:
    """Read a table, its outcome and vectors, for fits to some of its rows.

    Parameters
    ----------
    model : estimator
        With a formula.
    data : table
    y : (n,) array or None
        Default the outcome of the formula.
    vectors : mapping
        Arguments with an entry for each row, or the names of columns.

    Returns
    -------
    table : DataFrame
    y : (n,) array
    vectors : dict
    """
    table = as_pandas_table(data)
    y = outcomes_of_table(model.formula, table) if y is None else y
    if y is None:
        raise DataError(f"The formula {model.formula!r} has no outcome; pass y.")
    return table, y, columns_of_table(table, vectors)


def without_formula(
    model: Any, data: MatrixLike, vectors: Mapping[str, Any]
) -> tuple[Any, MatrixLike, dict[str, Any]]:
    """Replace a formula by the matrix that it describes, for fits of other outcomes to it.

    Parameters
    ----------
    model : estimator
        With a formula, whose outcome is not read.
    data : table
    vectors : mapping
        Arguments of ``fit`` with an entry for each row, or the names of columns.

    Returns
    -------
    model : estimator
        A clone without the formula, whose settings are those that the formula implies.
    X : DataFrame, or Design without columns
    vectors : dict
        With strata and offset of the formula.

    Raises
    ------
    DataError
        If the formula has an outcome and ".", which would make the other outcomes covariates.
    """
    if outcome_of(model.formula) and DOT.search(model.formula.partition("~")[2]):
        raise DataError(
            f"The formula {model.formula!r} has '.', which stands for all other columns, outcomes "
            "included. Name the covariates, or write '~ .' and pass a table of covariates."
        )
    clone(model)._check_settings()
    no_outcome: Any = None
    rows = FitInputs(no_outcome, **vectors)
    X, inputs, read = read_table(model, data, rows, needs_outcome=False)
    plain = clone(model).set_params(formula=None, trusted=False)
    if model._intercept and not read.has_intercept:
        plain.set_params(fit_intercept=False)
    if read.effects:
        plain.set_params(time_varying=read.effects)
    return plain, X, {name: getattr(inputs, name) for name in ROWS}
