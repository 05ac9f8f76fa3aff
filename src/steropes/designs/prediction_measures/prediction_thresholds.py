"""Classifications by thresholds of predicted risks, as in PatientLevelPrediction's summary."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["classification_measures", "threshold_table"]

MOST_SINGLE = 100  # R lists each of the highest risks, and then hundredths of the people.


def threshold_table(risk: NDArray, outcome: NDArray) -> pd.DataFrame:
    """Tabulate who is classified as having the outcome at thresholds of the predicted risk.

    The thresholds are those of ``getThresholdSummary`` in R's PatientLevelPrediction: the hundred
    highest risks, and the risks at each hundredth of the people in descending order.

    Parameters
    ----------
    risk : ndarray, shape (n,)
        Predicted risks.
    outcome : ndarray of int, shape (n,)
        1 for people with the outcome.

    Returns
    -------
    DataFrame
        The columns of ``plp_threshold_summary`` without ``performance_id`` and ``evaluation``; no
        rows if everybody or no one has the outcome.
    """
    n, cases = len(outcome), int(outcome.sum())
    order = np.argsort(-risk, kind="stable")
    risk = np.where(risk[order] == 1, 0.99999999, risk[order])  # The log odds of 1 are infinite.
    listed = np.arange(n)
    if n > MOST_SINGLE:
        listed = np.append(np.r_[0:MOST_SINGLE, 0 : n : n // MOST_SINGLE], n - 1)
    thresholds = np.unique(risk[listed])[::-1] if 0 < cases < n else risk[:0]
    positive = np.searchsorted(-risk, -thresholds, side="right")
    true_positive = np.append(0, np.cumsum(outcome[order]))[positive]
    return classification_measures(
        thresholds, true_positive, positive - true_positive, cases, n - cases
    )


def classification_measures(
    thresholds: NDArray, true_positive: NDArray, false_positive: NDArray, cases: int, others: int
) -> pd.DataFrame:
    """Compute the measures of classifications from their counts.

    Parameters
    ----------
    thresholds : ndarray, shape (k,)
        Risks from which people are classified as having the outcome.
    true_positive, false_positive : ndarray of int, shape (k,)
        Numbers of these people with and without the outcome.
    cases, others : int
        Numbers of all people with and without the outcome.

    Returns
    -------
    DataFrame
        As by `threshold_table`. The preference threshold is the risk whose odds are divided by the
        odds of the outcome. A ratio with denominator 0 is missing or infinite.
    """
    tp, fp = np.asarray(true_positive, float), np.asarray(false_positive, float)
    fn, tn = cases - tp, others - fp
    with np.errstate(divide="ignore", invalid="ignore"):
        odds = thresholds / (1 - thresholds) * np.divide(others, cases)
        sensitivity, specificity = tp / (tp + fn), tn / (tn + fp)
        precision = tp / (tp + fp)
        positive_ratio = sensitivity / (1 - specificity)
        negative_ratio = (1 - sensitivity) / specificity
        measures = {
            "f_1_score": 2 * precision * sensitivity / (precision + sensitivity),
            "accuracy": (tp + tn) / (cases + others),
            "sensitivity": sensitivity,
            "false_negative_rate": fn / (tp + fn),
            "false_positive_rate": fp / (tn + fp),
            "specificity": specificity,
            "positive_predictive_value": precision,
            "false_discovery_rate": fp / (tp + fp),
            "negative_predictive_value": tn / (fn + tn),
            "false_omission_rate": fn / (fn + tn),
            "positive_likelihood_ratio": positive_ratio,
            "negative_likelihood_ratio": negative_ratio,
            "diagnostic_odds_ratio": positive_ratio / negative_ratio,
        }
        preference = odds / (1 + odds)
    counts = {
        "positive_count": tp + fp,
        "negative_count": tn + fn,
        "true_count": tp + fn,
        "false_count": tn + fp,
        "true_positive_count": tp,
        "true_negative_count": tn,
        "false_positive_count": fp,
        "false_negative_count": fn,
    }
    return pd.DataFrame(
        {
            "prediction_threshold": thresholds,
            "preference_threshold": preference,
            **{name: count.astype(int) for name, count in counts.items()},
            **measures,
        }
    )
