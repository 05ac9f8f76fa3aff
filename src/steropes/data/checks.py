"""Checks of the vectors that go with X: response, weights, offset, exposure, strata."""

from __future__ import annotations

import warnings
from numbers import Number
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from ..errors import DataError

__all__ = ["check_exposure", "check_offset", "check_response", "check_strata", "check_weights"]


def vector(x: Any, n: int | None, what: str) -> np.ndarray:
    """A 1-D float64 array of length n, finite; a copy or a view, never written to."""
    series = nw.from_native(x, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        x = series.to_numpy()
    try:
        x = np.asarray(x)
        if x.dtype.kind == "c":
            raise DataError(f"Complex data not supported: {what} must be real.")
        if x.dtype.kind not in "fiub":
            x = x.astype(np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{what} must hold numbers: {error}.") from None
    x = squeeze(x, what)
    if x.ndim != 1:
        raise DataError(f"{what} must be 1-dimensional, not of shape {x.shape}.")
    if n is not None and len(x) != n:
        raise DataError(f"{what} has {len(x)} entries, but X has {n} rows.")
    x = x.astype(np.float64, copy=False)
    bad = ~np.isfinite(x)
    if bad.any():
        i = int(bad.argmax())
        raise DataError(
            f"{what} contains NaN or infinity: row {i} is {x[i]}. Drop the row or impute it."
        )
    return x


def squeeze(x: np.ndarray, what: str) -> np.ndarray:
    """A column vector as a 1-D array, with scikit-learn's warning."""
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


def check_response(y: Any, n: int, what: str = "y", minimum: float | None = None) -> np.ndarray:
    """Check a numeric response, optionally bounded below."""
    y = vector(y, n, what)
    if minimum is not None and (y < minimum).any():
        i = int((y < minimum).argmax())
        raise DataError(f"{what} must be at least {minimum:g}; row {i} is {y[i]:g}.")
    return y


LIGHT, HEAVY = 1e-9, 1e12  # average weights between which fits are what they say they are


def check_weights(w: Any, n: int) -> np.ndarray:
    """Check row weights: at least zero and not all zero; None is one each."""
    if w is None:
        return np.ones(n)
    if isinstance(w, Number):
        w = np.full(n, w, np.float64)
    w = vector(w, n, "sample_weight")
    if (w < 0).any():
        i = int((w < 0).argmax())
        raise DataError(f"sample_weight must not be negative; row {i} is {w[i]:g}.")
    if not w.any():
        raise DataError("sample_weight is zero in every row; give some row a positive weight.")
    with np.errstate(over="ignore"):
        mean = float(np.mean(w, where=w > 0))
    if not LIGHT <= mean <= HEAVY:
        # The certificate counts in standard errors, which such weights make senseless.
        raise DataError(
            f"sample_weight is {mean:.3g} on average where it is positive. Divide it by a constant "
            "so that it is about one: it says how many people a row stands for."
        )
    return w


def check_offset(offset: Any, n: int) -> np.ndarray | None:
    """Check an offset of the linear predictor."""
    if offset is None:
        return None
    return vector(offset, n, "offset")


def check_exposure(exposure: Any, n: int) -> np.ndarray | None:
    """Check times at risk, which must be positive, and return their logarithm."""
    if exposure is None:
        return None
    exposure = vector(exposure, n, "exposure")
    if (exposure <= 0).any():
        i = int((exposure <= 0).argmax())
        raise DataError(
            f"exposure must be positive; row {i} is {exposure[i]:g}. Drop rows with no time at "
            "risk."
        )
    return np.log(exposure)


def check_strata(strata: Any, n: int) -> np.ndarray | None:
    """Turn labels of any hashable kind into codes 0, 1, … in the order of their first row."""
    if strata is None:
        return None
    numbers = isinstance(strata, np.ndarray) and strata.ndim == 1 and strata.dtype.kind in "iu"
    if numbers and len(strata) == n > 0 and bool((strata[1:] >= strata[:-1]).all()):
        codes = np.zeros(n, np.int64)  # rows sorted by their label need no hash table
        np.cumsum(strata[1:] != strata[:-1], out=codes[1:])
        return codes
    return label_strata(strata, n)[0]


def label_strata(strata: Any, n: int) -> tuple[np.ndarray, list]:
    """The same, with the label of each code."""
    frame = nw.from_native(strata, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        if frame.shape[1] != 1:
            raise DataError("strata must be one column; combine several into one label first.")
        strata = frame[:, 0].to_numpy()
    else:
        series = nw.from_native(strata, series_only=True, pass_through=True)
        if isinstance(series, nw.Series):
            strata = series.to_numpy()
    if not isinstance(strata, np.ndarray):
        values = list(strata)
        array = np.empty(len(values), object)
        array[:] = values
        strata = array
    if strata.ndim == 2 and strata.shape[1] == 1:
        strata = strata[:, 0]
    if strata.ndim != 1:
        raise DataError(f"strata must be 1-dimensional, not of shape {strata.shape}.")
    if len(strata) != n:
        raise DataError(f"strata has {len(strata)} entries, but X has {n} rows.")
    codes, labels = pd.factorize(strata)
    if (codes < 0).any():
        i = int((codes < 0).argmax())
        raise DataError(f"strata is missing in row {i}; give the row a stratum or drop it.")
    return codes.astype(np.int64), list(labels)
