"""Pictures of models and of curves. Each function draws on Matplotlib axes and returns them.

Nothing is computed here that a table does not say; Matplotlib is imported when one is drawn.
"""

from .curves import incidence_curves, survival_curves
from .diagnostics import calibration, schoenfeld_residuals
from .intervals import forest, profile_curve
from .selection import coefficient_paths, cross_validation_curve

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
