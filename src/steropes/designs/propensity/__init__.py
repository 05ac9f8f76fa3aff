"""Propensity scores on arrays: fits, weights, pairs and ties. Knows no database."""
