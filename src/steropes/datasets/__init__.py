"""Simulated data with known truth, and published data of other packages, to learn methods."""

from .case_series_data import simulate_case_series
from .confounded_cohort import simulate_confounded_cohort
from .simulated_regression_data import simulate_regression
from .simulation_result import Simulated
from .teaching_data import (
    load_bone_marrow_transplants,
    load_breast_cancer,
    load_doctor_visits,
    load_heart_transplants,
    load_lung,
    load_rossi,
    load_veteran,
)

__all__ = [
    "Simulated",
    "load_bone_marrow_transplants",
    "load_breast_cancer",
    "load_doctor_visits",
    "load_heart_transplants",
    "load_lung",
    "load_rossi",
    "load_veteran",
    "simulate_case_series",
    "simulate_confounded_cohort",
    "simulate_regression",
]


def __dir__() -> list[str]:
    return __all__
