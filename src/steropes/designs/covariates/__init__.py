"""Covariates of people by columns, and their preprocessing for penalised models."""

from steropes.designs.covariates.covariates_by_column import Covariates
from steropes.designs.covariates.preprocessing import Tidied, TidyRules, tidy
from steropes.designs.covariates.record_counts import count_records, recurrence_levels

__all__ = [
    "Covariates",
    "Tidied",
    "TidyRules",
    "count_records",
    "recurrence_levels",
    "tidy",
]
