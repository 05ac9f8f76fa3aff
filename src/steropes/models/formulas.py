"""Models from formulas: reading "Surv(time, event) ~ drug * age + strata(site)" with formulaic."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Any, Self

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from ..data.outcome import Surv
from ..errors import DataError
from .one_thread import OneBlasThread

__all__ = ["FormulaMixin"]

FIT = ("sample_weight", "offset", "exposure", "strata")  # arguments of `fit`
SPECIAL = re.compile(r"^(strata|offset)\((.*)\)$", re.DOTALL)
# What terms of a formula know by name (formulaic's transforms that remember nothing of the data).
ELEMENTWISE = {
    "log": np.log, "log10": np.log10, "log2": np.log2, "exp": np.exp, "I": lambda x: x,
}  # fmt: skip
COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # of a terminal, in formulaic's messages
DOT = re.compile(r"(?<![\w.)\]])\.(?![\w(])")


def _surv(*args: Any, **named: Any) -> np.ndarray:
    if len(args) > 2:
        raise DataError(
            "Surv(a, b, c) in a formula is Surv(start, stop, event) to some and Surv(time, event, "
            "entry) to others: say Surv(stop, event, entry=start)."
        )
    return Surv(*args, **named)


def _strata(*columns: Any) -> Any:
    if len(columns) == 1:
        return columns[0]
    labels = np.empty(len(columns[0]), object)
    labels[:] = list(zip(*columns, strict=True))
    return labels


@dataclass
class Formula:
    """A formula that was read.

    Attributes
    ----------
    text : str
    outcome : str
        The left-hand side.
    spec : formulaic.ModelSpec
        Columns of X, with what splines and codings remember of the data.
    strata : str or None
    offsets : list of str
        Expressions.
    """

    text: str
    outcome: str
    spec: Any
    strata: str | None
    offsets: list[str]

    def matrix(self, data: pd.DataFrame) -> pd.DataFrame:
        """X of new data; an intercept is the model's own."""
        X = _evaluated(lambda: self.spec.get_model_matrix(data, na_action="raise"))
        return pd.DataFrame(X).drop(columns="Intercept", errors="ignore")

    def vectors(self, data: pd.DataFrame) -> dict[str, Any]:
        """Strata and offset of new data, where the formula has them."""
        out: dict[str, Any] = {}
        if self.strata is not None:
            out["strata"] = _value(self.strata, data)
        if self.offsets:
            parts = [np.asarray(_value(text, data), np.float64) for text in self.offsets]
            out["offset"] = np.sum(parts, axis=0)
        return out


def _formulaic() -> Any:
    try:
        import formulaic
    except ModuleNotFoundError as error:
        raise ImportError(
            'Formulas need the package formulaic: pip install "steropes[formulas]"',
            name="formulaic",
        ) from error
    return formulaic


def _evaluated(call: Any) -> Any:
    """What a call of formulaic gives, its errors and doubts as ours."""
    errors = _formulaic().errors
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.DataMismatchWarning)
        try:
            return call()
        except DataError:
            raise
        except errors.DataMismatchWarning as error:
            raise DataError(
                f"A column has values that the fit has not seen ({error}). Merge or drop them."
            ) from None
        except (errors.FormulaicError, ValueError, NameError, SyntaxError, TypeError) as error:
            cause = error.__cause__ or error
            if isinstance(cause, DataError):
                raise cause from None
            said = COLOURS.sub("", str(cause))
            raise DataError(f"The formula cannot be evaluated: {said}") from None


def _value(text: str, data: pd.DataFrame) -> Any:
    """The value of an expression in the columns of data."""
    from formulaic.utils.stateful_transforms import stateful_eval

    from .cumulative import Censored

    env = {
        **ELEMENTWISE, "np": np, "Surv": _surv, "Censored": Censored,
        "strata": _strata, "offset": lambda x: x,
        **{str(name): data[name] for name in data.columns},
    }  # fmt: skip
    value = _evaluated(lambda: stateful_eval(text, env, {}, {}, None))
    missing = value.isna() if isinstance(value, pd.Series) else None
    if missing is not None and missing.any():
        row = int(np.argmax(missing.to_numpy()))
        raise DataError(f"{text} is missing in row {row}; drop the row or impute it.")
    return value


def _frame(data: Any) -> pd.DataFrame:
    frame = nw.from_native(data, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise DataError(
            f"data must be a pandas, polars or pyarrow table, not {type(data).__name__}."
        )
    return frame.to_pandas()


def _read(text: str, data: pd.DataFrame, intercept: bool) -> tuple[Formula, bool]:
    """Read a formula; also say whether it has an intercept."""
    if not isinstance(text, str) or text.count("~") != 1:
        raise DataError(f"formula must be text such as 'y ~ x1 + x2', not {text!r}.")
    outcome, right = (part.strip() for part in text.split("~"))
    if not outcome:
        raise DataError("The formula has no outcome before '~'.")
    formulaic = _formulaic()
    right = _without_dot(outcome, right, data)
    terms = list(_evaluated(lambda: formulaic.Formula(right)))
    strata: str | None = None
    offsets, kept, has_intercept = [], [], False
    for term in terms:
        texts = [factor.expr for factor in term.factors]
        special = [SPECIAL.match(x) for x in texts]
        if any(special) and len(texts) > 1:
            raise DataError(
                f"{term} cannot be: strata() and offset() stand by themselves. For effects that "
                "differ by stratum write its column's interaction, such as x:C(site)."
            )
        if not special or special[0] is None:
            has_intercept |= texts == ["1"]
            kept.append(term)
        elif special[0].group(1) == "offset":
            offsets.append(texts[0])
        elif strata is not None:
            raise DataError("The formula has strata() twice; write strata(a, b).")
        else:
            strata = texts[0]
    if not intercept and not has_intercept:
        raise DataError("This model has no intercept to leave out: drop -1 or 0 from the formula.")
    model = formulaic.Formula(kept)
    X = _evaluated(lambda: model.get_model_matrix(data, na_action="raise", output="pandas"))
    return Formula(text, outcome, X.model_spec, strata, offsets), has_intercept


def _without_dot(outcome: str, right: str, data: pd.DataFrame) -> str:
    """Write out "." as all columns that the formula does not name otherwise."""
    if not DOT.search(right):
        return right
    rest = outcome + " " + DOT.sub(" ", right)
    named = set(re.findall(r"`([^`]+)`|(\w+)", rest))
    used = {a or b for a, b in named}
    others = [f"`{name}`" for name in data.columns if str(name) not in used]
    if not others:
        raise DataError("'.' stands for the columns not named otherwise, and there are none.")
    return DOT.sub(f"({' + '.join(others)})", right)


class FormulaMixin(OneBlasThread):
    """Fitting from a formula, and X of new data by the same formula."""

    _intercept: bool
    _fitted: frozenset[str]
    _formula: Formula
    formula_: str

    @classmethod
    def from_formula(cls, formula: str, data: Any, **fit: Any) -> Self:
        """Fit a model that a formula describes.

        Parameters
        ----------
        formula : str
            Such as ``"y ~ x1 + bs(age, df=4) + drug:sex"``, in formulaic's language (that of R
            and patsy): ``a*b``, ``C(x)`` for codes that are labels, splines ``bs``, ``cr`` and
            ``poly``, functions of NumPy as ``np.…``, and ``.`` for all columns not named
            otherwise. The outcome may be ``Surv(time, event)`` or
            ``Surv(stop, event, entry=start)``. ``strata(a, b)`` and ``offset(x)`` are those of
            ``fit``.
        data : pandas, polars or pyarrow table
            Missing values are refused.
        **fit
            Arguments of ``fit``, each also as the name of a column (``sample_weight="w"``), and
            settings of the model (``prior=``, ``ties=``, …).

        Returns
        -------
        fitted estimator
            ``formula_`` is the formula, ``design_matrix(data)`` gives X of other people by it,
            and ``design_vectors(data)`` their strata and offset, as predictions take them.

        Raises
        ------
        DataError
            A formula that cannot be read or evaluated.

        Examples
        --------
        >>> import pandas as pd, steropes
        >>> data = pd.DataFrame({"time": [5, 3, 4, 2, 6], "dead": [1, 1, 0, 1, 0],
        ...                      "dose": ["low", "high", "low", "low", "high"]})
        >>> m = steropes.CoxRegression.from_formula("Surv(time, dead) ~ dose", data)
        >>> m.summary().index.tolist()
        ['dose[T.low]']
        """
        frame = _frame(data)
        read, has_intercept = _read(formula, frame, cls._intercept)
        given = {name: fit.pop(name) for name in FIT if fit.get(name) is not None}
        for name, value in given.items():
            if isinstance(value, str):
                if value not in frame.columns:
                    raise DataError(f"{name}={value!r} is not a column of the data.")
                given[name] = frame[value]
        for name, value in read.vectors(frame).items():
            if name in given:
                raise DataError(f"{name} is in the formula and among the arguments; give it once.")
            given[name] = value
        settings = {name: value for name, value in fit.items() if name not in FIT}
        if cls._intercept and not has_intercept:
            if settings.get("fit_intercept"):
                raise DataError("The formula leaves the intercept out, and fit_intercept=True.")
            settings["fit_intercept"] = False
        model: Any = cls(**settings)
        outcome = _value(read.outcome, frame)
        model.fit(read.matrix(frame), outcome, **given)
        model._formula, model.formula_ = read, read.text
        model._fitted |= {"_formula", "formula_"}
        return model

    def _read_formula(self) -> Formula:
        read = getattr(self, "_formula", None)
        if read is None:
            raise DataError("The model was not fitted from a formula; pass X itself.")
        return read

    def design_matrix(self, data: Any) -> pd.DataFrame:
        """X of other people, by the formula that the model was fitted from.

        Parameters
        ----------
        data : pandas, polars or pyarrow table

        Returns
        -------
        DataFrame, (n, p)
            Splines and codings are those of the fit; a label that the fit has not seen is
            refused.
        """
        return self._read_formula().matrix(_frame(data))

    def design_vectors(self, data: Any) -> dict[str, Any]:
        """Strata and offset of other people, by the formula that the model was fitted from.

        Parameters
        ----------
        data : pandas, polars or pyarrow table

        Returns
        -------
        dict
            ``strata`` and ``offset``, those that the formula has, as predictions take them:
            ``predict_survival(m.design_matrix(new), times, **m.design_vectors(new))``.
        """
        return self._read_formula().vectors(_frame(data))
