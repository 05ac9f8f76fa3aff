"""Runs of many questions: comparative grids and grids of case series."""
