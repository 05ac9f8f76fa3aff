"""Covariates at the index date, and their preparation for a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from steropes.studies._optional_packages import lazy_names

if TYPE_CHECKING:  # the same names for editors and type checkers
    from .characteristics_table import table_one
    from .feature_extraction import FeatureRules, Features, extract_features

__all__ = [
    "FeatureRules",
    "Features",
    "extract_features",
    "table_one",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "feature_extraction": ["FeatureRules", "Features", "extract_features"],
            "characteristics_table": ["table_one"],
        },
    )
