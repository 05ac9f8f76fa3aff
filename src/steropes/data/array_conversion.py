"""Conversion of arrays, lists and series of any library to NumPy arrays of numbers."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from numbers import Real

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from scipy import sparse

from ..errors import DataError

__all__ = [
    "MASKED",
    "NotNumbers",
    "as_numbers",
    "as_series",
    "plain_array",
    "refuse_lazy_query",
    "unmasked",
]

MASKED = "masked. Drop it, or fill it in with numpy.ma.filled if you know its value."
TIMES = (np.timedelta64, np.datetime64, timedelta, date, pd.Period)
DAYS = (
    "Say in which unit: (t - origin) / numpy.timedelta64(1, 'D') for an array, "
    "(t - origin).dt.days in pandas, .dt.total_days() in polars."
)
# Up to this size a float represents every whole number exactly.
EXACT = 2**53
SCALARS = (bool, int, float, np.bool_, Decimal, Fraction)


class NotNumbers(DataError, TypeError):
    """The values have the wrong type; also a `TypeError`, as NumPy and scikit-learn raise."""


def in_row(index: tuple[int, ...]) -> str:
    """Describe the position of an entry of a vector."""
    return f"row {index[0]}" if index else "the value"


def unmasked(
    x: np.ndarray, what: str, place: Callable[[tuple[int, ...]], str] = in_row
) -> np.ndarray:
    """Return the data of a masked array; refuse masked entries."""
    mask: np.ndarray = np.ma.getmaskarray(x)
    if mask.dtype.names:  # structured: an entry has a mask for each field
        mask = np.logical_or.reduce([mask[f] for f in mask.dtype.names])
    if mask.any():
        at = tuple(int(i) for i in np.argwhere(mask)[0])
        raise DataError(f"{what} is a masked array whose {place(at)} is {MASKED}")
    return np.asarray(x.data)


def as_numbers(
    x: object, what: str, place: Callable[[tuple[int, ...]], str] = in_row, of: str | None = None,
    exact: bool = True,
) -> np.ndarray:  # fmt: skip
    """Convert to an array of real numbers of a NumPy type, possibly NaN; a copy or a view.

    Parameters
    ----------
    place : callable
        Function from an index to a description such as "row 3".
    of : str, optional
        The name that messages about missing values use instead of ``what``.
    exact : bool
        Whether to refuse whole numbers beyond 2⁵³, which floats cannot distinguish, so that
        different times could become tied. False for covariates, where it makes no difference.

    Raises
    ------
    DataError
        If an entry is not a real number; the message names the row.
    """
    if exact and isinstance(x, list | tuple):  # NumPy may convert them to floats
        _refuse_rounded_entries(x, what, place)
    x = plain_array(x, what, place)
    kind = x.dtype.kind
    if exact and kind in "iuf":
        _refuse_rounded(x, what, place)
    if exact and kind == "O":
        _refuse_rounded_entries(x, what, place)
    if kind in "fiub":
        return x
    if kind == "c":
        raise DataError(f"Complex data not supported: {what} must be real.")
    if kind in "mM":
        raise DataError(f"{what} holds dates or durations ({x.dtype}), not numbers. {DAYS}")
    if kind == "V":
        raise DataError(f"{what} is a structured array ({x.dtype}); pass one of its fields.")
    if kind in "US":
        raise NotNumbers(_text(what, place((0,) * x.ndim), x.flat[0] if x.size else ""))
    if kind == "O":
        return _from_objects(x, what, place, of or what)
    raise DataError(f"{what} must hold numbers, not {x.dtype}.")


def _refuse_rounded(x: np.ndarray, what: str, place: Callable[[tuple[int, ...]], str]) -> None:
    """Refuse integers (and long floats) of an array that float64 would round."""
    if x.dtype.itemsize < (16 if x.dtype.kind == "f" else 8) or not x.size:
        return
    with np.errstate(invalid="ignore", over="ignore"):
        beyond = (x > EXACT) | (x < -EXACT) if x.dtype.kind != "u" else x > EXACT
        if x.dtype.kind == "f":
            beyond &= x.astype(np.float64) != x
    if beyond.any():
        at = tuple(int(i) for i in np.argwhere(beyond)[0])
        raise DataError(_rounded(what, place(at), x[at]))


def _refuse_rounded_entries(
    x: np.ndarray | list | tuple,
    what: str,
    place: Callable[[tuple[int, ...]], str],
    above: tuple[int, ...] = (),
) -> None:
    """Refuse integers that float64 would round in a list or an array of objects."""
    places: Iterable[tuple[int, ...]]
    values: Iterable
    if isinstance(x, np.ndarray):
        places, values = np.ndindex(x.shape), x.flat
    else:
        places, values = ((i,) for i in range(len(x))), x
    for index, value in zip(places, values, strict=True):
        at = above + index
        if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim):
            _refuse_rounded_entries(value, what, place, at)
        elif isinstance(value, Decimal) and not value.is_finite():
            continue  # NaN is refused later, with a message about missing values
        elif isinstance(value, int | np.integer | Decimal | Fraction) and not (
            -EXACT <= value <= EXACT
        ):
            raise DataError(_rounded(what, place(at), value))


def _rounded(what: str, where: str, value: object) -> str:
    """Return the message about a whole number that a float cannot represent."""
    return (
        f"{what} is {value} in {where}, beyond 2**53, where a float cannot tell a whole number "
        "from the next. Subtract an origin that is the same for all rows, or use a coarser unit."
    )


def refuse_lazy_query(x: object, what: str) -> None:
    """Refuse a polars LazyFrame, because its number of rows is unknown until it is collected."""
    if nw.dependencies.is_polars_lazyframe(x):
        raise DataError(f"{what} is a query that has not been run; collect() it.")


def plain_array(
    x: object, what: str, place: Callable[[tuple[int, ...]], str] = in_row
) -> np.ndarray:
    """Convert to a NumPy array of any type; refuse masked entries and unordered containers."""
    if isinstance(x, np.ma.MaskedArray):
        return unmasked(x, what, place)
    if x is None:
        raise DataError(f"{what} is None; pass an array of numbers.")
    if sparse.issparse(x):
        raise DataError(f"{what} is a sparse matrix; pass {what}.toarray().ravel().")
    refuse_lazy_query(x, what)
    if isinstance(x, str | bytes | Mapping | Set):
        raise DataError(f"{what} must be an array, not {type(x).__name__}: it has no rows.")
    series = as_series(x)
    if series is not None:
        return _from_series(series, what)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # a masked entry in a list of numbers
            x = np.asarray(x)
    except DataError:  # raised by a ShardedDesign, which is not an array
        raise
    except UserWarning:
        raise DataError(f"{what} has an entry that is {MASKED}") from None
    except OverflowError as error:
        raise DataError(f"{what} has a number that no float can hold: {error}.") from None
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{what} cannot be read as an array: {error}. Give all rows the same length."
        ) from None
    return x


def as_series(x: object) -> nw.Series | None:
    """Wrap a series of any library; return None if x is not a series."""
    if "pyarrow" in sys.modules:
        import pyarrow as pa

        if isinstance(x, pa.Array):
            x = pa.chunked_array([x])
    series = nw.from_native(x, series_only=True, pass_through=True)
    return series if isinstance(series, nw.Series) else None


def _from_series(series: nw.Series, what: str) -> np.ndarray:
    """Convert a series to an array; refuse dates and missing values."""
    dtype = series.dtype
    if dtype.is_temporal():
        raise DataError(f"{what} holds dates or durations ({dtype}), not numbers. {DAYS}")
    if dtype.is_numeric() or dtype == nw.Boolean:
        null = series.is_null()
        missing = null.to_numpy().astype(bool)
        if missing.any() and not (dtype.is_float() and np.isnan(_floats(series)[missing]).all()):
            raise DataError(_missing(what, f"row {int(missing.argmax())}", "missing"))
        long = dtype.is_decimal() or dtype in (nw.Int128, nw.UInt128)
        if long or missing.any():
            x = _floats(series)
            exact = missing.any() or np.abs(x).max(initial=0.0) < EXACT
            return x if exact else np.array(series.to_list(), object)
    return np.asarray(series.to_numpy())


def _floats(series: nw.Series) -> np.ndarray:
    """Convert a series to float64."""
    return np.asarray(series.cast(nw.Float64).to_numpy(), np.float64)


def _from_objects(x: np.ndarray, what: str, place: Callable, of: str) -> np.ndarray:
    """Convert an array of objects to float64, after checking entries that are not plain numbers."""
    if not set(map(type, x.flat)) <= set(SCALARS[:4]):
        for index, value in zip(np.ndindex(x.shape), x.flat, strict=True):
            _refuse_object(value, what, place(index), of)
    try:
        return x.astype(np.float64)
    except OverflowError:
        raise DataError(f"{what} has a number that no float can hold. Change its unit.") from None


def _refuse_object(value: object, what: str, where: str, of: str) -> None:
    """Refuse an entry that is not a real number."""
    if value is None or value is pd.NA or value is pd.NaT:
        raise DataError(_missing(of, where, value))
    if isinstance(value, TIMES):
        raise DataError(f"{what} holds dates or durations ({where} is {value!r}). {DAYS}")
    if isinstance(value, (Real, *SCALARS)):
        return
    if value is np.ma.masked:
        raise DataError(f"{what}: {where} is {MASKED}")
    raise NotNumbers(_text(what, where, value))


def _missing(what: str, where: str, value: object) -> str:
    """Return the message about a missing value."""
    return f"{what} contains NaN or infinity: {where} is {value}. Drop the row or impute it."


def _text(what: str, where: str, value: object) -> str:
    """Return the message about an entry that is text."""
    # scikit-learn's estimator checks search for "argument must be … string … number".
    return (
        f"{what} must hold numbers: {where} is {str(value)!r}; argument must be no string but a "
        "number. Convert numbers that are stored as text by pandas.to_numeric, and two labels by a "
        "comparison, such as event == 'yes'."
    )
