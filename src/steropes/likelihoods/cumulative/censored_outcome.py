"""Outcomes that may be censored, as one structured array."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...data import check_response, refuse_other_order
from ...data.array_conversion import as_numbers, plain_array
from ...data.input_types import VectorLike
from ...data.ordered_categories import refuse_other_category_order
from ...data.vector_checks import squeeze_column
from ...errors import DataError

__all__ = ["Censored", "Interval", "check_interval"]


class Interval(NamedTuple):
    """A validated outcome; with ``upper`` None, ``lower`` holds exact values."""

    lower: np.ndarray
    upper: np.ndarray | None


def Censored(lower: ArrayLike, upper: ArrayLike) -> np.ndarray:
    """Build an outcome with detection limits or other censoring.

    A row with ``lower == upper`` is an exact observation; otherwise only lower < Y ≤ upper is
    known. An assay's lower limit L gives ``(-inf, L)`` and its upper limit U
    ``(U, inf)``; ``(a, b)`` is an interval.

    Parameters
    ----------
    lower, upper : (n,) arrays
        Bounds, lower ≤ upper; −∞ and ∞ are allowed.

    Returns
    -------
    (n,) structured array
        Fields ``lower`` and ``upper``; it slices like any array, so scikit-learn's splitters
        work on it.

    Raises
    ------
    DataError
        NaN, lower > upper, a row without any bound; the message names the row.

    See Also
    --------
    CumulativeProbabilityModel : The model that accepts it as y.
    Surv : Outcomes of survival models.

    Examples
    --------
    >>> import steropes
    >>> steropes.Censored([-float("inf"), 2.0], [1.0, 2.0])["upper"].tolist()
    [1.0, 2.0]
    """
    refuse_other_order(lower, "lower", upper=upper)
    a, b = _bound(lower, "lower"), _bound(upper, "upper")
    if len(a) != len(b):
        raise DataError(f"lower and upper must be alike, not of {len(a)} and {len(b)} entries.")
    y = np.empty(len(a), [("lower", np.float64), ("upper", np.float64)])
    y["lower"], y["upper"] = a, b
    _check(y["lower"], y["upper"])
    return y


def _bound(x: VectorLike, what: str) -> np.ndarray:
    """Convert one bound to a 1-D float64 copy, possibly infinite."""
    refuse_other_category_order(x, what)
    x = squeeze_column(as_numbers(x, what), what)
    if x.ndim != 1:
        raise DataError(f"{what} must be 1-dimensional, not of shape {x.shape}.")
    return x.astype(np.float64)


def _check(a: np.ndarray, b: np.ndarray) -> None:
    """Raise if a row has invalid bounds."""
    for bad, what in (
        (np.isnan(a) | np.isnan(b), "is NaN"),
        (a > b, "has lower > upper"),
        ((a == -np.inf) & (b == np.inf), "has no bound and says nothing; drop it"),
        ((a == b) & ~np.isfinite(a), "is infinite"),
    ):
        if bad.any():
            i = int(bad.argmax())
            raise DataError(f"y in row {i} {what}: lower {a[i]}, upper {b[i]}.")


def check_interval(y: VectorLike, n: int) -> Interval:
    """Read a 1-D outcome of numbers or a `Censored` array; n is the number of rows of X."""
    dtype = getattr(y, "dtype", None)
    names = getattr(dtype, "names", None)
    if not names:
        return Interval(check_response(y, n), None)
    if set(names) != {"lower", "upper"}:
        raise DataError(
            f"A structured y must have the fields 'lower' and 'upper' (see Censored), not {names}."
        )
    y = plain_array(y, "y")
    if y.shape != (n,):
        raise DataError(f"y has shape {y.shape}, but X has {n} rows.")
    a, b = _bound(y["lower"], "lower"), _bound(y["upper"], "upper")
    _check(a, b)
    return Interval(a, None if (a == b).all() else b)
