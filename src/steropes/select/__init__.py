"""Choosing the prior's variance by cross-validation; folds are replicates of one batch."""

from .crossvalidation import CrossValidation

__all__ = ["CrossValidation"]
