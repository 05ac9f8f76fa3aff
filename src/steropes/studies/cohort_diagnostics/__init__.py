"""Diagnostics of cohorts: exact counts of records that definitions find, and findings in words."""
