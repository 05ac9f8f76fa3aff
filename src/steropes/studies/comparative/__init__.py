"""Comparative cohort studies: settings, adjustment, estimates and positive controls."""
