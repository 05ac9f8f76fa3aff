"""Performance of predicted risks: discrimination, calibration and their distribution."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = [
    "auc_interval",
    "calibration_table",
    "distribution_table",
    "precision_recall_area",
    "statistics_of",
]

STRATA = 10
SUMMARY = "predicted_probability"
Z = 1.959963984540054  # The normal quantile of an interval with level 0.95.


def statistics_of(risk: NDArray, outcome: NDArray) -> dict[str, float]:
    """Compute statistics of predicted risks, by their names in PatientLevelPrediction.

    Parameters
    ----------
    risk : ndarray, shape (n,)
        Predicted risks.
    outcome : ndarray of int, shape (n,)
        1 for people with the outcome.

    Returns
    -------
    dict of str to float
        NaN if everybody or nobody has the outcome.
    """
    n, cases = len(outcome), int(outcome.sum())
    found = {"populationSize": float(n), "outcomeCount": float(cases)}
    if not 0 < cases < n:
        return found
    area, low, high = auc_interval(risk, outcome)
    brier, mean = float(np.mean((outcome - risk) ** 2)), float(risk.mean())
    shift, (intercept, gradient) = _recalibrated(risk, outcome)
    ordered = outcome[np.argsort(-risk, kind="stable")]
    precision = np.cumsum(ordered)[ordered == 1] / (np.flatnonzero(ordered) + 1)
    return {
        **found,
        "AUROC": area,
        "95% lower AUROC": low,
        "95% upper AUROC": high,
        "AUPRC": precision_recall_area(risk, outcome),
        "brier score": brier,
        "brier score scaled": 1 - brier / (mean * (1 - mean)),
        "calibrationInLarge mean prediction": mean,
        "calibrationInLarge observed risk": cases / n,
        "calibrationInLarge intercept": shift,
        "weak calibration intercept": intercept,
        "weak calibration gradient": gradient,
        "Average Precision": float(precision.mean()),
    }


def auc_interval(risk: NDArray, outcome: NDArray) -> tuple[float, float, float]:
    """Compute the area under the ROC curve with its 95 % interval (DeLong and others 1988)."""
    from scipy.stats import rankdata

    case = outcome == 1
    m, k = int(case.sum()), int((~case).sum())
    ranks = rankdata(risk)
    of_case = (ranks[case] - rankdata(risk[case])) / k
    of_other = 1 - (ranks[~case] - rankdata(risk[~case])) / m
    area = float(of_case.mean())
    if m < 2 or k < 2:
        return area, math.nan, math.nan
    se = math.sqrt(of_case.var(ddof=1) / m + of_other.var(ddof=1) / k)
    return area, max(area - Z * se, 0.0), min(area + Z * se, 1.0)


def precision_recall_area(risk: NDArray, outcome: NDArray) -> float:
    """Integrate precision over recall, interpolated as Davis and Goadrich (2006) do.

    Between two thresholds with a and b true and A and B false positives, x true positives go with
    A + h (x − a) false ones, h = (B − A) / (b − a). The integral of the precision is exact.
    """
    order = np.argsort(-risk, kind="stable")
    last = np.append(np.diff(risk[order]) != 0, True)
    true = np.cumsum(outcome[order])[last].astype(float)
    false = np.cumsum(1 - outcome[order])[last].astype(float)
    a, before = np.append(0.0, true[:-1]), np.append(0.0, false[:-1])
    step = true > a
    a, b, before, after = a[step], true[step], before[step], false[step]
    h = (after - before) / (b - a)
    slope, offset = 1 + h, before - h * a
    # With offset 0 the precision is constant.
    bent = offset != 0
    parts = (b - a) / slope
    log = np.log((slope * b + offset)[bent] / (slope * a + offset)[bent])
    parts[bent] -= offset[bent] / slope[bent] ** 2 * log
    return float(parts.sum() / outcome.sum())


def calibration_table(risk: NDArray, outcome: NDArray) -> pd.DataFrame:
    """Tabulate observed and predicted risks by tenths of the predicted ones."""
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
        rows.append({**counts, **_distribution(risk[own])})
    return pd.DataFrame(rows)


def distribution_table(risk: NDArray, outcome: NDArray) -> pd.DataFrame:
    """Tabulate the distribution of predicted risks of people without and with the outcome."""
    rows = []
    for label in (0, 1):
        own = risk[outcome == label]
        if len(own):
            rows.append({"class_label": label, "person_count": len(own), **_distribution(own)})
    return pd.DataFrame(rows)


def _distribution(risk: NDArray) -> dict[str, float]:
    """Summarise predicted risks."""
    quantiles = {
        "min": 0.0, "p_05": 0.05, "p_25": 0.25, "median": 0.5, "p_75": 0.75, "p_95": 0.95,
        "max": 1.0,
    }  # fmt: skip
    return {
        f"average_{SUMMARY}": float(risk.mean()),
        f"st_dev_{SUMMARY}": float(risk.std(ddof=1)) if len(risk) > 1 else math.nan,
        **{f"{name}_{SUMMARY}": float(np.quantile(risk, q)) for name, q in quantiles.items()},
    }


def _recalibrated(risk: NDArray, outcome: NDArray) -> tuple[float, tuple[float, float]]:
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
