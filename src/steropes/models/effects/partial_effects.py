"""The effect of one variable along its range, the others held at typical values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ...data.formatted_tables_for_papers import Interval
from ...data.input_types import LabelsLike
from ...data.plottable_result_tables import ResultTable, present
from ...design_matrix import Design
from ...design_matrix.multinomial_design import ClassDesign
from ...errors import DataError
from ...fit.shards import ShardedDesign
from ..fitting.fit_steps import Estimator
from ..fitting.setting_types import Kind
from ..fitting.variable_summaries import summarize_columns, typical_rows
from ..formulas.formula_data_types import FormulaVariable
from .prediction_tables import Scale

__all__ = [
    "partial_effect",
]


def partial_effect(
    model: Estimator,
    variable: str,
    values: ArrayLike | None = None,
    scale: Scale = "linear",
    level: float = 0.95,
    at: Mapping[str, object] | None = None,
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> ResultTable:
    """Predict along one variable, with the others at typical values.

    Parameters
    ----------
    variable : str
        A column of the data that the formula uses or, without a formula, of the data frame.
    values : (m,) array, optional
        Values of the variable. Default its range between the 5th and the 95th percentile of
        the data, or its levels.
    scale : {"linear", "response", "ratio"}
        As in `Effects.predictions`, with an offset of zero. Linear predictors are differences, and
        ratios are relative, to the row with all variables at their typical values.
    level : float
        Confidence level of the limits.
    at : mapping, optional
        Values of other variables, by name. Default the medians and the most frequent levels
        of the data.
    kind : {"model", "robust"}, optional
        Covariance matrix of the coefficients; see `vcov`.
    cluster : (n_fit,) labels, optional
        As in `vcov`.

    Returns
    -------
    DataFrame
        A line for each value, in multinomial models for each value and class: the variable,
        ``estimate``, ``se``, ``lower`` and ``upper``. As R's ``rms::Predict(fit, variable)``
        with ``ref.zero=TRUE``.

    Raises
    ------
    DataError
        If the model was fitted neither from a formula nor to a data frame, has no such
        variable or, without a formula, more than 200 columns, and as `Effects.predictions`.

    See Also
    --------
    steropes.plots.partial_effect : Draw the table.

    Examples
    --------
    >>> import numpy as np, pandas as pd, steropes
    >>> x = np.linspace(0, 1, 50)
    >>> data = pd.DataFrame({"y": np.sin(9 * x), "x": x})
    >>> model = steropes.LinearRegression.from_formula("y ~ bs(x, df=4)", data)
    >>> table = model.effects.partial("x", [0.2, 0.5])
    >>> table.columns.tolist()
    ['x', 'estimate', 'se', 'lower', 'upper']
    """
    check_is_fitted(model)
    if not isinstance(variable, str):
        raise DataError(f"variable must be a name, not {type(variable).__name__}.")
    if at is not None and not isinstance(at, Mapping):
        raise DataError(f"at must be a mapping from names to values, not {at!r}.")
    if variable in ("estimate", "se", "lower", "upper"):
        raise DataError(f"{variable!r} is a column of the table; rename the variable.")
    variables = typical_variables(model)
    fixed = dict(at or {})
    for name, value in fixed.items():
        if not pd.api.types.is_scalar(value):
            raise DataError(f"at has one value of {name!r}, not {value!r}.")
    if variable in fixed:
        raise DataError(f"{variable!r} is the variable that changes; leave it out of at.")
    center = typical_rows(variables, fixed)
    if variable not in variables:
        typical_rows(variables, {variable: 0})  # names the variables
    x = list(variables[variable].values if values is None else np.atleast_1d(values))
    rows = {name: [value] * len(x) for name, value in fixed.items()}
    table = typical_rows(variables, {**rows, variable: x}, len(x))
    X: Any = table
    base: Any = center
    if getattr(model, "_formula", None) is not None:
        # The formula's offset, if it has one, is zero: it has no typical value.
        X, base = (np.asarray(model._formula.matrix(rows)) for rows in (table, center))
    reference = None if scale == "response" else base
    found = model._accessor("effects").predictions(
        X, scale, level, reference=reference, kind=kind, cluster=cluster
    )
    shown = table[variable].to_numpy()  # multinomial models have a line for each class
    found.insert(0, variable, np.repeat(shown, len(found) // len(shown)))
    shown = [Interval("Effect", level=level)]
    return present(found, "partial_effect", intervals=shown, scale=scale)


def typical_variables(model: Estimator) -> Mapping[str, FormulaVariable]:
    """Return ranges and typical values of the variables of the formula or the data frame.

    Raises
    ------
    DataError
        If the model has neither, fixed coefficients without a formula, or predictors that
        change with time.
    """
    variables: Mapping[str, FormulaVariable] | None
    variables = getattr(getattr(model, "_formula", None), "variables", None)
    if variables:
        return variables
    if not hasattr(model, "feature_names_in_"):
        raise DataError(
            "Partial effects are those of the variables of a formula or the columns of a data "
            "frame; fit with from_formula() or to a data frame."
        )
    if model._column_variables is None:
        design = model._require_data("a typical row").design
        if isinstance(design, ClassDesign):  # which has all columns, also with fixed effects
            design = design.X
        elif model._fixed is not None:
            raise DataError(
                "Without a formula, models with fixed coefficients have no partial effects; "
                "compare rows by effects.predictions(X, reference=…)."
            )
        if isinstance(design, ShardedDesign):
            raise DataError(
                "Without a formula, models of rows in blocks have no partial effects; compare "
                "rows by effects.predictions(X, reference=…)."
            )
        if not isinstance(design, Design):
            raise DataError(
                f"A row of this {type(model).__name__} has a linear predictor for each interval "
                "of time, and no partial effects; see predict_survival()."
            )
        names = [str(name) for name in model.feature_names_in_]
        coded = model._coding is not None and names == model._coding.columns
        coding = model._coding if coded else None
        model._column_variables = summarize_columns(design, names, coding, model.n_jobs)
    return model._column_variables
