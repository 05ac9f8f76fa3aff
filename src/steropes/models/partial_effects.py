"""The effect of one variable along its range, the others held at typical values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..design import Design
from ..design.multinomial_design import ClassDesign
from ..errors import DataError
from ..fit.shards import ShardedDesign
from .prediction_tables import PredictionTables, Scale
from .variable_ranges import FormulaVariable, summarize_columns, typical_rows

__all__ = ["PartialEffects"]


class PartialEffects(PredictionTables):
    """Partial effects of the variables of a formula or the columns of a data frame."""

    _formula: Any
    # Typical values of the columns of a fit without a formula, computed at the first request.
    _column_variables: Mapping[str, FormulaVariable] | None = None

    def partial_effect(
        self,
        variable: str,
        values: ArrayLike | None = None,
        scale: Scale = "linear",
        level: float = 0.95,
        at: Mapping[str, object] | None = None,
    ) -> pd.DataFrame:
        """Predict along one variable, with the others at typical values.

        Parameters
        ----------
        variable : str
            A column of the data that the formula uses or, without a formula, of the data frame.
        values : (m,) array, optional
            Values of the variable. Default its range between the 5th and the 95th percentile of
            the data, or its levels.
        scale : {"linear", "response", "ratio"}
            As in `prediction_table`, with an offset of zero. Linear predictors are differences, and
            ratios are relative, to the row with all variables at their typical values.
        level : float
            Confidence level of the limits.
        at : mapping, optional
            Values of other variables, by name. Default the medians and the most frequent levels
            of the data.

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
            variable or, without a formula, more than 200 columns, and as `prediction_table`.

        See Also
        --------
        steropes.plots.partial_effect : Draw the table.

        Examples
        --------
        >>> import numpy as np, pandas as pd, steropes
        >>> x = np.linspace(0, 1, 50)
        >>> data = pd.DataFrame({"y": np.sin(9 * x), "x": x})
        >>> model = steropes.LinearRegression.from_formula("y ~ bs(x, df=4)", data)
        >>> table = model.partial_effect("x", [0.2, 0.5])
        >>> table.columns.tolist()
        ['x', 'estimate', 'se', 'lower', 'upper']
        """
        check_is_fitted(self)
        if not isinstance(variable, str):
            raise DataError(f"variable must be a name, not {type(variable).__name__}.")
        if at is not None and not isinstance(at, Mapping):
            raise DataError(f"at must be a mapping from names to values, not {at!r}.")
        if variable in ("estimate", "se", "lower", "upper"):
            raise DataError(f"{variable!r} is a column of the table; rename the variable.")
        variables = self._typical_variables()
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
        if getattr(self, "_formula", None) is not None:
            # The formula's offset, if it has one, is zero: it has no typical value.
            X, base = (np.asarray(self._formula.matrix(rows)) for rows in (table, center))
        reference = None if scale == "response" else base
        found = self.prediction_table(X, scale, level, reference=reference)
        shown = table[variable].to_numpy()  # multinomial models have a line for each class
        found.insert(0, variable, np.repeat(shown, len(found) // len(shown)))
        return found

    def _typical_variables(self) -> Mapping[str, FormulaVariable]:
        """Return ranges and typical values of the variables of the formula or the data frame.

        Raises
        ------
        DataError
            If the model has neither, fixed coefficients without a formula, or predictors that
            change with time.
        """
        variables: Mapping[str, FormulaVariable] | None
        variables = getattr(getattr(self, "_formula", None), "variables", None)
        if variables:
            return variables
        if not hasattr(self, "feature_names_in_"):
            raise DataError(
                "Partial effects are those of the variables of a formula or the columns of a data "
                "frame; fit with from_formula() or to a data frame."
            )
        if self._column_variables is None:
            design = self._require_data("a typical row").design
            if isinstance(design, ClassDesign):  # which has all columns, also with fixed effects
                design = design.X
            elif self._fixed is not None:
                raise DataError(
                    "Without a formula, models with fixed coefficients have no partial effects; "
                    "compare rows by prediction_table(X, reference=…)."
                )
            if isinstance(design, ShardedDesign):
                raise DataError(
                    "Without a formula, models of rows in blocks have no partial effects; compare "
                    "rows by prediction_table(X, reference=…)."
                )
            if not isinstance(design, Design):
                raise DataError(
                    f"A row of this {type(self).__name__} has a linear predictor for each interval "
                    "of time, and no partial effects; see predict_survival()."
                )
            names = [str(name) for name in self.feature_names_in_]
            coded = self._coding is not None and names == self._coding.columns
            coding = self._coding if coded else None
            self._column_variables = summarize_columns(design, names, coding, self.n_jobs)
        return self._column_variables
