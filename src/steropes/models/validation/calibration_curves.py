"""Smooth calibration curves: observed means or risks as a function of predicted ones."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...data.weighted_quantiles import weighted_quantiles
from ...design_matrix import null_design
from ...errors import DataError, SeparationError
from ..families.family import ValidationData
from ..families.response_families import LOGISTIC

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
    """Fits the outcome to a spline of a linear predictor, and reads means or risks from the fit.

    Parameters
    ----------
    data : ValidationData
        An outcome of any family.
    at : float or None
        The time by which a survival model predicts the event, or the value that the outcome of a
        cumulative model exceeds.
    binary : estimator, optional
        The logistic model of whether a cumulative model's outcome exceeds the value, not fitted.
    """

    def __init__(self, data: ValidationData, at: float | None, binary: object = None) -> None:
        self.data, self.at = data, at
        ordinal = data.family.exceeds_values
        self.link = data.family.link_of(data.empty)
        # A cumulative model is not needed to observe whether the outcome exceeds the value.
        self.observed_data = data
        if ordinal:
            exceeds = (data.y > at).astype(np.float64)
            self.observed_data = ValidationData(LOGISTIC, binary, exceeds)

    def shift(self, eta: np.ndarray, weight: np.ndarray) -> float:
        """Estimate the constant that predictions add to η: that of a time or value, or zero.

        NaN if no one or everybody has the event by this time, or a larger value.
        """
        if self.at is None:
            return 0.0
        try:
            fit = self.data.fit(null_design(len(eta)), weight, offset=eta)
        except (DataError, SeparationError):
            return np.nan
        risk = self.data.family.risk(fit, np.zeros((1, 0)), self.at)
        return float(self.link.predictor(risk)[0]) if 0 < risk[0] < 1 else np.nan

    def observed(self, eta: np.ndarray, weight: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Estimate the means or risks at the linear predictors ``at``; NaN if that fails."""
        knots = weighted_quantiles(eta, weight, KNOTS)
        if not (np.diff(knots) > 0).all():
            return np.full(len(at), np.nan)
        X, new = natural_spline_columns(eta, knots), natural_spline_columns(at, knots)
        try:
            fit = self.observed_data.fit(X, weight)
        except (DataError, SeparationError):
            return np.full(len(at), np.nan)
        return self.observed_data.family.risk(fit, new, self.at)


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
