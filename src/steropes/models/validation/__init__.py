"""Measures of performance of a fitted model, as ``model.validation``."""
