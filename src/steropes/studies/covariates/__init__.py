"""Covariates at the index date: one column per concept, or FeatureExtraction's default set."""

from steropes.studies.covariates.concept_covariates import (
    CovariateRules,
    Covariates,
    NothingLeftError,
    extract_covariates,
)

__all__ = ["CovariateRules", "Covariates", "NothingLeftError", "extract_covariates"]
