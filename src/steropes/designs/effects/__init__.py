"""Outcomes of two arms on arrays: tests, Cox models, counts, risks. Knows no database."""
