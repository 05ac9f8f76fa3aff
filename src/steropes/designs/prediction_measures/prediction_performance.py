"""Performance of predicted risks: statistics, and summaries by outcome and by age and gender."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.designs.prediction_measures.prediction_calibration import (
    calibration_line,
    calibration_table,
    recalibrated,
    risk_summary,
    smooth_calibration_errors,
)
from steropes.designs.values.normal_quantile import Z

__all__ = [
    "age_group",
    "auc_interval",
    "demographic_table",
    "distribution_table",
    "precision_recall_area",
    "statistics_of",
]

GENDERS = {8507: "Male", 8532: "Female"}


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
        NaN if everybody or no one has the outcome.
    """
    n, cases = len(outcome), int(outcome.sum())
    found = {"populationSize": float(n), "outcomeCount": float(cases)}
    if not 0 < cases < n:
        return found
    area, low, high = auc_interval(risk, outcome)
    brier, mean = float(np.mean((outcome - risk) ** 2)), float(risk.mean())
    shift, (intercept, gradient) = recalibrated(risk, outcome)
    line = calibration_line(calibration_table(risk, outcome))
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
        **smooth_calibration_errors(risk, outcome),
        "calibrationInLarge mean prediction": mean,
        "calibrationInLarge observed risk": cases / n,
        "calibrationInLarge intercept": shift,
        "weak calibration intercept": intercept,
        "weak calibration gradient": gradient,
        "Hosmer-Lemeshow calibration intercept": line[0],
        "Hosmer-Lemeshow calibration gradient": line[1],
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


def distribution_table(risk: NDArray, outcome: NDArray) -> pd.DataFrame:
    """Tabulate the distribution of predicted risks of people without and with the outcome."""
    rows = []
    for label in (0, 1):
        own = risk[outcome == label]
        if len(own):
            rows.append({"class_label": label, "person_count": len(own), **risk_summary(own)})
    return pd.DataFrame(rows)


def age_group(first: int) -> str:
    """Name the five years of age from the first one."""
    return f"Age group: {first}-{first + 4}"


def demographic_table(
    risk: NDArray, outcome: NDArray, age: NDArray, gender: NDArray
) -> pd.DataFrame:
    """Tabulate observed and predicted risks by gender and by groups of five years of age.

    Parameters
    ----------
    risk : ndarray, shape (n,)
        Predicted risks.
    outcome : ndarray of int, shape (n,)
        1 for people with the outcome.
    age : ndarray of float, shape (n,)
        Year of the entry less the year of birth; people without a year of birth are left out.
    gender : ndarray of float, shape (n,)
        Concepts of the gender.

    Returns
    -------
    DataFrame
        The columns of ``plp_demographic_summary`` without ``performance_id`` and ``evaluation``.
    """
    named = pd.Series(gender).map(GENDERS).fillna("Unknown")
    groups = pd.DataFrame({"start": np.floor(age / 5) * 5, "gender": named}).dropna()
    rows = []
    for (first, name), part in groups.groupby(["start", "gender"]):
        own = part.index.to_numpy()
        summary = risk_summary(risk[own])
        summary["p_50_predicted_probability"] = summary.pop("median_predicted_probability")
        counts = {
            "person_count_at_risk": len(own),
            "person_count_with_outcome": int(outcome[own].sum()),
        }
        rows.append({"age_group": age_group(int(first)), "gen_group": name, **counts, **summary})
    return pd.DataFrame(rows)
