"""Surveillance of outcomes as data accrue: sequential tests, and signals among many outcomes."""

from steropes.designs.surveillance.bayesian_bias_correction import (
    BiasDistribution,
    CorrectedEffect,
    correct_bias,
    fit_bias,
)
from steropes.designs.surveillance.bayesian_monitoring import monitor_posteriors
from steropes.designs.surveillance.continuous_sequential_bounds import (
    ContinuousBound,
    conditional_poisson_bound,
    continuous_poisson_bound,
)
from steropes.designs.surveillance.group_sequential_bounds import (
    SequentialBound,
    binomial_bound,
    poisson_bound,
)
from steropes.designs.surveillance.multivariable_disproportionality import (
    adjusted_disproportionality,
)
from steropes.designs.surveillance.reporting_ratio_prior import GammaMixture, fit_gamma_mixture
from steropes.designs.surveillance.sequential_bounds_for_estimates import estimate_bound
from steropes.designs.surveillance.sequential_tests_of_estimates import (
    calibrated_statistic,
    monitor_estimates,
    signed_root,
)
from steropes.designs.surveillance.sequential_tree_scans import (
    SequentialTreeScan,
    sequential_tree_scan,
)
from steropes.designs.surveillance.spontaneous_reports import (
    disproportionality,
    report_counts,
)
from steropes.designs.surveillance.temporal_tree_scans import tree_temporal_scan
from steropes.designs.surveillance.tree_scan import TreeScan, tree_scan
from steropes.designs.surveillance.tree_scan_with_propensities import tree_scan_people

__all__ = [
    "BiasDistribution",
    "ContinuousBound",
    "CorrectedEffect",
    "GammaMixture",
    "SequentialBound",
    "SequentialTreeScan",
    "TreeScan",
    "adjusted_disproportionality",
    "binomial_bound",
    "calibrated_statistic",
    "conditional_poisson_bound",
    "continuous_poisson_bound",
    "correct_bias",
    "disproportionality",
    "estimate_bound",
    "fit_bias",
    "fit_gamma_mixture",
    "monitor_estimates",
    "monitor_posteriors",
    "poisson_bound",
    "report_counts",
    "sequential_tree_scan",
    "signed_root",
    "tree_scan",
    "tree_scan_people",
    "tree_temporal_scan",
]
