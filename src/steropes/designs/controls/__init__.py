"""Control outcomes: estimates of systematic error, calibration and evaluation of analyses."""

from steropes.designs.controls.empirical_calibration import (
    Calibrated,
    SystematicError,
    calibrate,
    fit_systematic_error,
    leave_one_out,
)
from steropes.designs.controls.performance_metrics import (
    ControlEstimates,
    control_performance,
    performance_by_ratio,
)
from steropes.designs.controls.systematic_error_model import (
    ErrorModel,
    calibrate_interval,
    fit_error_model,
    leave_one_group_out,
)

__all__ = [
    "Calibrated",
    "ControlEstimates",
    "ErrorModel",
    "SystematicError",
    "calibrate",
    "calibrate_interval",
    "control_performance",
    "fit_error_model",
    "fit_systematic_error",
    "leave_one_group_out",
    "leave_one_out",
    "performance_by_ratio",
]
