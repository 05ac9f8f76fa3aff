"""Covariates at the index date, and their preparation for a model."""
