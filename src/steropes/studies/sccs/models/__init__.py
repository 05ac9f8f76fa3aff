"""Intervals and models of case series."""
