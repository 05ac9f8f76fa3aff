"""What the data say about the coefficients: information, intervals, tests."""

from .information_matrix import Information, refuse_separated, refuse_undetermined

__all__ = ["Information", "refuse_separated", "refuse_undetermined"]
