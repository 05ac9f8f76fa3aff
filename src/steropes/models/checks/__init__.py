"""Residuals and tests of assumptions, as ``model.checks``."""
