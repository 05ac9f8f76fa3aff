"""Calibration of predicted risks: strata and a line through them, smooth curve, recalibration."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = [
    "calibration_line",
    "calibration_table",
    "lowess",
    "recalibrated",
    "risk_summary",
    "smooth_calibration_errors",
]

# Calibration is tabulated by tenths of the people.
STRATA = 10
SUMMARY = "predicted_probability"


def calibration_table(risk: NDArray, outcome: NDArray) -> pd.DataFrame:
    """Tabulate observed and predicted risks by tenths of the people, by predicted risk."""
    inner = np.unique(np.quantile(risk, np.arange(1, STRATA) / STRATA))
    stratum = np.searchsorted(inner, risk, side="left")
    starts = np.append(0.0, inner)
    rows = []
    for s in np.unique(stratum):
        own = stratum == s
        counts = {
            "prediction_threshold": float(starts[s]),
            "person_count_at_risk": int(own.sum()),
            "person_count_with_outcome": int(outcome[own].sum()),
            "observed_incidence": float(outcome[own].mean()),
        }
        rows.append({**counts, **risk_summary(risk[own])})
    return pd.DataFrame(rows)


def calibration_line(table: pd.DataFrame) -> tuple[float, float]:
    """Regress the observed on the mean predicted risk of strata, each with weight one.

    This is the line that R's PatientLevelPrediction names after Hosmer and Lemeshow, whose strata
    are tenths of the predicted risks (``calibrationLine``).

    Parameters
    ----------
    table : DataFrame
        As by `calibration_table`.

    Returns
    -------
    tuple of (float, float)
        Intercept and gradient; NaN if a stratum has no observed risk or all predicted ones agree.
    """
    x = table[f"average_{SUMMARY}"].to_numpy(float)
    y = table["observed_incidence"].to_numpy(float)
    spread = float(np.sum((x - x.mean()) ** 2))
    if not spread > 1e-24:
        return math.nan, math.nan
    gradient = float(np.sum((x - x.mean()) * y) / spread)
    return float(y.mean() - gradient * x.mean()), gradient


def smooth_calibration_errors(risk: NDArray, outcome: NDArray) -> dict[str, float]:
    """Compare predicted risks with a smooth curve of the observed ones.

    Parameters
    ----------
    risk : ndarray, shape (n,)
        Predicted risks. Those of 0 and 1 are left out.
    outcome : ndarray of int, shape (n,)
        1 for people with the outcome.

    Returns
    -------
    dict of str to float
        Mean (``Eavg``), 90th percentile (``E90``) and maximum (``Emax``) of the absolute
        differences, as in Harrell (2015), *Regression Modeling Strategies*, section 10.9; NaN if
        all risks agree. The curve is that of R's ``lowess(risk, outcome, iter = 0)``.
    """
    inside = (risk > 0) & (risk < 1)
    risk, outcome = risk[inside], outcome[inside]
    if len(risk) < 2 or np.ptp(risk) == 0:
        return dict.fromkeys(("Eavg", "E90", "Emax"), math.nan)
    order = np.argsort(risk, kind="stable")
    gap = np.abs(risk[order] - lowess(risk[order], outcome[order].astype(float)))
    return {
        "Eavg": float(gap.mean()),
        "E90": float(np.quantile(gap, 0.9)),
        "Emax": float(gap.max()),
    }


def lowess(x: NDArray, y: NDArray) -> NDArray:
    """Smooth by local linear regressions with tricube weights (Cleveland 1979, 1981).

    A regression is computed at points at least 1 % of the range apart, and interpolated between
    them; there are no robustness iterations. This is R's ``lowess(x, y, iter = 0)``.

    Parameters
    ----------
    x : ndarray, shape (n,)
        Ascending.
    y : ndarray, shape (n,)

    Returns
    -------
    ndarray, shape (n,)
        The smooth curve at ``x``.
    """
    n = len(x)
    size = max(min(n, int(2 / 3 * n + 1e-7)), 2)  # as in R's lowess
    width = float(x[-1] - x[0])
    # The window moves to the right while the next point on that side is the nearer one.
    reach = x[: n - size] + x[size:]
    at, values, i = [], [], 0
    while True:
        left = int(np.searchsorted(reach, 2 * x[i], side="left"))
        at.append(i)
        values.append(_local_line(x, y, x[i], left, left + size - 1, width))
        last = int(np.searchsorted(x, x[i], side="right")) - 1
        if last > i:
            at.append(last)
            values.append(values[-1])
        if last >= n - 1:
            break
        beyond = int(np.searchsorted(x, x[last] + 0.01 * width, side="right"))
        i = max(last + 1, beyond - 1)
        # All points with the same x have the same fit, so the first of them is computed.
        i = max(last + 1, int(np.searchsorted(x, x[i], side="left")))
    return np.interp(x, x[at], values)


def _local_line(x: NDArray, y: NDArray, x0: float, left: int, right: int, width: float) -> float:
    """Evaluate the weighted linear regression around a point at this point."""
    h = max(x0 - x[left], x[right] - x0)
    # Points beyond the window with the same x as its last one belong to the regression.
    end = int(np.searchsorted(x, x0 + 0.999 * h, side="right"))
    part, own = x[left:end], y[left:end]
    distance = np.abs(part - x0)
    if h > 0:
        weight = distance / h
        # Products, because powers take ten times as long.
        weight = 1 - weight * weight * weight
        weight = weight * weight * weight
        weight[distance <= 0.001 * h] = 1.0
        weight[distance > 0.999 * h] = 0.0
    else:
        weight = (distance == 0).astype(float)
    total = weight.sum()
    if not total > 0:
        return float(y[left])
    weight /= total
    mean = float(weight @ part)
    part = part - mean
    spread = float(weight @ (part * part))
    if h > 0 and math.sqrt(spread) > 0.001 * width:
        weight *= (x0 - mean) / spread * part + 1
    return float(weight @ own)


def recalibrated(risk: NDArray, outcome: NDArray) -> tuple[float, tuple[float, float]]:
    """Regress the outcome on the log odds of the predicted risk: with gradient 1, and freely."""
    from scipy.optimize import brentq
    from scipy.special import expit

    from steropes.errors import SeparationError
    from steropes.models import LogisticRegression

    odds = np.clip(risk, 1e-15, 1 - 1e-15)
    logit = np.log(odds / (1 - odds))
    # The sum of risks grows with the shift; beyond these limits all risks are 0 or 1.
    shift = brentq(lambda c: float(np.mean(expit(logit + c) - outcome)), -80.0, 80.0)
    if np.ptp(logit) < 1e-12:
        return float(shift), (math.nan, math.nan)
    try:
        free = LogisticRegression().fit(logit[:, None], outcome)
    except SeparationError:
        return float(shift), (math.nan, math.nan)
    return float(shift), (float(free.intercept_), float(free.coef_[0]))


def risk_summary(risk: NDArray) -> dict[str, float]:
    """Summarise predicted risks by mean, standard deviation and percentiles."""
    quantiles = {
        "min": 0.0, "p_05": 0.05, "p_25": 0.25, "median": 0.5, "p_75": 0.75, "p_95": 0.95,
        "max": 1.0,
    }  # fmt: skip
    return {
        f"average_{SUMMARY}": float(risk.mean()),
        f"st_dev_{SUMMARY}": float(risk.std(ddof=1)) if len(risk) > 1 else math.nan,
        **{f"{name}_{SUMMARY}": float(np.quantile(risk, q)) for name, q in quantiles.items()},
    }
