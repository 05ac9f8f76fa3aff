"""Measures of predicted risks on arrays: calibration, discrimination and thresholds."""
