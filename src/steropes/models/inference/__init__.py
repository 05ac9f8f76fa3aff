"""Inference about the coefficients of a fitted model, as ``model.inference``."""
