"""Plots of models, curves and studies. Each function draws on Matplotlib axes and returns them.

The functions draw numbers from tables. Matplotlib is imported at the first plot.
"""

from .bias_plots import bias_draws
from .comparison_plots import (
    attrition,
    confounder_ranks,
    covariate_balance,
    love_plot,
    score_overlap,
)
from .diagnostic_plots import (
    control_estimates,
    hypothesis_tests,
    residuals,
    schoenfeld_residuals,
)
from .effect_plots import nomogram, partial_effect, terms, transformation
from .interval_plots import forest, profile_curve, ratio_forest
from .performance_plots import calibration, decision_curve, performance
from .posterior_plots import posterior_draws
from .prior_variance_plots import coefficient_paths, cross_validation_curve
from .survival_plots import incidence_curves, interval_curves, survival_curves
from .tree_scan_plots import tree_scan

__all__ = [
    "attrition",
    "bias_draws",
    "calibration",
    "coefficient_paths",
    "confounder_ranks",
    "control_estimates",
    "covariate_balance",
    "cross_validation_curve",
    "decision_curve",
    "forest",
    "hypothesis_tests",
    "incidence_curves",
    "interval_curves",
    "love_plot",
    "nomogram",
    "partial_effect",
    "performance",
    "posterior_draws",
    "profile_curve",
    "ratio_forest",
    "residuals",
    "schoenfeld_residuals",
    "score_overlap",
    "survival_curves",
    "terms",
    "transformation",
    "tree_scan",
]


def __dir__() -> list[str]:
    return __all__
