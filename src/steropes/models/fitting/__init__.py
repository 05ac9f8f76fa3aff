"""Settings, steps of a fit, coefficients and linear predictors of all estimators."""
