"""Plots of models, curves and studies. Each function draws on Matplotlib axes and returns them.

The functions draw numbers from tables. Matplotlib is imported at the first plot.
"""

from .comparison_plots import attrition, covariate_balance, love_plot, score_overlap
from .diagnostic_plots import calibration, control_estimates, decision_curve, schoenfeld_residuals
from .effect_plots import nomogram, partial_effect
from .interval_plots import forest, profile_curve, ratio_forest
from .posterior_plots import posterior_draws
from .survival_plots import incidence_curves, survival_curves
from .variance_selection_plots import coefficient_paths, cross_validation_curve

__all__ = [
    "attrition",
    "calibration",
    "coefficient_paths",
    "control_estimates",
    "covariate_balance",
    "cross_validation_curve",
    "decision_curve",
    "forest",
    "incidence_curves",
    "love_plot",
    "nomogram",
    "partial_effect",
    "posterior_draws",
    "profile_curve",
    "ratio_forest",
    "schoenfeld_residuals",
    "score_overlap",
    "survival_curves",
]


def __dir__() -> list[str]:
    return __all__
