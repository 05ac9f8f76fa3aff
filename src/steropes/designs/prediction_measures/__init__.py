"""Measures of predicted risks on arrays. Knows no database."""
