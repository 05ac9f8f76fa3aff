"""Plots of models and curves. Each function draws on Matplotlib axes and returns them.

The functions draw numbers from tables. Matplotlib is imported at the first plot.
"""

from .curve_plots import incidence_curves, survival_curves
from .diagnostic_plots import calibration, schoenfeld_residuals
from .interval_plots import forest, profile_curve
from .selection_plots import coefficient_paths, cross_validation_curve

__all__ = [
    "calibration",
    "coefficient_paths",
    "cross_validation_curve",
    "forest",
    "incidence_curves",
    "profile_curve",
    "schoenfeld_residuals",
    "survival_curves",
]
