"""Exact results of case series: prepared intervals, diagnostics and tables."""
