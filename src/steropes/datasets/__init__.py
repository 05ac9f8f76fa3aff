"""Simulated data with known truth, to learn methods and to check analyses."""

from .case_series_data import simulate_case_series
from .confounded_cohort import simulate_confounded_cohort
from .regression_data import simulate_regression
from .simulated import Simulated

__all__ = [
    "Simulated",
    "simulate_case_series",
    "simulate_confounded_cohort",
    "simulate_regression",
]
