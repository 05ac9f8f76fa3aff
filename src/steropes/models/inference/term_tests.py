"""Tests of the terms of a model, with non-linear and interaction parts, as rms::anova."""

from __future__ import annotations

from itertools import islice, product

import numpy as np
import pandas as pd

from ...data.input_types import LabelsLike
from ...data.plottable_result_tables import ResultTable, present
from ...errors import DataError
from ...infer.linear_algebra import row_space
from ..fitting.default_standard_errors import name_errors
from ..fitting.fit_steps import Estimator
from ..fitting.setting_types import Kind
from ..fitting.variable_summaries import typical_rows
from ..formulas.formula_data_types import FormulaVariable
from .hypothesis_tests import Test, linear_hypothesis
from .model_terms import ModelTerm, model_terms

__all__ = [
    "term_tests",
]

# Deviations from a straight line below this share of a column are rounding errors.
NOTHING = 1e-8
# At most this many combinations of the values of the other variables are visited.
MAX_COMBINATIONS = 60


def term_tests(
    model: Estimator,
    test: Test = "wald",
    kind: Kind | None = None,
    cluster: LabelsLike | None = None,
) -> ResultTable:
    """Test each variable with all of its terms, its non-linear part and its interactions.

    Parameters
    ----------
    test : {"wald", "score", "likelihood ratio"}
        As in `Inference.linear_hypothesis`.
    kind : {"model", "robust"}, optional
        Covariance matrix of Wald tests; see `vcov`.
    cluster : (n,) labels, optional
        As in `vcov`.

    Returns
    -------
    DataFrame
        Indexed by ``term`` and ``part``; columns ``chisq``, ``df`` and ``p``. For each
        variable of the formula: ``"all"`` (all of its terms, with interactions),
        ``"interactions"`` and ``"nonlinear"`` (with interactions), those that exist. For each
        interaction, with those of more variables that contain it: ``"all"`` and
        ``"nonlinear"``. The rows of ``TOTAL`` are those of all
        variables: ``"nonlinear"``, ``"interactions"``, ``"nonlinear and interactions"`` and
        ``"all"``. A model without a formula has a line for each column. These are the rows of
        R's ``rms::anova``.

    Raises
    ------
    DataError
        As `Inference.linear_hypothesis`, for example for variables with a prior.

    See Also
    --------
    compare_nested_fits : Compare several fits.

    Notes
    -----
    An effect is linear in x if the linear predictor is a straight line in x, whatever the
    other variables. For any basis of splines this is a set of linear equations in the
    coefficients, which is computed from the model's columns at values between the 5th and
    the 95th percentile of x.

    References
    ----------
    Harrell (2015), Regression Modeling Strategies, 2nd ed., §2.3.2 and §2.7.2.

    Examples
    --------
    >>> import numpy as np, pandas as pd, steropes
    >>> x = np.linspace(0, 1, 50)
    >>> data = pd.DataFrame({"y": np.sin(9 * x), "x": x, "z": np.tile([0.0, 1.0], 25)})
    >>> model = steropes.LinearRegression.from_formula("y ~ bs(x, df=4) + z", data)
    >>> model.inference.term_tests().loc["x", "df"].to_dict()
    {'all': 4.0, 'nonlinear': 3.0}
    """
    terms = model_terms(model)
    if not terms:
        raise DataError("The model has no estimated coefficients of covariates to test.")
    p = len(model._coefficient_names())
    rows = _Rows(p)
    formula = getattr(model, "_formula", None)
    variables = {} if formula is None else formula.variables
    bends = {name: _bend(model, name, terms, variables) for name in variables}
    names = list(dict.fromkeys(v for term in terms for v in term.variables))
    for name in names:
        own = [term for term in terms if name in term.variables]
        joint = [term for term in own if len(term.variables) > 1]
        rows.add(name, "all", _selection(own, p))
        if joint and len(joint) < len(own):
            rows.add(name, "interactions", _selection(joint, p))
        rows.add(name, "nonlinear", bends.get(name))
    interactions = [term for term in terms if len(term.variables) > 1]
    for term in interactions:
        own = _with_higher_orders(term, interactions)
        rows.add(term.name, "all", _selection(own, p))
        rows.add(term.name, "nonlinear", _within(term, own, bends))
    bent = _joined([R for R in bends.values() if R is not None])
    crossed = _selection(interactions, p)
    rows.add("TOTAL", "nonlinear", bent)
    rows.add("TOTAL", "interactions", crossed)
    if bent is not None and crossed is not None:
        rows.add("TOTAL", "nonlinear and interactions", _joined([bent, crossed]))
    rows.add("TOTAL", "all", _selection(terms, p))
    lines = [linear_hypothesis(model, R, test=test, kind=kind, cluster=cluster) for R in rows.R]
    index = pd.MultiIndex.from_tuples(rows.labels, names=["term", "part"])
    shown = present(pd.DataFrame(lines, index), "hypothesis_tests")
    return name_errors(shown, lines[0].attrs["errors"], model)


def _bend(
    model: Estimator, name: str, terms: list[ModelTerm], variables: dict[str, FormulaVariable]
) -> np.ndarray | None:
    """Return equations for effects linear in a variable; None if it has none.

    A row is the difference between the columns of X at a value of the variable and their
    linear interpolation between its first and last values, other variables being equal.
    """
    variable = variables[name]
    if not variable.numeric or len(variable.values) < 3:
        return None
    own = [term for term in terms if name in term.variables]
    if not own:
        return None
    others = sorted({v for term in own for v in term.variables} - {name})
    some = [_few(variables[v]) for v in others]
    x = np.asarray(variable.values, np.float64)
    share = ((x - x[0]) / (x[-1] - x[0]))[:, None]
    rows = []
    for values in islice(product(*some), MAX_COMBINATIONS):
        chosen = {v: [value] * len(x) for v, value in zip(others, values, strict=True)}
        table = typical_rows(variables, {name: list(variable.values), **chosen}, len(x))
        D = model.design_matrix(table).to_numpy(np.float64)
        D = D if model._fixed is None else D[:, model._fixed.kept]
        gap = D - ((1.0 - share) * D[0] + share * D[-1])
        rows.append(np.where(np.abs(gap) > NOTHING * np.abs(D).max(axis=0), gap, 0.0))
    columns = np.concatenate([term.columns for term in own])
    coefficients = np.concatenate([term.coefficients for term in own])
    basis = row_space(np.concatenate(rows)[:, columns])
    if not len(basis):
        return None
    R = np.zeros((len(basis), len(model._coefficient_names())))
    R[:, coefficients] = basis
    return R


class _Rows:
    """The hypotheses of the table, with their labels."""

    def __init__(self, p: int) -> None:
        self.p = p
        self.labels: list[tuple[str, str]] = []
        self.R: list[np.ndarray] = []

    def add(self, term: str, part: str, R: np.ndarray | None) -> None:
        """Add a hypothesis if there is one."""
        if R is not None and len(R):
            self.labels.append((term, part))
            self.R.append(R)


def _few(variable: FormulaVariable) -> list[object]:
    """Return a few values of a variable that determine its columns in an interaction."""
    values = list(variable.values)
    at = np.unique(np.linspace(0, len(values) - 1, 8).astype(int))
    return [values[i] for i in at] if variable.numeric else values


def _selection(terms: list[ModelTerm], p: int) -> np.ndarray | None:
    """Return the equations that set all coefficients of some terms to zero."""
    if not terms:
        return None
    at = np.concatenate([term.coefficients for term in terms])
    return np.eye(p)[at]


def _with_higher_orders(term: ModelTerm, interactions: list[ModelTerm]) -> list[ModelTerm]:
    """Return an interaction and those of more variables that contain it.

    Without these its test would depend on the zero of the other variables.
    """
    return [x for x in interactions if x is term or set(term.variables) < set(x.variables)]


def _within(
    term: ModelTerm, terms: list[ModelTerm], bends: dict[str, np.ndarray | None]
) -> np.ndarray | None:
    """Return the equations for linearity of an interaction, in its terms, in its variables."""
    at = np.concatenate([x.coefficients for x in terms])
    parts = []
    for name in term.variables:
        R = bends.get(name)
        if R is not None:
            own = np.zeros_like(R)
            own[:, at] = R[:, at]
            parts.append(own)
    return _joined(parts)


def _joined(parts: list[np.ndarray]) -> np.ndarray | None:
    """Return independent equations that are equivalent to those of all parts."""
    if not parts:
        return None
    basis = row_space(np.concatenate(parts))
    return basis if len(basis) else None
