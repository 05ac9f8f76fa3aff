"""Prediction models of an outcome in a cohort, with exact results."""
