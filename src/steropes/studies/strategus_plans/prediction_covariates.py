"""Covariate settings of prediction models, among them PatientLevelPrediction's of cohorts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from steropes.errors import DataError
from steropes.studies.covariates.cohort_covariates import CohortCovariate
from steropes.studies.covariates.covariate_analysis_catalogue import ANALYSES
from steropes.studies.covariates.feature_extraction import FeatureRules
from steropes.studies.strategus_plans.r_covariate_settings import covariate_rules
from steropes.studies.strategus_plans.r_json_values import (
    Flag,
    Identifier,
    Integer,
    Items,
    JsonPath,
    RModel,
    Text,
    json_path,
    parsed,
)

__all__ = ["prediction_covariates"]

COHORT_FUNCTION = "getCohortCovariateData"


class _OfCohort(RModel):
    """A covariate of a cohort; the schema and table of cohorts are those of the run."""

    covariate_name: Text
    covariate_id: Identifier
    cohort_database_schema: Any = None
    cohort_table: Any = None
    cohort_ids: Items[Identifier]
    start_day: Integer
    end_days: Integer
    count: Flag = False
    age_interaction: Flag = False
    ln_age_interaction: Flag = False
    analysis_id: Integer = 0


def prediction_covariates(
    settings: object, path: JsonPath
) -> tuple[FeatureRules, tuple[int, ...], tuple[CohortCovariate, ...]]:
    """Translate covariate settings of a prediction model, among them covariates of cohorts.

    Returns
    -------
    FeatureRules
        The rules of FeatureExtraction's covariates, without analyses if there are none.
    tuple of int
        The only covariate ids to use; empty for all.
    tuple of CohortCovariate
        The covariates of cohorts.

    Raises
    ------
    DataError
        A setting is unknown, or has no counterpart.
    """
    listed = settings if isinstance(settings, list) else [settings]
    of_cohorts = []
    others: list[object] = []
    for i, one in enumerate(listed):
        place: JsonPath = (*path, i) if isinstance(settings, list) else path
        function = str(one.get("attr_fun", "")) if isinstance(one, Mapping) else ""
        if isinstance(one, Mapping) and function.split("::")[-1] == COHORT_FUNCTION:
            given = {k: v for k, v in one.items() if k != "attr_fun"}
            of_cohorts.append(_of_cohort(parsed(_OfCohort, given, place), place))
        else:
            others.append(one)
    if not of_cohorts:
        return (*covariate_rules(settings, path), ())
    repeated = {c.covariate_id for c in of_cohorts}
    if len(repeated) < len(of_cohorts):
        raise DataError(f"{json_path(path)}: two covariates of cohorts have the same covariateId")
    rules, only = covariate_rules(others, path) if others else (FeatureRules(analyses=()), ())
    return rules, only, tuple(of_cohorts)


def _of_cohort(read: _OfCohort, path: JsonPath) -> CohortCovariate:
    """Translate the covariate of a cohort."""
    if read.covariate_id % 1000 in ANALYSES:
        raise DataError(
            f"{json_path((*path, 'covariateId'))}: the last three digits are an analysis of "
            "FeatureExtraction, so that the covariate may have the id of another"
        )
    if len(read.cohort_ids) != 1:
        raise DataError(f"{json_path((*path, 'cohortIds'))} must be one cohort")
    value: Literal["present", "starts", "age", "log age"] = "present"
    if read.ln_age_interaction:
        value = "log age"
    elif read.age_interaction:
        value = "age"
    elif read.count:
        value = "starts"
    return CohortCovariate(
        read.covariate_id, read.covariate_name, read.cohort_ids[0], read.start_day, read.end_days,
        value,
    )  # fmt: skip
