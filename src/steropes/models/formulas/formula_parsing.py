"""Parsing and evaluation of formulas such as "Surv(time, event) ~ drug * age + strata(site)"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from steropes.models.formulas.formula_term_roles import SPECIAL, FormulaTerms

from ...data.array_conversion import as_numbers
from ...design_matrix.category_coding import (
    MAX_TEXT_LEVELS,
    read_labels,
    refuse_blank_text,
    refuse_text_of_numbers,
)
from ...errors import DataError
from .formula_data_types import (
    DOT,
    NAMES,
    FormulaVariable,
    RowVector,
    drop_unused_categories,
    widen_numbers,
    without_function_names,
)
from .formula_evaluation import (
    AbsentColumnError,
    Evaluated,
    call_formulaic,
    evaluate_expression,
    import_formulaic,
    missing_value_error,
)
from .formula_safety import ONE_SIDE, refuse_unsafe_expression, refuse_unsafe_formula
from .formula_size_limits import (
    refuse_many_columns,
    refuse_many_parts,
    refuse_many_terms,
    refuse_wide_expression,
)
from .formula_splines import short_name, transforms
from .formula_time_effects import read_time_effect

__all__ = ["Formula", "outcome_of", "read_formula"]

# A column of labels, or its coding.
LABELS = re.compile(r"(?:C\(\s*)?([^\W\d]\w*)\s*(?:,.*)?\)?", re.DOTALL)
# Functions of R's formulas that are refused, with the equivalent in this library.
OF_R = {
    "frailty": "For effects of many groups give C(group) a Normal prior.",
    "ridge": "Shrinkage is prior=Normal(variance).",
    "pspline": "Write bs(x, df=8) and give it a Normal prior.",
    "s": "Write bs(x, df=8) and give it a Normal prior.",
    "factor": "Codes that are labels are C(x).",
    "as.factor": "Codes that are labels are C(x).",
    "relevel": "C(x, contr.treatment('b')) has the reference 'b'.",
    "strat": "Strata are strata(x).",
    "pol": "Write x + I(x**2).",
    "c": "A list is [40, 60].",
    "cut": "Compute it by pandas.cut as a column of the data first.",
    "ifelse": "A condition is I(x > 50), which is 1 or 0.",
    "interaction": "Write C(a):C(b).",
    "pmax": "Write np.maximum(x, 0).",
    "pmin": "Write np.minimum(x, 0).",
    "cbind": "Of counts make a row for each outcome, with its count as sample_weight.",
}
# Rows with whole weights are repeated at most to this number, which bounds the memory.
MAX_REPEATED_ROWS = 10_000_000
CALL = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, OF_R))})\s*\(")


@dataclass
class Formula:
    """A parsed formula.

    Attributes
    ----------
    outcome : str
        The left-hand side, which may be empty.
    spec : formulaic.ModelSpec
        Columns of X, with the state of splines and codings from the data of the fit.
    strata, cluster : str or None
        Expressions.
    offsets : list of str
        Expressions.
    columns : dict
        Names of columns that were passed as ``strata``, ``offset`` or ``exposure`` in addition to
        the formula.
    variables : dict
        Ranges and typical values of the columns of data that the right-hand side uses.
    varying : dict
        Value of ``time_varying`` of each term with an effect that changes with time.
    effects : dict
        Those of the columns of X, with the setting ``time_varying`` of the estimator.
    has_intercept : bool
        Whether the right-hand side has an intercept.
    """

    text: str
    outcome: str
    spec: Any
    strata: str | None
    offsets: list[str]
    cluster: str | None = None
    columns: dict[str, str] = field(default_factory=dict)
    variables: dict[str, FormulaVariable] = field(default_factory=dict)
    varying: dict[str, object] = field(default_factory=dict)
    effects: dict[Any, object] = field(default_factory=dict)
    has_intercept: bool = True

    def time_varying(self, names: Sequence[str]) -> dict[str, object]:
        """Return the setting ``time_varying`` by column, for the names of X's columns."""
        out: dict[str, object] = {}
        before = 0
        for term, columns in self.spec.term_slices.items():
            if str(term) == "1":
                continue
            after = before + columns.stop - columns.start
            if str(term) in self.varying:
                out |= dict.fromkeys(names[before:after], self.varying[str(term)])
            before = after
        return out

    @property
    def categories(self) -> set[str]:
        """Columns of data that are used as categories only, such as i in ``C(i)``."""
        kinds: dict[bool, set[str]] = {True: set(), False: set()}
        for factor, names in self.spec.factor_variables.items():
            kind, _ = self.spec.encoder_state.get(factor.expr, (None, None))
            kinds[getattr(kind, "value", "") == "categorical"] |= set(map(str, names))
        return kinds[True] - kinds[False]

    def _levels(self) -> dict[str, list[Any]]:
        """Return the fit's levels of columns that are labels, such as i and ``C(i)``."""
        return {
            match.group(1): state["categories"]
            for text, (kind, state) in self.spec.encoder_state.items()
            if kind.value == "categorical" and (match := LABELS.fullmatch(text))
        }

    def matrix(self, data: pd.DataFrame) -> pd.DataFrame:
        """Compute X of new data, without an intercept."""
        data = widen_numbers(without_function_names(data, self.text), self.text)
        X = call_formulaic(
            lambda: self.spec.get_model_matrix(data, context=transforms(), na_action="raise"),
            data,
            self._levels(),
        )
        factors = {str(factor.expr) for term in self.spec.formula for factor in term.factors}
        table = pd.DataFrame(X).drop(columns="Intercept", errors="ignore")
        return table.rename(columns=lambda name: short_name(name, factors))

    def vector(self, name: RowVector, data: pd.DataFrame) -> Evaluated | None:
        """Compute a vector of new data; None if neither the formula nor the fit has any."""
        if name in self.columns:
            return self._column_of_data(name, data)
        if name == "exposure":
            return None
        data = without_function_names(data, self.text)
        wide = widen_numbers(data, self.text)
        try:
            if name in ("strata", "cluster"):
                text = self.strata if name == "strata" else self.cluster
                return None if text is None else evaluate_expression(text, wide)
            if not self.offsets:
                return None
            return np.sum([_offset(text, data, wide) for text in self.offsets], axis=0)
        except AbsentColumnError as error:
            raise DataError(f"{error} {_remedy(name)}") from None

    def _column_of_data(self, name: RowVector, data: pd.DataFrame) -> pd.Series:
        """Return the column that the fit used as a vector; refuse missing values."""
        column = self.columns[name]
        if column not in data:
            raise DataError(
                f"The table has no column {column!r}, which was the {name} of the fit. "
                f"{_remedy(name)}"
            )
        if data[column].isna().any():
            raise missing_value_error(column, data)
        return data[column]

    def vectors(self, data: pd.DataFrame) -> dict[str, Any]:
        """Compute the strata and the offset of new data, if the formula has them."""
        both = {"strata": self.vector("strata", data), "offset": self.vector("offset", data)}
        return {name: value for name, value in both.items() if value is not None}


def _remedy(name: RowVector) -> str:
    """Return advice for a table without the columns of a vector."""
    none = ", zeros for none" if name == "offset" else ""
    return f"Add it to the table, or pass {name}=… with an entry for each row{none}."


def _offset(text: str, data: pd.DataFrame, wide: pd.DataFrame) -> np.ndarray:
    """Evaluate one offset() of a formula.

    A single column is taken from ``data``, in which integers have not been converted to floats
    as they may be in ``wide``.
    """
    special = SPECIAL.match(text)
    column = special.group(2).strip() if special else text
    value = data[column] if column in data else evaluate_expression(text, wide)
    return as_numbers(value, text).astype(np.float64)


def read_formula(
    text: str,
    data: pd.DataFrame,
    intercept: bool,
    trusted: bool = False,
    weights: np.ndarray | None = None,
) -> Formula:
    """Read a formula.

    Parameters
    ----------
    intercept : bool
        Whether the model can have an intercept.
    trusted : bool
        Whether to evaluate any Python in the formula, and not only documented functions.
    weights : (n,) array, optional
        Nonnegative row weights. Knots, levels, means and scales are those of the rows with a
        positive weight; a whole number counts as that many rows, if all weights are whole.

    Returns
    -------
    Formula

    Raises
    ------
    DataError
        If the formula cannot be read or is not allowed.
    """
    outcome, right = _sides(text)
    columns = frozenset(map(str, data.columns))
    if not trusted:
        refuse_unsafe_formula(text, len(DOT.findall(right)))
        if outcome:
            _refuse_untrusted(outcome, columns)
    foreign = CALL.search(re.sub("`[^`]*`", "", text))
    if foreign:
        raise DataError(f"There is no {foreign.group(1)}() here. {OF_R[foreign.group(1)]}")
    formulaic = import_formulaic()
    if not trusted:
        from formulaic.parser.algos.tokenize import tokenize

        call_formulaic(lambda: refuse_many_parts(outcome, tokenize(right)))
    right = _without_dot(outcome, right, data)
    if not trusted:
        parser = formulaic.parser.DefaultFormulaParser()
        refuse_many_terms(call_formulaic(lambda: parser.get_ast(right)))
    parsed = call_formulaic(lambda: formulaic.Formula(right))
    if not isinstance(parsed, formulaic.SimpleFormula):
        raise DataError(ONE_SIDE)
    terms = FormulaTerms()
    for whole in parsed:
        term = _constant_term(whole, terms.varying)
        if not trusted:
            for factor in term.factors:
                if factor.eval_method.value == "python":
                    _refuse_untrusted(factor.expr, columns)
        terms.add(term, term is whole, data)
    if not intercept and not terms.has_intercept:
        raise DataError("This model has no intercept to leave out: drop -1 or 0 from the formula.")
    if not trusted:
        refuse_many_columns(terms.covariates, terms.varying, data)
    model = formulaic.Formula(terms.covariates)
    rows = data if weights is None else _rows_that_count(data, weights)
    X = call_formulaic(
        lambda: model.get_model_matrix(
            rows, context=transforms(), na_action="raise", output="pandas"
        ),
        rows,
    )
    _refuse_unlikely_labels(X.model_spec, data)
    for part, columns_of_term in X.model_spec.term_indices.items():
        if not columns_of_term:
            raise DataError(f"{part} has a single level and therefore no effect; leave it out.")
    strata, cluster = terms.labels.get("strata"), terms.labels.get("cluster")
    return Formula(
        text, outcome, X.model_spec, strata, terms.offsets, cluster, varying=terms.varying,
        has_intercept=terms.has_intercept,
    )  # fmt: skip


def _rows_that_count(data: pd.DataFrame, weights: np.ndarray) -> pd.DataFrame:
    """Return the rows from which knots, levels, means and scales are computed."""
    used = np.flatnonzero(weights)
    if len(used) == 0:
        return data  # refused with the weights
    times = weights[used]
    if (times % 1.0).any():
        times = np.ones(len(used))
    elif times.sum() > MAX_REPEATED_ROWS:
        times = np.ceil(times * (MAX_REPEATED_ROWS / times.sum()))
    if len(used) == len(data) and (times == 1).all():
        return data
    rows = data.iloc[np.repeat(used, times.astype(np.int64))].reset_index(drop=True)
    return drop_unused_categories(rows)


def _refuse_untrusted(text: str, columns: frozenset[str]) -> None:
    """Refuse an expression that is not allowed in a formula from an untrusted source."""
    refuse_unsafe_expression(text, columns)
    if text not in columns:
        refuse_wide_expression(text)


def _refuse_unlikely_labels(spec: Any, data: pd.DataFrame) -> None:
    """Refuse blank text, numbers as text, and labels that differ in most rows.

    Names of coefficients would be values of people. A categorical type states that the values of a
    column are labels, and C() that numbers are.
    """
    n, types = len(data), data.dtypes
    for factor, names in spec.factor_variables.items():
        _, state = spec.encoder_state.get(factor.expr, (None, {}))
        labels = list(state.get("categories", ()))
        levels = len(labels)
        stated = any(isinstance(types.get(str(x)), pd.CategoricalDtype) for x in names)
        if not stated and labels and all(isinstance(label, str) for label in labels):
            for name in [str(x) for x in names if str(x) in data]:
                codes, texts = read_labels(name, nw.from_native(data[name], series_only=True))
                refuse_blank_text(name, texts, codes)
                if factor.expr == name:  # C() states that numbers are labels
                    refuse_text_of_numbers(name, texts)
        if not stated and levels > MAX_TEXT_LEVELS and 2 * levels > n:
            raise DataError(
                f"{factor.expr} has {levels} different labels in {n} rows, as identifiers and "
                "measurements have. Leave it out, use numbers as they are or in a spline such as "
                "bs(x, df=4), divide them into ranges (pandas.cut), or, if the values are labels, "
                "convert the column to a categorical type."
            )


def _constant_term(term: Any, varying: dict[str, object]) -> Any:
    """Return a term without the change of its effect, which is entered in ``varying``."""
    effects = [read_time_effect(factor.expr) for factor in term.factors]
    settings = [effect.setting for effect in effects if effect is not None]
    if not settings:
        return term
    if len(settings) > 1:
        raise DataError(f"{term} has step() or tt() twice; use one of them in a term.")
    texts = [
        factor.expr if effect is None else effect.expression
        for factor, effect in zip(term.factors, effects, strict=True)
    ]
    plain = next(iter(call_formulaic(lambda: import_formulaic().Formula("0 + " + ":".join(texts)))))
    if str(plain) in varying:
        raise DataError(f"The formula has two effects of {plain} that change with time.")
    varying[str(plain)] = settings[0]
    return plain


def outcome_of(text: str) -> str:
    """Return the left-hand side of a formula, which may be empty."""
    return _sides(text)[0]


def _sides(text: str) -> tuple[str, str]:
    """Split a formula into its outcome and its terms."""
    if not isinstance(text, str) or text.count("~") != 1:
        raise DataError(f"formula must be text with one '~', such as 'y ~ x1 + x2', not {text!r}.")
    outcome, right = (part.strip() for part in text.split("~"))
    if not right:
        raise DataError("The formula has nothing after '~'; a model without covariates is '~ 1'.")
    return outcome, right


def _without_dot(outcome: str, right: str, data: pd.DataFrame) -> str:
    """Replace "." by all columns that are not used elsewhere in the formula."""
    if not DOT.search(right):
        return right
    rest = outcome + " " + DOT.sub(" ", right)
    used = {a or b for a, b in NAMES.findall(rest)}
    others = [f"`{name}`" for name in data.columns if str(name) not in used]
    if not others:
        raise DataError("'.' stands for the columns not named otherwise, and there are none.")
    return DOT.sub(f"({' + '.join(others)})", right)
