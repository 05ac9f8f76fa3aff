"""Quantiles of the time to the event, read from the survival curves of rows."""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..data.survival_curve_quantiles import first_crossings
from ..data.vector_checks import check_vector
from ..infer.baseline_hazard import Baseline

__all__ = ["TimeQuantile", "hazards_before", "quantile_limits", "quantile_times"]

# Curves are computed in blocks of at most this many entries, which bounds the memory.
MAX_ENTRIES = 4_000_000


class TimeQuantile(NamedTuple):
    """Quantiles of times with their limits, arrays of one shape."""

    estimate: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def quantile_times(
    baseline: Baseline,
    eta: np.ndarray,
    codes: np.ndarray,
    probabilities: np.ndarray,
    last_seen: np.ndarray,
    past: np.ndarray | None = None,
) -> np.ndarray:
    """Find the times by which given shares of people like each row have had the event.

    Parameters
    ----------
    eta : (n, Q) array
        Linear predictors in each interval of time in which effects are constant.
    codes : (n,) int array
        Strata.
    probabilities : (m,) array
        Shares, between 0 and 1.
    last_seen : (strata,) array
        The last time at which anyone of a stratum was under observation.
    past : (n,) array, optional
        Cumulative hazards that people have already survived.

    Returns
    -------
    (n, m) array
        NaN where a curve ends before the share is reached.
    """
    stratum, time = baseline.steps()[:2]
    out = np.full((len(eta), len(probabilities)), np.nan)
    for s in np.unique(codes):
        at, rows = np.unique(time[stratum == s]), np.flatnonzero(codes == s)
        for block in np.array_split(rows, 1 + len(rows) * len(at) // MAX_ENTRIES):
            with np.errstate(over="ignore"):
                hazard = np.exp(baseline.log_cumulative_of(eta[block], codes[block], at))
            if past is not None:
                with np.errstate(invalid="ignore"):  # beyond all survival
                    hazard = np.maximum(hazard - past[block, None], 0.0)
            for k, p in enumerate(probabilities):
                out[block, k] = first_crossings(at, np.exp(-hazard), 1.0 - p, last_seen[s])
    return out


def hazards_before(
    baseline: Baseline, eta: np.ndarray, codes: np.ndarray, after: object, last_seen: np.ndarray
) -> np.ndarray:
    """Compute the cumulative hazard of each row up to a time, (n,); NaN beyond observation.

    Parameters
    ----------
    eta : (n, Q) array
    codes : (n,) int array
        Strata.
    after : number or (n,) array
    last_seen : (strata,) array
    """
    n = len(eta)
    t = np.full(n, float(after)) if isinstance(after, Real) else check_vector(after, n, "after")
    with np.errstate(over="ignore"):
        H = np.exp(baseline.log_cumulative_at(eta, codes, t))
    return np.where(t > last_seen[codes], np.nan, H)


def quantile_limits(
    table: pd.DataFrame, codes: np.ndarray, probabilities: np.ndarray, last_seen: np.ndarray
) -> TimeQuantile:
    """Find quantiles of times and their limits, where the limits of the curves reach them.

    Parameters
    ----------
    table : DataFrame
        Curves row by row: ``row``, ``time``, ``survival``, ``lower``, ``upper``.
    codes : (n,) int array
        Strata.
    probabilities : (m,) array
    last_seen : (strata,) array

    Returns
    -------
    TimeQuantile of (n, m) arrays
        A lower limit that is never reached is the last time at which anyone of the stratum was
        under observation, and such an upper limit is infinite.
    """
    n, stratum_of_line = len(codes), codes[table["row"].to_numpy()]
    out = TimeQuantile(*(np.full((n, len(probabilities)), x) for x in (np.nan, np.nan, np.inf)))
    out.lower[:] = last_seen[codes][:, None]
    for s in np.unique(stratum_of_line):
        rows = np.flatnonzero(codes == s)
        part = table[stratum_of_line == s]
        at = part["time"].to_numpy()[: len(part) // len(rows)]
        for x, name in zip(out, ("survival", "lower", "upper"), strict=True):
            # Limits are undefined where S is zero or one; zero is at or below all shares.
            S = part["survival"].to_numpy()
            curve = np.where((S <= 0) & (name != "upper"), 0.0, part[name].to_numpy())
            for k, p in enumerate(probabilities):
                curves = curve.reshape(len(rows), -1)
                found = first_crossings(at, curves, 1.0 - p, last_seen[s])
                known = np.isfinite(found)
                x[rows[known], k] = found[known]
    return out
