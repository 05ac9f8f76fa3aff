"""Smooth calibration curves: observed risks as a function of predicted ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from ..data.survival_outcome import Surv, SurvivalOutcome
from ..errors import DataError, SeparationError
from .performance import ValidationData

__all__ = ["CalibrationCurve", "calibration_frame", "natural_spline_columns"]

# Quantiles of the predictor at which the knots are, of Harrell's three knots.
KNOTS = (0.1, 0.5, 0.9)


def natural_spline_columns(x: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Compute a restricted cubic spline with three knots: x and one bent column, (n, 2).

    References
    ----------
    Harrell (2015), Regression Modeling Strategies, 2nd ed., §2.4.5, eq. 2.25.
    """
    a, b, c = knots
    first, second, third = (np.maximum(x - t, 0.0) ** 3 for t in (a, b, c))
    bent = first - second * (c - a) / (c - b) + third * (b - a) / (c - b)
    return np.column_stack([x, bent / (c - a) ** 2])


class CalibrationCurve:
    """Fits the outcome to a spline of a linear predictor, and reads risks from the fit.

    Parameters
    ----------
    data : ValidationData
        An outcome of the family "logistic" or "cox".
    time : float or None
        Time by which a Cox model predicts the event.
    """

    def __init__(self, data: ValidationData, time: float | None) -> None:
        self.data, self.time = data, time

    def observed(self, eta: np.ndarray, weight: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Estimate the risks of people with the linear predictors ``at``; NaN if that fails."""
        knots = np.quantile(eta[weight > 0], KNOTS)
        if not (np.diff(knots) > 0).all():
            return np.full(len(at), np.nan)
        y = self.data.y
        outcome = Surv(*y) if isinstance(y, SurvivalOutcome) else y
        model: Any = self.data.empty
        X, new = natural_spline_columns(eta, knots), natural_spline_columns(at, knots)
        try:
            fit = model.fit(X, outcome, sample_weight=weight)
        except (DataError, SeparationError):
            return np.full(len(at), np.nan)
        if self.time is None:
            return np.asarray(fit.predict_proba(new)[:, 1])
        return np.asarray(1.0 - fit.predict_survival(new, [self.time])[:, 0])


def calibration_frame(
    predicted: np.ndarray, apparent: np.ndarray, gaps: list[np.ndarray]
) -> pd.DataFrame:
    """Tabulate a curve, its mean optimism over draws and the corrected curve.

    Parameters
    ----------
    predicted, apparent : (m,) arrays
        Predicted risks, and the observed risks of the curve.
    gaps : list of (m,) arrays
        For each draw: the error of calibration in the draw minus that in the data of the fit.
    """
    known = np.array(gaps).reshape(-1, len(predicted))
    counted = np.isfinite(known).sum(axis=0)
    sums = np.nansum(known, axis=0)
    optimism = np.divide(sums, counted, out=np.full(len(predicted), np.nan), where=counted > 0)
    table = {
        "predicted": predicted, "apparent": apparent, "optimism": optimism,
        "corrected": apparent - optimism,
    }  # fmt: skip
    return pd.DataFrame(table)
