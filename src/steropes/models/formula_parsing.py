"""Parsing and evaluation of formulas such as "Surv(time, event) ~ drug * age + strata(site)"."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Literal, TypeAlias, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from narwhals.exceptions import DuplicateError
from numpy.typing import ArrayLike

from ..data.array_conversion import as_numbers, refuse_lazy_query
from ..data.input_types import LabelsLike
from ..data.survival_outcome import Surv
from ..errors import DataError
from .formula_dtypes import (
    DOT,
    NAMES,
    names_in,
    refuse_sums_of_conditions,
    widen_numbers,
)
from .formula_safety import refuse_unsafe_expression, refuse_unsafe_formula
from .formula_splines import short_name, transforms
from .formula_time_effects import read_time_effect
from .formula_variables import FormulaVariable

__all__ = [
    "Formula",
    "as_pandas_table",
    "drop_unused_categories",
    "evaluate_expression",
    "read_formula",
]

SPECIAL = re.compile(r"^(strata|offset|cluster)\((.*)\)$", re.DOTALL)
# Functions available in formulas that do not depend on the data (formulaic's stateless ones).
ELEMENTWISE = {
    "log": np.log, "log10": np.log10, "log2": np.log2, "exp": np.exp, "I": lambda x: x,
}  # fmt: skip
OF_EXPRESSIONS = (
    RecursionError, MemoryError, ValueError, NameError, SyntaxError, TypeError, AttributeError,
    ArithmeticError, LookupError,
)  # fmt: skip
# Terminal colours in formulaic's messages.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
NULLS = re.compile(r"^`(.*)` contains null values", re.DOTALL)
# Functions of R's formulas that are refused, with the equivalent in this library.
OF_R = {
    "frailty": "For effects of many groups give C(group) a Normal prior.",
    "ridge": "Shrinkage is prior=Normal(variance).",
    "pspline": "Write bs(x, df=8) and give it a Normal prior.",
    "s": "Write bs(x, df=8) and give it a Normal prior.",
    "factor": "Codes that are labels are C(x).",
    "cbind": "Of counts make a row for each outcome, with its count as sample_weight.",
}
# Functions of formulaic that take a column and store properties of the data.
TRANSFORMS = {
    "C", "bs", "cc", "center", "cr", "cs", "hashed", "lag", "ns", "poly", "rcs", "scale",
    "standardize",
}  # fmt: skip
DATES = {"date", "datetime", "datetime64", "time", "timedelta", "timedelta64", "period"}
CALL = re.compile(rf"(?<![\w.])({'|'.join(OF_R)})\s*\(")

# The value of an expression: a column, an outcome or labels.
Evaluated: TypeAlias = np.ndarray | pd.Series
Result = TypeVar("Result")


def _surv(*args: ArrayLike, **named: ArrayLike) -> np.ndarray:
    """Evaluate Surv() in a formula; refuse three positional arguments, which are ambiguous."""
    if len(args) > 2:
        raise DataError(
            "Surv(a, b, c) in a formula is Surv(start, stop, event) to some and Surv(time, event, "
            "entry) to others: say Surv(stop, event, entry=start)."
        )
    return Surv(*args, **named)


def _strata(*columns: LabelsLike) -> LabelsLike:
    """Evaluate strata() in a formula; several columns become tuples."""
    if len(columns) == 1:
        return columns[0]
    labels = np.empty(len(columns[0]), object)
    labels[:] = list(zip(*columns, strict=True))
    return labels


@dataclass
class Formula:
    """A parsed formula.

    Attributes
    ----------
    text : str
    outcome : str
        The left-hand side.
    spec : formulaic.ModelSpec
        Columns of X, with the state of splines and codings from the data of the fit.
    strata, cluster : str or None
        Expressions.
    offsets : list of str
        Expressions.
    columns : dict
        Names of columns that were passed as ``strata`` or ``offset`` in addition to the formula.
    variables : dict
        Ranges and typical values of the columns of data that the right-hand side uses.
    varying : dict
        Value of ``time_varying`` of each term with an effect that changes with time.
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

    def matrix(self, data: pd.DataFrame) -> pd.DataFrame:
        """Compute X of new data, without an intercept."""
        data = widen_numbers(data, self.text)
        X = _evaluated(
            lambda: self.spec.get_model_matrix(data, context=transforms(), na_action="raise"), data
        )
        factors = {str(factor.expr) for term in self.spec.formula for factor in term.factors}
        table = pd.DataFrame(X).drop(columns="Intercept", errors="ignore")
        return table.rename(columns=lambda name: short_name(name, factors))

    def vector(self, name: Literal["strata", "offset"], data: pd.DataFrame) -> Evaluated | None:
        """Compute strata or offset of new data; None if neither the formula nor the fit has any."""
        if name in self.columns:
            return self._column_of_data(name, data)
        wide = widen_numbers(data, self.text)
        if name == "strata":
            return None if self.strata is None else evaluate_expression(self.strata, wide)
        if not self.offsets:
            return None
        return np.sum([_offset(text, data, wide) for text in self.offsets], axis=0)

    def _column_of_data(self, name: str, data: pd.DataFrame) -> pd.Series:
        """Return the column that the fit used as strata or offset; refuse missing values."""
        column = self.columns[name]
        if column not in data:
            raise DataError(
                f"The table has no column {column!r}, which was the {name} of the fit; add it, or "
                f"give {name}=…."
            )
        if data[column].isna().any():
            raise _missing(column, data)
        return data[column]

    def vectors(self, data: pd.DataFrame) -> dict[str, Any]:
        """Compute the strata and the offset of new data, if the formula has them."""
        both = {"strata": self.vector("strata", data), "offset": self.vector("offset", data)}
        return {name: value for name, value in both.items() if value is not None}


def _formulaic() -> ModuleType:
    """Import formulaic, an optional dependency."""
    try:
        import formulaic
    except ModuleNotFoundError as error:
        raise ImportError(
            'Formulas need the package formulaic: pip install "steropes[formulas]"',
            name="formulaic",
        ) from error
    return formulaic


def _evaluated(call: Callable[[], Result], data: pd.DataFrame | None = None) -> Result:
    """Call formulaic and convert its errors and warnings; ``data`` serves to name rows."""
    errors = _formulaic().errors
    with warnings.catch_warnings():
        # Users cannot change how formulaic calls pandas.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("error", errors.DataMismatchWarning)
        try:
            with np.errstate(divide="ignore", invalid="ignore"):  # log(0) is refused by its row
                return call()
        except DataError:
            raise
        except errors.DataMismatchWarning as error:
            raise DataError(
                f"A column has values that the fit has not seen ({error}). Merge or drop them."
            ) from None
        except (errors.FormulaicError, *OF_EXPRESSIONS) as error:
            raise _as_ours(error, data) from None


def _as_ours(error: BaseException, data: pd.DataFrame | None) -> DataError:
    """Convert an error of formulaic to a `DataError`.

    This is a separate function because a frame of the traceback with a variable that refers to
    the error would form a cycle, which keeps the data in memory until garbage collection.
    """
    cause = error.__cause__ or error
    if isinstance(cause, DataError):
        return cause
    if isinstance(cause, SyntaxError):
        return _no_expression(cause)
    said = COLOURS.sub("", str(cause))
    nulls = NULLS.match(said)
    if nulls and data is not None:
        return _missing(nulls.group(1), data)
    return DataError(f"The formula cannot be evaluated: {said}")


def _no_expression(error: SyntaxError) -> DataError:
    """Describe a part of a formula that is not an expression of Python."""
    text = (error.text or "").strip()
    part = f"{text!r} in the formula" if text else "A part of the formula"
    if ":" in text:
        return DataError(
            f"{part} has a colon within parentheses, which only joins whole terms: write a product "
            "of numbers, such as step(x * z, [90]), or an interaction outside, such as C(x):z."
        )
    return DataError(f"{part} is not an expression of Python ({error.msg}).")


def _missing(text: str, data: pd.DataFrame) -> DataError:
    """Describe where an expression of a formula is missing, with the column and row."""
    named = [text] if text in data else sorted(names_in(text) & set(map(str, data.columns)))
    for name in named:
        empty = np.flatnonzero(np.asarray(pd.isna(data[name])))
        if len(empty):
            cause = "" if name == text else f", because column {name!r} is"
            return DataError(
                f"{text} is missing in {_rows(empty)}{cause}: drop such rows or impute it."
            )
    try:
        empty = np.flatnonzero(np.asarray(pd.isna(_unchecked(text, data))))
    except DataError:  # a spline or a coding, which formulaic evaluates only within a model
        return DataError(f"{text} is missing in some rows: drop such rows or impute it.")
    return DataError(f"{text} is missing in {_rows(empty)}: drop such rows or impute it.")


def _refuse_missing_arguments(text: str, data: pd.DataFrame) -> None:
    """Refuse missing values in a column that a transform takes.

    Some transforms of formulaic give a missing value a number: ``hashed`` a level of its own, and
    ``bs`` of a constant column zero.
    """
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:  # reported by whoever evaluates it
        return
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
            continue
        argument = node.args[0]
        if node.func.id not in TRANSFORMS or not isinstance(argument, ast.Name):
            continue
        if argument.id in data and data[argument.id].isna().any():
            raise _missing(text, data)


def _rows(rows: np.ndarray) -> str:
    """Describe some rows for a message."""
    return f"row {rows[0]}" + (f" and {len(rows) - 1} more" if len(rows) > 1 else "")


def evaluate_expression(text: str, data: pd.DataFrame) -> Evaluated | None:
    """Evaluate an expression in the columns of data; refuse missing values."""
    refuse_sums_of_conditions(text, data)
    value = _unchecked(text, data)
    if isinstance(value, pd.Series) and value.isna().any():
        raise _missing(text, data)
    return value


def _unchecked(text: str, data: pd.DataFrame) -> Evaluated | None:
    """Evaluate an expression in the columns of data."""
    from formulaic.utils.stateful_transforms import stateful_eval

    from ..likelihoods.cumulative import Censored

    env = {
        **ELEMENTWISE, "np": np, "Surv": _surv, "Censored": Censored,
        "strata": _strata, "cluster": _strata, "offset": lambda x: x,
        **{str(name): data[name] for name in data.columns},
    }  # fmt: skip
    return _evaluated(lambda: stateful_eval(text, env, {}, {}, None))


def as_pandas_table(data: object) -> pd.DataFrame:
    """Convert a pandas, polars or pyarrow table to pandas."""
    refuse_lazy_query(data, "data")
    try:
        frame = nw.from_native(data, eager_only=True, pass_through=True)
    except DuplicateError as error:
        raise DataError(f"Columns of data have the same name: {error}") from None
    if not isinstance(frame, nw.DataFrame):
        raise DataError(
            f"data must be a pandas, polars or pyarrow table, not {type(data).__name__}."
        )
    table = frame.to_pandas()
    # formulaic treats text as labels only in columns of objects, and any other object as a label.
    types: dict[Any, Any] = {}
    for name, kind in frame.schema.items():
        plain = table[name].dtype == object
        if kind == nw.String and not plain:
            types[name] = object
        elif (
            kind == nw.Categorical
            and not isinstance(data, pd.DataFrame)
            and not table[name].cat.ordered
        ):
            # Unordered categories of polars and Arrow are in the order in which they were met.
            sorted_labels = sorted(table[name].cat.categories)
            table = table.assign(**{name: table[name].cat.reorder_categories(sorted_labels)})
        elif isinstance(kind, nw.Enum):  # polars' conversion loses the order
            types[name] = pd.CategoricalDtype(list(kind.categories), ordered=True)
        elif kind == nw.Decimal or (plain and pd.api.types.infer_dtype(table[name]) == "decimal"):
            types[name] = np.float64
    return table.astype(types) if types else table


def drop_unused_categories(data: pd.DataFrame) -> pd.DataFrame:
    """Remove unused categories, which remain when rows of a table are selected."""
    kinds = {name: kind for name, kind in data.dtypes.items() if kind == "category"}
    return data.assign(**{str(k): data[k].cat.remove_unused_categories() for k in kinds})


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
    text: str, data: pd.DataFrame, intercept: bool, trusted: bool = False
) -> tuple[Formula, bool]:
    """Read a formula.

    Parameters
    ----------
    text : str
    data : DataFrame
    intercept : bool
        Whether the model can have an intercept.
    trusted : bool
        Whether to evaluate any Python in the formula, and not only documented functions.

    Returns
    -------
    formula : Formula
    has_intercept : bool

    Raises
    ------
    DataError
        If the formula cannot be read or is not allowed.
    """
    outcome, right = _sides(text)
    columns = frozenset(map(str, data.columns))
    if not trusted:
        refuse_unsafe_formula(text, len(DOT.findall(right)))
        refuse_unsafe_expression(outcome, columns)
    foreign = CALL.search(re.sub("`[^`]*`", "", text))
    if foreign:
        raise DataError(f"There is no {foreign.group(1)}() here. {OF_R[foreign.group(1)]}")
    formulaic = _formulaic()
    right = _without_dot(outcome, right, data)
    parsed = _evaluated(lambda: formulaic.Formula(right))
    if not isinstance(parsed, formulaic.SimpleFormula):
        raise DataError("A formula here has one right-hand side; '|' divides it in several.")
    terms = list(parsed)
    labels: dict[str, str] = {}  # of strata and clusters
    offsets, kept, has_intercept = [], [], False
    varying: dict[str, object] = {}  # of terms with effects that change with time
    constant: set[str] = set()
    for whole in terms:
        term = _constant_term(whole, varying)
        texts = [factor.expr for factor in term.factors]
        if not trusted:
            for factor in term.factors:
                if factor.eval_method.value == "python":
                    refuse_unsafe_expression(factor.expr, columns)
        special = [SPECIAL.match(x) for x in texts]
        if any(special) and len(texts) > 1:
            raise DataError(
                f"{term} is not possible: strata(), cluster() and offset() are terms of their own. "
                "For effects that differ by stratum write its column's interaction, such as "
                "x:C(site)."
            )
        if not special or special[0] is None:
            _refuse_dates(texts, data)
            for expression in texts:
                refuse_sums_of_conditions(expression, data)
                _refuse_missing_arguments(expression, data)
            has_intercept |= texts == ["1"]
            constant |= {str(term)} if term is whole else set()
            if str(term) in constant & set(varying):
                raise DataError(
                    f"The formula has {term} with a constant effect and with one that changes with "
                    "time, which contains it: leave the constant one out."
                )
            kept.append(term)
        elif special[0].group(1) == "offset":
            offsets.append(texts[0])
        elif (kind := special[0].group(1)) in labels:
            raise DataError(f"The formula has {kind}() twice; write {kind}(a, b).")
        else:
            labels[kind] = texts[0]
    if not intercept and not has_intercept:
        raise DataError("This model has no intercept to leave out: drop -1 or 0 from the formula.")
    model = formulaic.Formula(kept)
    X = _evaluated(
        lambda: model.get_model_matrix(
            data, context=transforms(), na_action="raise", output="pandas"
        ),
        data,
    )
    strata, cluster = labels.get("strata"), labels.get("cluster")
    read = Formula(text, outcome, X.model_spec, strata, offsets, cluster, varying=varying)
    return read, has_intercept


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
    plain = next(iter(_evaluated(lambda: _formulaic().Formula("0 + " + ":".join(texts)))))
    if str(plain) in varying:
        raise DataError(f"The formula has two effects of {plain} that change with time.")
    varying[str(plain)] = settings[0]
    return plain


def _sides(text: str) -> tuple[str, str]:
    """Split a formula into its outcome and its terms."""
    if not isinstance(text, str) or text.count("~") != 1:
        raise DataError(f"formula must be text such as 'y ~ x1 + x2', not {text!r}.")
    outcome, right = (part.strip() for part in text.split("~"))
    if not outcome:
        raise DataError("The formula has no outcome before '~'.")
    if not right:
        raise DataError("The formula has nothing after '~'; a model without covariates is '~ 1'.")
    return outcome, right


def _refuse_dates(texts: list[str], data: pd.DataFrame) -> None:
    """Refuse a term that is a column of dates; expressions may convert dates to numbers."""
    for text in texts:
        name = text.strip("`")
        if name in data.columns and pd.api.types.infer_dtype(data[name]) in DATES:
            raise DataError(
                f"Column {name!r} holds dates or durations, not numbers; turn it into a number of "
                f"days, or of years, since a day that you choose, or say C({text}) for labels."
            )


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
