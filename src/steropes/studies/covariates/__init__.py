"""What was known of people at the start: columns of concepts, and R's default set of covariates."""

from steropes.studies.covariates.concept_covariates import (
    CovariateRules,
    Covariates,
    NothingLeftError,
    extract_covariates,
)

__all__ = ["CovariateRules", "Covariates", "NothingLeftError", "extract_covariates"]
