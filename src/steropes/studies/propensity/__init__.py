"""Propensity scores from covariates, and adjustment by matching, strata and trimming."""
