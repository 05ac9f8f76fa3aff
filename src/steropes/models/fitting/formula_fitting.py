"""Fitting estimators from formulas, and designs of new data by the same formulas."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import pandas as pd

from ...data.input_types import LabelsLike, TableLike
from ...design import Design, has_names
from ...design.from_data import column_names
from ...errors import DataError
from ...fit.shards import ShardedDesign
from ..formulas.formula_data_types import RowVector, as_pandas_table
from ..formulas.formula_parsing import Formula
from .fitted_model import FittedModel
from .formula_fits import ROWS, read_table
from .row_arguments import FitInputs
from .setting_types import MatrixLike

__all__ = ["FormulaMixin"]

# All arguments of `fit` besides X and y.
FIT = (*ROWS, "start_at", "fixed")


class FormulaMixin(FittedModel):
    """Fitting from a formula, and designs of new data by the same formula."""

    formula: str | None
    _intercept: bool
    _clusters: Any
    _formula: Formula
    formula_: str
    feature_names_in_: np.ndarray

    @classmethod
    def from_formula(
        cls, formula: str, data: TableLike, *, trusted: bool = False, **fit: object
    ) -> Self:
        """Fit the model that a formula describes.

        This is the short form of ``cls(formula=formula).fit(data)``. The formula is a setting of
        the estimator, so that copies of it, such as those of ``cross_val_score`` and
        `validate_by_group`, are fitted to tables. Each such fit determines knots, levels and
        scales from its own rows. Draws of `Inference.bootstrap` and `Validation.validate` and
        the folds of ``cv`` share the columns of the fit instead, as in R's rms. Rows of weight
        zero do not count for knots, levels and scales, and whole weights count as repeated rows;
        weights that are not all whole numbers, such as inverse probabilities, count once.

        Parameters
        ----------
        formula : str
            For example ``"y ~ x1 + bs(age, df=4) + drug:sex"``, in the language of formulaic
            (also of R and patsy): ``a*b``, ``C(x)`` for numeric labels, ``poly``, functions of
            NumPy as ``np.…``, and ``.`` for all columns not used elsewhere; ``y ~ 1`` is the model
            without covariates. Splines are ``rcs(x, 4)`` with Harrell's knots and the columns
            ``x``, ``x'`` and ``x''`` (or ``rcs(x, [30, 50, 70])``), ``ns(x, df=3)`` and
            ``bs(x, df=4)`` as in R, and mgcv's ``cr(x, df=3)`` and the cyclic ``cc(month, df=3)``,
            centred. ``step(x, [90, 180])`` has an effect of x in each period between these times,
            as R's ``x:strata(tgroup)`` after ``survSplit``, and ``tt(x, 'log')`` the effects ``x``
            and ``x:log(t)``; they add to ``time_varying`` and contain the constant effect of x. The
            outcome may be ``Surv(time, event)`` or ``Surv(stop, event, entry=start)``.
            ``strata(a, b)`` and ``offset(x)`` are passed to ``fit``. ``cluster(id)`` are the
            clusters of robust errors and of the bootstrap; unlike R, ``summary()`` has robust
            errors only with ``kind="robust"``.
        data : pandas, polars or pyarrow table
            Missing values are refused. Booleans count as 0 and 1.
        trusted : bool
            Whether to evaluate any Python in the formula, such as methods of columns. By default
            formulas may contain arithmetic, comparisons, elementwise functions of NumPy and the
            functions above, so that a formula from an untrusted source is harmless. Its products
            and functions have at most 10,000 columns, and a spline 1,000.
        **fit
            Arguments of ``fit``, those with an entry per row also as the name of a column
            (``sample_weight="w"``), and settings of the model (``prior=``, ``ties=``, …).

        Returns
        -------
        fitted estimator
            ``formula_`` is the formula. Methods that take X of new rows (predictions, curves,
            concordance) also accept a table of their data. The formula then computes X, and
            strata and offset if the formula or the fit named them and they are not passed;
            other columns are ignored. A table without the columns of strata or offset, such as
            ``design_matrix(data)`` alone, is refused; arrays have the offset 0 if none is passed.
            ``design_matrix(data)`` and ``design_vectors(data)`` return these, and ``score(data)``
            reads the outcome by the formula as well.

        Raises
        ------
        DataError
            If the formula cannot be read or evaluated, or needs ``trusted=True``.

        Examples
        --------
        >>> import pandas as pd, steropes
        >>> data = pd.DataFrame({"time": [5, 3, 4, 2, 6], "dead": [1, 1, 0, 1, 0],
        ...                      "dose": ["low", "high", "low", "low", "high"]})
        >>> m = steropes.CoxRegression.from_formula("Surv(time, dead) ~ dose", data)
        >>> m.summary().index.tolist()
        ['dose[T.low]']
        >>> m = steropes.CoxRegression.from_formula(
        ...     "Surv(time, dead) ~ step(dose, [3.5])", data, prior=steropes.Normal()
        ... )
        >>> m.coef_names_
        ['dose[T.low]@(0,3.5]', 'dose[T.low]@(3.5,inf)']
        """
        given = {name: fit[name] for name in FIT if fit.get(name) is not None}
        settings = {name: value for name, value in fit.items() if name not in FIT}
        estimator: Any = cls
        model = estimator(formula=formula, trusted=trusted, **settings)
        model.fit(data, **given)
        if settings.get("fit_intercept") and not model._formula.has_intercept:
            raise DataError("The formula leaves the intercept out, and fit_intercept=True.")
        return model

    def _read_fit_table(self, X: MatrixLike, inputs: FitInputs) -> tuple[MatrixLike, FitInputs]:
        """Compute the arguments of a fit from a table, if the model has a formula."""
        if self.formula is None:
            return X, inputs
        found, inputs, self._formula = read_table(self, X, inputs)
        self.formula_ = self._formula.text
        if self._formula.cluster is not None:
            self._clusters = self._formula.vector("cluster", as_pandas_table(X))
        return found, inputs

    def _changing_effects(self) -> Any:
        """Return the setting ``time_varying``, with the effects in the formula of the fit."""
        read = getattr(self, "_formula", None)
        own = getattr(self, "time_varying", None)
        return own if read is None or not read.effects else read.effects

    def _read_formula(self) -> Formula:
        """Return the formula of the fit; refuse if there is none."""
        read = getattr(self, "_formula", None)
        if read is None:
            raise DataError("The model was not fitted from a formula; pass X itself.")
        return read

    def _is_formula_table(self, X: MatrixLike) -> bool:
        """Return whether X is a table of data for the formula, rather than the matrix itself."""
        if getattr(self, "_formula", None) is None or isinstance(X, Design | ShardedDesign):
            return False
        return has_names(X) and column_names(X) != list(self.feature_names_in_)

    def _apply_formula(self, X: MatrixLike) -> MatrixLike:
        """Return X, computed by the formula if X is a table of data."""
        return self._formula.matrix(as_pandas_table(X)) if self._is_formula_table(X) else X

    def _formula_vector(
        self, name: RowVector, X: MatrixLike, given: LabelsLike | None
    ) -> LabelsLike | None:
        """Return strata or offset: those given, or computed by the formula from a table of data."""
        if given is not None or isinstance(X, Design | ShardedDesign) or not has_names(X):
            return given
        # A table that has exactly the columns of X may be the data or the result of design_matrix.
        # Without the columns of strata or offset either is refused, rather than taken for 0.
        read = getattr(self, "_formula", None)
        return None if read is None else read.vector(name, as_pandas_table(X))

    def design_matrix(self, data: TableLike) -> pd.DataFrame:
        """Compute X of new data by the formula of the fit.

        Parameters
        ----------
        data : pandas, polars or pyarrow table
            Data with the columns that the formula names.

        Returns
        -------
        DataFrame, (n, p)
            Splines and codings are those of the fit; labels that the fit did not contain are
            refused.

        Raises
        ------
        DataError
            If the model was not fitted by a formula, or the formula cannot be evaluated.

        Examples
        --------
        >>> import pandas as pd, steropes
        >>> data = pd.DataFrame({"y": [1.0, 2.0, 4.0, 5.0], "dose": ["low", "low", "high", "high"]})
        >>> model = steropes.LinearRegression.from_formula("y ~ dose", data)
        >>> model.design_matrix(pd.DataFrame({"dose": ["high", "low"]})).to_numpy().tolist()
        [[0], [1]]
        """
        return self._read_formula().matrix(as_pandas_table(data))

    def design_vectors(self, data: TableLike) -> dict[str, Any]:
        """Compute strata and offset of new data by the formula of the fit.

        Parameters
        ----------
        data : pandas, polars or pyarrow table
            Data with the columns that the formula names.

        Returns
        -------
        dict
            ``strata`` and ``offset``, if the formula or the fit named them, as arguments of
            predictions:
            ``predict_survival(m.design_matrix(new), times, **m.design_vectors(new))``.

        Raises
        ------
        DataError
            If the model was not fitted by a formula, or the formula cannot be evaluated.
        """
        return self._read_formula().vectors(as_pandas_table(data))
