"""Inference for fitted models: information matrices, intervals, residuals and tests."""

from .information_matrix import Information, refuse_separated, refuse_undetermined

__all__ = ["Information", "refuse_separated", "refuse_undetermined"]
