"""Diagnostics of cohorts: exact counts of what their definitions find, and findings in words."""
