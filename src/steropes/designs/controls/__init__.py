"""Control outcomes: systematic error, calibration, and synthetic positive controls."""

from steropes.designs.controls.empirical_calibration import (
    Calibrated,
    SystematicError,
    calibrate,
    fit_systematic_error,
    leave_one_out,
)
from steropes.designs.controls.performance_metrics import ControlEstimates, control_performance
from steropes.designs.controls.signal_injection import (
    InjectedOutcomes,
    Synthesis,
    add_outcomes,
    outcome_rates,
)
from steropes.designs.controls.systematic_error_comparison import compare_errors
from steropes.designs.controls.systematic_error_from_profiles import (
    calibrate_profile,
    fit_profile_error,
)
from steropes.designs.controls.systematic_error_model import (
    ErrorModel,
    calibrate_interval,
    fit_error_model,
    leave_one_group_out,
)
from steropes.designs.controls.systematic_error_posterior import ErrorPosterior, error_posterior

__all__ = [
    "Calibrated",
    "ControlEstimates",
    "ErrorModel",
    "ErrorPosterior",
    "InjectedOutcomes",
    "Synthesis",
    "SystematicError",
    "add_outcomes",
    "calibrate",
    "calibrate_interval",
    "calibrate_profile",
    "compare_errors",
    "control_performance",
    "error_posterior",
    "fit_error_model",
    "fit_profile_error",
    "fit_systematic_error",
    "leave_one_group_out",
    "leave_one_out",
    "outcome_rates",
]
