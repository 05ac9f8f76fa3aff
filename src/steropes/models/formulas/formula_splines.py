"""Splines in formulas: restricted cubic, natural and centred cubic regression splines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline

from ...errors import DataError

__all__ = [
    "ELEMENTWISE",
    "first_argument",
    "natural_spline",
    "restricted_cubic_spline",
    "short_name",
    "transforms",
]

# Functions of R's formulas that NumPy has under the same name.
ELEMENTWISE = {
    "abs": np.abs, "cos": np.cos, "expm1": np.expm1, "floor": np.floor, "log1p": np.log1p,
    "sin": np.sin, "sqrt": np.sqrt, "tan": np.tan,
}  # fmt: skip
# Outer quantiles of Harrell's knots by their number (Regression Modeling Strategies, table 2.3).
OUTER = {3: 0.1, 4: 0.05, 5: 0.05, 6: 0.05, 7: 0.025}
# In fewer rows the outer knots are the fifth smallest and the fifth largest value.
FEW_ROWS = 100


def harrell_knots(x: np.ndarray, k: object) -> np.ndarray:
    """Place k knots at quantiles of x, as `rcs(x, k)` of R's rms does by default.

    Parameters
    ----------
    x : (n,) array
    k : int
        3 to 7.

    Raises
    ------
    DataError
        Another number of knots, or x has too few distinct values.
    """
    if k not in OUTER:
        raise DataError(f"rcs() has 3 to 7 knots, not {k!r}; rcs(x, [10, 20, 50]) places knots.")
    knots = np.quantile(x, np.linspace(OUTER[k], 1.0 - OUTER[k], k))
    if 10 <= len(x) < FEW_ROWS:
        knots[[0, -1]] = np.sort(x)[[4, -5]]
    if len(np.unique(knots)) < k:
        raise DataError(
            f"rcs() places {k} knots at quantiles, and some coincide: x has too few distinct "
            "values. Use fewer knots, place them, as in rcs(x, [10, 20, 50]), or use C(x)."
        )
    return knots


def restricted_cubic_spline(x: ArrayLike, knots: ArrayLike) -> np.ndarray:
    """Compute Harrell's basis of a cubic spline that is linear beyond the outer knots.

    Parameters
    ----------
    x : (n,) array
    knots : (k,) array
        In ascending order.

    Returns
    -------
    (n, k − 1) array
        x itself and its nonlinear terms, divided by the squared distance of the outer knots as in
        R's ``rcspline.eval(norm=2)``.

    References
    ----------
    Harrell (2015), Regression Modeling Strategies, 2nd ed., equations 2.24 to 2.26.
    """
    x, t = np.asarray(x, float), np.asarray(knots, float)

    def cube(knot: float) -> np.ndarray:
        return np.maximum(x - knot, 0.0) ** 3 / (t[-1] - t[0]) ** 2

    gap = t[-1] - t[-2]
    terms = [
        cube(knot) - cube(t[-2]) * (t[-1] - knot) / gap + cube(t[-1]) * (t[-2] - knot) / gap
        for knot in t[:-2]
    ]
    return np.column_stack([x, *terms])


def natural_spline(x: ArrayLike, knots: ArrayLike) -> np.ndarray:
    """Compute the basis of natural cubic splines of R's ``ns``, without an intercept.

    The cubic B-splines but the first are combined so that second derivatives vanish at the outer
    knots. Beyond these the spline is linear.

    Parameters
    ----------
    x : (n,) array
    knots : (k,) array
        In ascending order, with the boundary knots.

    Returns
    -------
    (n, k − 1) array

    References
    ----------
    Hastie (1992), Statistical Models in S, ch. 7.
    """
    x, t = np.asarray(x, float), np.asarray(knots, float)
    lower, upper = t[0], t[-1]
    full = np.concatenate([[lower] * 3, t, [upper] * 3])
    basis = BSpline(full, np.eye(len(full) - 4), 3)
    inside = np.clip(x, lower, upper)
    values = basis(inside) + (x - inside)[:, None] * basis.derivative()(inside)
    constraints = basis.derivative(2)(np.array([lower, upper]))[:, 1:]
    q, _ = np.linalg.qr(constraints.T, mode="complete")
    return values[:, 1:] @ q[:, 2:]


@cache
def transforms() -> dict[str, Any]:
    """Return functions for formulaic: splines, which store the knots of the fit, and sqrt."""
    from formulaic.utils.stateful_transforms import stateful_transform

    splines = {"rcs": _rcs, "ns": _ns, "bs": _bs, "cr": _cr, "cs": _cr, "cc": _cc}
    stateful = {name: stateful_transform(function) for name, function in splines.items()}
    return {**stateful, **ELEMENTWISE}


def _rcs(x: object, knots: int | Sequence[float] = 5, *, _state: dict[str, Any]) -> Any:
    """Evaluate rcs() in a formula; the knots are those of the fit."""
    values = _numbers("rcs", x)
    if "knots" not in _state:
        given = _placed("rcs", knots, 3) if isinstance(knots, Iterable) else None
        _state["knots"] = harrell_knots(values, knots) if given is None else given
    X = restricted_cubic_spline(values, _state["knots"])
    return _columns(X, ["'" * j for j in range(X.shape[1])], getattr(x, "index", None))


def _ns(
    x: object,
    df: int | None = None,
    knots: Sequence[float] | None = None,
    *,
    _state: dict[str, Any],
) -> Any:
    """Evaluate ns() in a formula; the knots are those of the fit."""
    values = _numbers("ns", x)
    if "knots" not in _state:
        if (df is None) == (knots is None):
            raise DataError("ns(x, df=3) has df columns; ns(x, knots=[20, 40]) places knots.")
        if df is not None and df < 1:
            raise DataError(f"ns() has df=1 or more columns, not {df!r}.")
        shares = np.linspace(0, 1, (df or 1) + 1)[1:-1]
        inner = np.quantile(values, shares) if knots is None else np.asarray(knots, float)
        _state["knots"] = _placed("ns", [values.min(), *inner, values.max()], 2)
    X = natural_spline(values, _state["knots"])
    return _columns(X, range(1, X.shape[1] + 1), getattr(x, "index", None))


def _bs(
    x: object,
    df: int | None = None,
    knots: Sequence[float] | None = None,
    degree: int = 3,
    include_intercept: bool = False,
    lower_bound: float | None = None,
    upper_bound: float | None = None,
    extrapolation: str = "raise",
    *,
    _state: dict[str, Any],
) -> Any:
    """Evaluate bs() in a formula by formulaic; refuse values beyond the knots of the fit."""
    from formulaic.transforms.basis_spline import basis_spline

    if extrapolation == "raise":
        values = _numbers("bs", x)
        low = _state.get("lower_bound", lower_bound)
        high = _state.get("upper_bound", upper_bound)
        outside = np.zeros(len(values), bool)
        outside |= False if low is None else values < low
        outside |= False if high is None else values > high
        if outside.any():
            row, others = int(outside.argmax()), int(outside.sum()) - 1
            name = getattr(x, "name", None)
            more = f" and {others} more" if others else ""
            raise DataError(
                f"bs({'x' if name is None else name}) is beyond the range of the fit, "
                f"{low:g} to {high:g}, in row {row}{more}. Leave the rows out, or write "
                "extrapolation='extend' (as R) or 'clip' within bs(), or use ns(), which is linear "
                "there."
            )
    return basis_spline(
        x, df, knots, degree, include_intercept, lower_bound, upper_bound,
        extrapolation=extrapolation, _state=_state,
    )  # fmt: skip


def _cr(
    x: object,
    df: int | None = None,
    knots: Sequence[float] | None = None,
    lower_bound: float | None = None,
    upper_bound: float | None = None,
    constraints: Literal["center"] | ArrayLike | None = "center",
    extrapolation: str = "extend",
    *,
    _state: dict[str, Any],
) -> Any:
    """Evaluate cr() and cs() in a formula by formulaic, centred by default as in mgcv."""
    from formulaic.transforms.cubic_spline import natural_cubic_spline

    return natural_cubic_spline(
        x, df, knots, lower_bound, upper_bound, constraints, extrapolation=extrapolation,
        _state=_state,
    )  # fmt: skip


def _cc(
    x: object,
    df: int | None = None,
    knots: Sequence[float] | None = None,
    lower_bound: float | None = None,
    upper_bound: float | None = None,
    constraints: Literal["center"] | ArrayLike | None = "center",
    *,
    _state: dict[str, Any],
) -> Any:
    """Evaluate cc() in a formula by formulaic, centred by default as in mgcv."""
    from formulaic.transforms.cubic_spline import cyclic_cubic_spline

    return cyclic_cubic_spline(x, df, knots, lower_bound, upper_bound, constraints, _state=_state)


def _columns(X: np.ndarray, names: Sequence[str | int], index: pd.Index | None) -> Any:
    """Wrap the columns of a basis for formulaic."""
    from formulaic.materializers.types import FactorValues

    table = {name: pd.Series(x, index) for name, x in zip(names, X.T, strict=True)}
    return FactorValues(table, kind="numerical", spans_intercept=False, format="{name}[{field}]")


def _numbers(name: str, x: object) -> np.ndarray:
    """Return the argument of a spline as a vector of numbers."""
    values = np.asarray(x)
    if values.ndim != 1 or values.dtype.kind not in "fiub":
        raise DataError(f"{name}() takes one column of numbers.")
    return values.astype(np.float64)


def _placed(name: str, knots: Iterable[float], least: int) -> np.ndarray:
    """Return knots, which must be distinct and in ascending order."""
    placed = np.asarray(list(knots), float)
    if len(placed) < least or not (np.diff(placed) > 0).all():
        raise DataError(
            f"{name}() needs {least} or more knots in ascending order"
            f"{', boundaries included' if name == 'ns' else ''}, not {placed.tolist()}."
        )
    return placed


def short_name(column: str, expressions: Iterable[str]) -> str:
    """Replace restricted cubic splines in the name of a column by x, x', x'' and so on.

    Parameters
    ----------
    column : str
        For example ``"rcs(age, 4)[']:male"``.
    expressions : iterable of str
        The factors of the formula, such as ``"rcs(age, 4)"``.

    Returns
    -------
    str
        ``"age':male"``, as in R's rms.
    """
    for text in expressions:
        if text.startswith("rcs(") and text in column:
            name = first_argument(text)
            column = re.sub(
                re.escape(text) + r"\[('*)\]", name.replace("\\", r"\\") + r"\1", column
            )
    return column


def first_argument(call: str) -> str:
    """Return the first argument of a call, without the backticks of a quoted name."""
    text, depth = call.partition("(")[2][:-1], 0
    for i, character in enumerate(text):
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            text = text[:i]
            break
    return text.strip().strip("`")
