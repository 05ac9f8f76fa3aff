"""Validation of row vectors: response, weights, offset, exposure, strata and classes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Set
from numbers import Real
from typing import NoReturn

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from ..errors import DataError
from .array_conversion import as_numbers, as_series, plain_array, refuse_lazy_query, unmasked
from .ordered_categories import Categories, categories_in_order, refuse_other_category_order

__all__ = [
    "MAX_OFFSET_RANGE",
    "as_labels",
    "check_classes",
    "check_exposure",
    "check_level",
    "check_offset",
    "check_response",
    "check_strata",
    "check_vector",
    "check_weights",
    "is_blank",
    "label_strata",
    "refuse_extreme_weights",
    "sort_labels",
    "squeeze_column",
]


def check_vector(x: object, n: int | None, what: str, infinite: float | None = None) -> np.ndarray:
    """Copy to a finite 1-D float64 array of length n.

    Parameters
    ----------
    n : int or None
        Required length; None allows any.
    infinite : float, optional
        An infinite value that is allowed, ∞ or −∞.

    Raises
    ------
    DataError
        If the shape is wrong or an entry is missing or infinite; the message names the row.
    """
    x = squeeze_column(as_numbers(x, what), what)
    if x.ndim != 1:
        raise DataError(f"{what} must be 1-dimensional, not of shape {x.shape}.")
    if n is not None and len(x) != n:
        raise DataError(f"{what} has {len(x)} entries, but X has {n} rows.")
    with np.errstate(over="ignore"):
        x = x.astype(np.float64)  # a copy, because the user's array may change after the fit
    if infinite is None and np.isfinite([x.min(initial=0.0), x.max(initial=0.0)]).all():
        return x  # the minimum would be NaN if any entry were
    bad = ~np.isfinite(x)
    if infinite is not None:
        bad &= x != infinite
    if bad.any():
        i = int(bad.argmax())
        if infinite is not None:
            raise DataError(f"{what} must be a number or {infinite}; row {i} is {x[i]}.")
        raise DataError(
            f"{what} contains NaN or infinity: row {i} is {x[i]}. Drop the row or impute it."
        )
    return x


def squeeze_column(x: np.ndarray, what: str) -> np.ndarray:
    """Flatten a column vector to 1-D, with scikit-learn's warning."""
    if x.ndim == 2 and x.shape[1] == 1:
        from sklearn.exceptions import DataConversionWarning

        warnings.warn(
            f"A column-vector {what} was passed when a 1d array was expected; its one column is "
            f"used. Pass {what}.ravel() to silence this.",
            DataConversionWarning,
            stacklevel=4,
        )
        return x[:, 0]
    return x


# The squares of numbers up to this size, and of their reciprocals, are finite floats.
LARGEST_SQUARABLE = 1e152
# Offsets on a log scale up to this size leave ten digits to the other terms of a sum.
MAX_LOG_OFFSET = 1e6
# exp maps numbers within a range of this width to floats from the smallest to the largest.
MAX_OFFSET_RANGE = 1400.0


def check_response(y: object, n: int, minimum: float | None = None) -> np.ndarray:
    """Validate a numeric response, optionally bounded below; return a copy, (n,)."""
    refuse_other_category_order(y, "y")
    y = check_vector(y, n, "y")
    lowest, highest = y.min(initial=np.inf), y.max(initial=-np.inf)
    if minimum is not None and lowest < minimum:
        i = int((y < minimum).argmax())
        raise DataError(f"y must be at least {minimum:g}; row {i} is {y[i]:g}.")
    largest = max(-lowest, highest, 0.0)
    if largest and not 1 / LARGEST_SQUARABLE <= largest <= LARGEST_SQUARABLE:
        i = int(np.abs(y).argmax())
        raise DataError(
            f"y is {y[i]:g} in row {i}, whose square no float can hold. Give it in another unit."
        )
    return y


# Average weights outside of these limits are refused: the certificate counts in standard errors,
# which such weights make meaningless.
LIGHT, HEAVY = 1e-9, 1e12


def check_weights(w: object, n: int) -> np.ndarray:
    """Validate row weights, nonnegative and not all zero; None means one each."""
    if w is None:
        return np.ones(n)
    if isinstance(w, Real):
        w = np.full(n, w, np.float64)
    w = check_vector(w, n, "sample_weight")
    if (w < 0).any():
        i = int((w < 0).argmax())
        raise DataError(f"sample_weight must not be negative; row {i} is {w[i]:g}.")
    refuse_extreme_weights(w, "sample_weight")
    return w


def refuse_extreme_weights(w: np.ndarray, what: str) -> None:
    """Refuse nonnegative row weights that are all zero, or far from one on average."""
    if not w.any():
        raise DataError(f"{what} is zero in every row; give some row a positive weight.")
    with np.errstate(over="ignore"):
        mean = float(np.mean(w, where=w > 0))
    if not LIGHT <= mean <= HEAVY:
        raise DataError(
            f"{what} is {mean:.3g} on average where it is positive. Divide it by a constant "
            "so that it is about one: it says how many people a row stands for."
        )


def check_offset(
    offset: object,
    n: int,
    log_scale: bool = True,
    apart: float = np.inf,
    weights: np.ndarray | None = None,
) -> np.ndarray | None:
    """Validate an offset of the linear predictor, which most families exponentiate.

    Parameters
    ----------
    offset : (n,) array or None
    log_scale : bool
        Whether the offset is added to a logarithm, which limits its size.
    apart : float
        The largest difference between rows with a positive weight that the family supports.
    weights : (n,) array, optional

    Raises
    ------
    DataError
        If an offset is not a number or too large; the message names the row.
    """
    if offset is None:
        return None
    if isinstance(offset, Real):
        raise DataError(
            "offset must have one entry a row; the same offset for all rows only shifts the "
            "intercept, leave it out."
        )
    offset = check_vector(offset, n, "offset")
    size = np.abs(offset)
    i = int(size.argmax()) if n else 0
    if n and size[i] > (MAX_LOG_OFFSET if log_scale else LARGEST_SQUARABLE):
        raise DataError(
            f"offset is {offset[i]:g} in row {i}, too far from zero for the digits of a float. "
            "Check its unit" + (" (it is added to a logarithm)." if log_scale else ".")
        )
    rows = np.arange(n) if weights is None else np.flatnonzero(weights > 0)
    if len(rows) and np.ptp(offset[rows]) > apart:
        low, high = (int(rows[k]) for k in (offset[rows].argmin(), offset[rows].argmax()))
        raise DataError(
            f"The offsets are further apart than exp can hold: {offset[low]:g} in row {low} and "
            f"{offset[high]:g} in row {high}. Check their unit: an offset is added to a logarithm."
        )
    return offset


def check_level(level: object) -> float:
    """Validate a confidence level, between 0 and 1."""
    if isinstance(level, Real) and not isinstance(level, bool | np.bool_):
        value = float(level)
        if 0 < value < 1:
            return value
    raise DataError(f"level must be between 0 and 1, such as 0.95, not {level!r}.")


def check_exposure(exposure: object, n: int) -> np.ndarray | None:
    """Validate times at risk, which must be positive; return their logarithms."""
    if exposure is None:
        return None
    exposure = check_vector(exposure, n, "exposure")
    if (exposure <= 0).any():
        i = int((exposure <= 0).argmax())
        raise DataError(
            f"exposure must be positive; row {i} is {exposure[i]:g}. Drop rows with no time at "
            "risk."
        )
    return np.log(exposure)


def check_strata(strata: object, n: int) -> np.ndarray | None:
    """Convert hashable labels to codes 0, 1, … in the order of their first appearance."""
    if strata is None:
        return None
    if type(strata) is np.ndarray and strata.ndim == 1 and strata.dtype.kind in "iu":
        ascending = len(strata) == n > 0 and bool((strata[1:] >= strata[:-1]).all())
        if ascending:
            codes = np.zeros(n, np.int64)  # rows sorted by label need no hash table
            np.cumsum(strata[1:] != strata[:-1], out=codes[1:])
            return codes
    return label_strata(strata, n)[0]


def label_strata(strata: object, n: int) -> tuple[np.ndarray, list]:
    """Convert hashable labels to codes; return the codes and the label of each code."""
    strata = as_labels(strata)
    if len(strata) != n:
        raise DataError(f"strata has {len(strata)} entries, but X has {n} rows.")
    try:
        if strata.dtype == np.longdouble:
            strata = strata.astype(object)  # pandas would round them
        codes, labels = pd.factorize(strata)
    except TypeError as error:
        raise DataError(
            f"strata must be labels such as numbers, text or tuples, not {strata.dtype}: {error}."
        ) from None
    if (codes < 0).any():
        i = int((codes < 0).argmax())
        raise DataError(f"strata is missing in row {i}; give the row a stratum or drop it.")
    if strata.dtype.kind in "OUS":  # pandas finds no blank text, and nothing within tuples
        for code, label in enumerate(labels):
            if _incomplete(label):
                i = int((codes == code).argmax())
                raise DataError(
                    f"strata is missing in row {i}, which has {label!r}; give the row a stratum or "
                    "drop it."
                )
    return codes.astype(np.int64), list(labels)


def _incomplete(label: object) -> bool:
    """Return whether a label or a part of it is missing."""
    if isinstance(label, tuple):
        return any(map(_incomplete, label))
    if isinstance(label, str | bytes):
        return is_blank(label)
    return label is None or label is pd.NA or bool(label != label)  # NaN and NaT


def is_blank(label: object) -> bool:
    """Return whether a label is text without a visible character, as databases write nothing."""
    return isinstance(label, str | bytes) and not label.strip()


def sort_labels(codes: np.ndarray, labels: list) -> tuple[np.ndarray, list]:
    """Renumber codes so that labels are sorted, if the labels can be ordered."""
    order: list[int]
    types = {type(label) for label in labels}  # Signed and unsigned ones would be rounded.
    if len(types) == 1 and issubclass(types.pop(), np.integer):  # Thousands sort faster so.
        order = np.argsort(np.array(labels), kind="stable").tolist()
    else:
        try:
            order = sorted(range(len(labels)), key=labels.__getitem__)
        except TypeError:
            return codes, labels
    rank = np.empty(len(labels), np.int64)
    rank[order] = np.arange(len(labels))
    return rank[codes], [labels[i] for i in order]


def as_labels(strata: object, what: str = "strata") -> np.ndarray:
    """Convert labels to a 1-D array, of objects if NumPy has no type for them.

    The rows of a table with several columns become tuples.
    """
    refuse_lazy_query(strata, what)
    frame = nw.from_native(strata, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        if frame.shape[1] == 0:
            raise DataError(f"{what} must have a column at least.")
        columns = [frame[:, j].to_numpy() for j in range(frame.shape[1])]
        strata = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    else:
        series = as_series(strata)
        strata = strata if series is None else series.to_numpy()
    if isinstance(strata, np.ma.MaskedArray):
        strata = unmasked(strata, what)
    if isinstance(strata, str | bytes | Mapping | Set) or not isinstance(strata, Iterable):
        raise DataError(f"{what} must have one label a row, not be {type(strata).__name__}.")
    if isinstance(strata, np.ndarray):
        strata = np.asarray(strata)  # also converts matrices: their slices are matrices
    else:
        values = list(strata)
        strata = np.empty(len(values), object)
        strata[:] = values
    if strata.ndim == 2 and strata.shape[1] == 1:
        strata = strata[:, 0]
    if strata.ndim != 1:
        raise DataError(f"{what} must be 1-dimensional, not of shape {strata.shape}.")
    return (
        native_byte_order(strata) if strata.dtype.names is None else strata.astype(object)
    )  # tuples


def native_byte_order(x: np.ndarray) -> np.ndarray:
    """Convert an array to this machine's byte order, which pandas requires."""
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def check_classes(y: object, n: int, name: str = "y") -> tuple[np.ndarray, np.ndarray]:
    """Read an outcome of classes, or another variable of that name.

    Returns
    -------
    classes : array
        The distinct labels, in the order of categories that have one (see
        `categories_in_order`), and otherwise sorted.
    codes : (n,) int array
        The position of each row's label among the classes.

    Raises
    ------
    DataError
        If labels are missing, of mixed types or not suitable as classes.
    """
    categories = categories_in_order(y)
    if categories is not None:
        return _classes_in_order(categories, n, name)
    frame = nw.from_native(y, eager_only=True, pass_through=True)
    series = as_series(y)
    if isinstance(frame, nw.DataFrame):
        y = frame.to_numpy()
    elif series is not None:
        missing = series.is_null().to_numpy().astype(bool)
        if missing.any():
            raise DataError(f"{name} is missing in row {int(missing.argmax())}; drop the row.")
        if series.dtype.is_temporal():
            raise DataError(
                f"{name} holds {series.dtype}; two classes are needed, such as 0 and 1."
            )
        y = series.to_numpy()
    elif isinstance(y, list | tuple) and 0 < sum(isinstance(v, str) for v in y) < len(y):
        _refuse_mixed(y, name)  # NumPy would convert all of them to text
    y = squeeze_column(plain_array(y, name), name)
    if y.shape != (n,):
        raise DataError(f"{name} has shape {y.shape}, but X has {n} rows.")
    if y.dtype.kind not in "biufOUS":
        as_numbers(y, name)  # refuses complex numbers, dates and structured arrays
        raise DataError(f"{name} must be labels of two classes, not {y.dtype}.")
    if y.dtype.kind == "f":
        y = check_vector(y, n, name)
    if y.dtype.kind == "O":
        missing = pd.isna(y)
        if missing.any():
            i = int(missing.argmax())
            raise DataError(
                f"{name} contains NaN or infinity, or nothing: row {i} is {y[i]}. Drop the row."
            )
    if y.dtype.kind in "biuf" and len(y):  # two distinct numbers need no sorting
        ends = np.array([y.min(), y.max()])
        upper = y == ends[1]
        if ends[0] < ends[1] and bool((upper | (y == ends[0])).all()):
            return ends, upper.astype(np.intp)
    try:
        classes, codes = np.unique(y, return_inverse=True)
    except TypeError:
        _refuse_mixed(y, name)
    _refuse_blank(classes, codes, name)
    return classes, codes


def _refuse_blank(classes: np.ndarray, codes: np.ndarray, name: str) -> None:
    """Refuse a class whose label is text without a visible character."""
    labels = classes if classes.dtype.kind in "OUS" else ()
    blank = next((k for k, label in enumerate(labels) if is_blank(label)), None)
    if blank is not None:
        row = int((codes == blank).argmax())
        raise DataError(f"{name} is blank in row {row}; name this class, or drop the row.")


def _classes_in_order(y: Categories, n: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Read classes from categories in their order, without unused ones."""
    if len(y.codes) != n:
        raise DataError(f"{name} has shape ({len(y.codes)},), but X has {n} rows.")
    y.refuse_missing(name)
    present, codes = np.unique(y.codes, return_inverse=True)
    labels = [y.labels[k] for k in present]
    if 0 < sum(isinstance(label, str) for label in labels) < len(labels):
        _refuse_mixed([labels[k] for k in codes], name)  # NumPy would convert all of them to text
    classes = np.array(labels)
    _refuse_blank(classes, codes, name)
    return classes, codes


def _refuse_mixed(y: Iterable, name: str) -> NoReturn:
    """Refuse labels of different types; the message names a row of each type."""
    kinds: dict[str, int] = {}
    for i, value in enumerate(y):
        kinds.setdefault(type(value).__name__, i)
    words = ", ".join(f"{kind} in row {i}" for kind, i in kinds.items())
    raise DataError(
        f"{name} mixes labels of different types, or has none ({words}); make all of them numbers "
        "or all text."
    )
