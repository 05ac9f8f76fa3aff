"""Kernels of the minimisers of quadratic models."""
