"""Controls: outcomes whose effect is known tell of systematic error, and calibrate the others."""

from .calibration import (
    Calibrated,
    SystematicError,
    calibrate,
    fit_systematic_error,
    leave_one_out,
)

__all__ = ["Calibrated", "SystematicError", "calibrate", "fit_systematic_error", "leave_one_out"]
