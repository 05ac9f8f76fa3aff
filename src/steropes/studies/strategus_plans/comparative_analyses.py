"""Translation of analyses of R's CohortMethod to those of a comparative grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from steropes.designs.effects.outcome_model import OutcomeModel
from steropes.designs.propensity.propensity_score_fit import PropensityRules
from steropes.designs.propensity.score_matching import Match
from steropes.designs.propensity.score_strata import Stratify
from steropes.designs.propensity.score_trimming import Trim
from steropes.errors import DataError
from steropes.studies.cohorts.study_populations import PopulationRules
from steropes.studies.cohorts.time_at_risk import TimeAtRisk
from steropes.studies.cohorts.two_cohort_entry import ComparisonRules
from steropes.studies.comparative.grid_questions_and_analyses import BalanceFilter, StudyAnalysis
from steropes.studies.strategus_plans.cohort_method_settings import (
    BalanceArgs,
    CmAnalysis5,
    CmAnalysis6,
    DataArgs,
    OutcomeModelArgs,
    PopulationArgs5,
    PopulationArgs6,
    PsArgs,
)
from steropes.studies.strategus_plans.cyclops_settings import exempt_covariates, require_prior
from steropes.studies.strategus_plans.r_covariate_settings import covariate_rules
from steropes.studies.strategus_plans.r_json_values import (
    JsonPath,
    json_path,
    parsed,
    table_rows,
    within,
)

__all__ = ["comparative_analysis"]


def comparative_analysis(
    values: object, path: JsonPath, refit_for_population: bool
) -> tuple[StudyAnalysis, list[str]]:
    """Translate an analysis.

    Parameters
    ----------
    values : Any
        The analysis as parsed JSON, of CohortMethod 5 or 6.
    refit_for_population : bool
        Whether propensity models are fitted to the people at risk.

    Returns
    -------
    StudyAnalysis
        The analysis.
    list of str
        Differences from R.

    Raises
    ------
    DataError
        A setting is unknown, invalid or without counterpart; the message has its JSON path.
    """
    old = isinstance(values, dict) and "createStudyPopulationArgs" not in values
    given: CmAnalysis5 | CmAnalysis6
    if old:
        given = parsed(CmAnalysis5, values, path)
    else:
        given = parsed(CmAnalysis6, values, path)
    differences: list[str] = []
    if given.fit_outcome_model_args is None:
        raise DataError(
            f"{json_path(path)} has no fitOutcomeModelArgs: there is nothing to estimate"
        )
    made = _people(given, path, old, differences)
    made |= _adjustment(given, path, refit_for_population, differences)
    at: JsonPath = (*path, "fitOutcomeModelArgs")
    with within(at):
        made["outcome_model"] = _outcome_model(given.fit_outcome_model_args, at, differences)
    made["balance_shown"] = _balance(given, path, differences)
    if made["truncate"] is not None and not made["outcome_model"].weighted:
        made["truncate"] = None
        differences.append(
            "truncateIptwArgs are not used, because the outcome model has no weights"
        )
    with within(path):
        plain = StudyAnalysis(given.analysis_id, given.description or "", **made)
        return replace(plain, unadjusted=plain.crude), differences


def _people(
    given: CmAnalysis5 | CmAnalysis6, path: JsonPath, old: bool, differences: list[str]
) -> dict[str, Any]:
    """Translate the selection of people, their time at risk and their covariates."""
    data, people = given.get_db_cohort_method_data_args, given.population
    at: JsonPath = (*path, "getDbCohortMethodDataArgs")
    if data.exclude_drugs_from_covariates:
        raise DataError(
            f"{json_path((*at, 'excludeDrugsFromCovariates'))} has no counterpart; exclude the "
            "concepts of the drugs"
        )
    with within((*at, "covariateSettings")):
        features, only = covariate_rules(data.covariate_settings, (*at, "covariateSettings"))
        features = replace(features, only=only)
    if data.max_cohort_size:
        differences.append(
            f"cohorts of more than {data.max_cohort_size:,} entries are sampled, and the sample is "
            "not R's"
        )
    with within(at):
        cohorts = _comparison(data)
    with within((*path, "createStudyPopArgs" if old else "createStudyPopulationArgs")):
        at_risk, population = _at_risk(people, old), _population(people)
    return {
        "cohorts": cohorts,
        "at_risk": at_risk,
        "population": population,
        "nesting": data.nesting_cohort_id,
        "features": features,
    }


def _adjustment(
    given: CmAnalysis5 | CmAnalysis6,
    path: JsonPath,
    refit_for_population: bool,
    differences: list[str],
) -> dict[str, Any]:
    """Translate the propensity model, and the adjustment by its scores."""
    propensity, estimand = None, "att"
    if given.create_ps_args is not None:
        at: JsonPath = (*path, "createPsArgs")
        with within(at):
            propensity = _propensity(given.create_ps_args, at, refit_for_population, differences)
        estimand = given.create_ps_args.estimator
    weights = given.truncate_iptw_args
    with within((*path, "trimByPsArgs")):
        trim = _trim(given, path)
    with within((*path, "matchOnPsArgs")):
        match = _match(given, path)
    with within((*path, "stratifyByPsArgs")):
        strata = _stratify(given, path)
    return {
        "propensity": propensity,
        "estimand": estimand,
        "trim": trim,
        "truncate": None if weights is None else weights.max_weight,
        "match": match,
        "stratify": strata,
    }


def _comparison(data: DataArgs) -> ComparisonRules:
    """Translate the rules that do not depend on the outcome."""
    return ComparisonRules(
        both=data.both,
        first_only=data.first_exposure_only,
        washout_days=data.washout_period,
        common_period=data.restrict_to_common_period,
        min_age=data.min_age,
        max_age=data.max_age,
        sexes=data.gender_concept_ids,
        study_start=data.study_start_date,
        study_end=data.study_end_date,
        max_people=data.max_cohort_size,
        age_rule="365.25 days",
    )


def _at_risk(people: PopulationArgs6, old: bool) -> TimeAtRisk:
    """Translate the time at risk.

    Version 5 requires the end to be ``minDaysAtRisk`` days after the start, which are one day more
    at risk. In both versions ``maxDaysAtRisk`` days after the start are the last day.
    """
    most = people.max_days_at_risk
    return TimeAtRisk(
        start=people.risk_window_start,
        start_anchor=people.start_anchor,
        end=people.risk_window_end,
        end_anchor=people.end_anchor,
        min_days=people.min_days_at_risk + (1 if old and people.min_days_at_risk else 0),
        # R has 99999 for an unlimited number of days.
        max_days=None if most is None or most >= 99999 else most + 1,
        censor_at_new_window=people.censor_at_new_risk_window,
        remove_prior=people.remove_subjects_with_prior_outcome,
        look_back=people.prior_outcome_lookback,
    )


def _population(people: PopulationArgs6) -> PopulationRules | None:
    """Translate version 5's rules of the population; None if they change nothing."""
    if not isinstance(people, PopulationArgs5):
        return None
    rules = PopulationRules(
        first_only=people.first_exposure_only,
        common_period=people.restrict_to_common_period,
        both=people.both,
        washout_days=people.washout_period,
    )
    return None if rules == PopulationRules() else rules


def _propensity(
    args: PsArgs, path: JsonPath, refit_for_population: bool, differences: list[str]
) -> PropensityRules:
    """Translate the propensity model."""
    differences += [f"propensity model: {d}" for d in args.control.differences]
    if args.stop_on_error:
        differences.append(
            "propensity model: a covariate that is highly correlated with the treatment leaves "
            "results without estimates; R would stop"
        )
    return PropensityRules(
        variance=require_prior(args.prior, (*path, "prior"), ("laplace",), exempt=True),
        exempt=exempt_covariates(args.prior),
        folds=args.control.fold,
        repeats=args.control.cv_repetitions,
        max_people=args.max_cohort_size_for_fitting,
        high_correlation=0.5 if args.error_on_high_correlation else 1.0,
        include=args.include_covariate_ids,
        exclude=args.exclude_covariate_ids,
        seed=args.control.seed_used,
        people="at risk" if refit_for_population else "all",
    )


def _trim(given: CmAnalysis5 | CmAnalysis6, path: JsonPath) -> Trim | None:
    """Translate trimming by score, equipoise and weight."""
    made: dict[str, Any] = {}
    if (args := given.trim_by_ps_args) is not None:
        made = {"fraction": args.trim_fraction, "max_weight": args.max_weight}
        made["equipoise"] = _bounds(args.equipoise_bounds, (*path, "trimByPsArgs"))
        made["method"] = args.trim_method or "symmetric"
    if isinstance(given, CmAnalysis5):
        if (bounds := given.trim_by_ps_to_equipoise_args) is not None:
            at: JsonPath = (*path, "trimByPsToEquipoiseArgs")
            made["equipoise"] = _bounds(bounds.bounds, at)
        if (weight := given.trim_by_iptw_args) is not None:
            made["max_weight"] = weight.max_weight
    return Trim(**made) if made else None


def _bounds(bounds: Sequence[float], path: JsonPath) -> tuple[float, float] | None:
    """Return two bounds, or None if there are none."""
    if not bounds:
        return None
    if len(bounds) != 2:
        raise DataError(f"{json_path(path)}: bounds must be two numbers")
    return bounds[0], bounds[1]


def _match(given: CmAnalysis5 | CmAnalysis6, path: JsonPath) -> Match | None:
    """Translate matching."""
    args, name = given.match_on_ps_args, "matchOnPsArgs"
    if isinstance(given, CmAnalysis5) and given.match_on_ps_and_covariates_args is not None:
        args, name = given.match_on_ps_and_covariates_args, "matchOnPsAndCovariatesArgs"
    if args is None:
        return None
    for columns in ("match_columns", "stratification_columns"):
        if getattr(args, columns):
            raise DataError(f"{json_path((*path, name))}: matching by columns has no counterpart")
    return Match(
        caliper=args.caliper,
        scale=args.caliper_scale,
        max_ratio=args.max_ratio,
        reverse=args.allow_reverse_match,
        exact=(*args.match_covariate_ids, *args.covariate_ids),
    )


def _stratify(given: CmAnalysis5 | CmAnalysis6, path: JsonPath) -> Stratify | None:
    """Translate stratification."""
    args, name = given.stratify_by_ps_args, "stratifyByPsArgs"
    if isinstance(given, CmAnalysis5) and given.stratify_by_ps_and_covariates_args is not None:
        args, name = given.stratify_by_ps_and_covariates_args, "stratifyByPsAndCovariatesArgs"
    if args is None:
        return None
    if args.stratification_columns:
        raise DataError(f"{json_path((*path, name))}: strata by columns have no counterpart")
    exact = (*args.stratification_covariate_ids, *args.covariate_ids)
    return Stratify(args.number_of_strata, base=args.base_selection, exact=exact)


def _outcome_model(args: OutcomeModelArgs, path: JsonPath, differences: list[str]) -> OutcomeModel:
    """Translate the outcome model, which has a prior only where it has covariates."""
    made: dict[str, Any] = {}
    if args.use_covariates:
        if args.prior is None or args.control is None:
            raise DataError(f"{json_path(path)}: covariates need a prior and a control")
        made["variance"] = require_prior(args.prior, (*path, "prior"), ("laplace",))
        made |= {"folds": args.control.fold, "seed": args.control.seed_used}
        if made["variance"] is None:
            made["repeats"] = args.control.cv_repetitions
        differences += [f"outcome model: {d}" for d in args.control.differences]
    if args.profile_grid:
        differences.append(
            "the stored likelihood profile has points of our choice, not those of profileGrid"
        )
    bounds = _bounds(args.profile_bounds, (*path, "profileBounds"))
    if bounds is not None:
        made |= {"lowest": _ratio(bounds[0], path), "highest": _ratio(bounds[1], path)}
    if args.use_covariates and args.inverse_pt_weighting:
        differences.append("the interval of weights with covariates is by bootstrap")
    elif args.inverse_pt_weighting and not args.bootstrap_ci:
        differences.append(
            "errors and intervals of the weighted model are R's, which take weights for counts of "
            "people and are not robust; bootstrapCi gives robust ones"
        )
    return OutcomeModel(
        kind=args.model_type,
        ties="breslow",
        stratified=args.stratified,
        weighted=args.inverse_pt_weighting,
        covariates=args.use_covariates,
        include=args.include_covariate_ids,
        exclude=args.exclude_covariate_ids,
        interactions=args.interaction_covariate_ids,
        interval="bootstrap" if args.bootstrap_ci else "profile",
        draws=args.bootstrap_replicates,
        **made,
    )


def _ratio(log_ratio: float, path: JsonPath) -> float:
    """Convert a bound of the profile from its logarithm, without the last digits that R cuts."""
    if not abs(log_ratio) <= 13:
        raise DataError(f"{json_path((*path, 'profileBounds'))}: {log_ratio} is no usable bound")
    return float(f"{math.exp(log_ratio):.4g}")


def _balance(
    given: CmAnalysis5 | CmAnalysis6, path: JsonPath, differences: list[str]
) -> BalanceFilter | None:
    """Translate the filter of the exported balance."""
    parts: tuple[tuple[str, BalanceArgs | None], ...] = (
        ("computeSharedCovariateBalanceArgs", given.compute_shared_covariate_balance_args),
        ("computeCovariateBalanceArgs", given.compute_covariate_balance_args),
    )
    for name, args in parts:
        if args is not None and args.subgroup_covariate_id is not None:
            place = json_path((*path, name, "subgroupCovariateId"))
            raise DataError(f"{place}: balance within a subgroup has no counterpart")
    if parts[0][1] is not None and parts[0][1].covariate_filter not in (None, [], {}):
        differences.append("the shared balance is written for all covariates, without its filter")
    args = parts[1][1]
    if args is None or args.covariate_filter in (None, [], {}):
        return None
    differences.append(
        "the balance of each outcome is judged by all covariates; R judges it by those of the "
        "filter (Table 1)"
    )
    at: JsonPath = (*path, "computeCovariateBalanceArgs", "covariateFilter")
    given_filter = args.covariate_filter
    if isinstance(given_filter, list | int) and not isinstance(given_filter, bool):
        listed = given_filter if isinstance(given_filter, list) else [given_filter]
        return BalanceFilter(covariates=tuple(_covariate_id(i, at) for i in listed))
    analyses: list[int] = []
    covariates: list[int] = []
    for i, row in enumerate(table_rows(given_filter, at)):
        unknown = {*row} - {"label", "analysisId", "covariateIds"}
        if unknown:
            raise DataError(f"{json_path((*at, min(unknown)))} is not known")
        ids = row.get("covariateIds")
        if ids in (None, ""):
            analyses.append(_covariate_id(row.get("analysisId"), (*at, "analysisId", i)))
        else:
            covariates += [_covariate_id(c, (*at, "covariateIds", i)) for c in str(ids).split(",")]
    return BalanceFilter(tuple(analyses), tuple(covariates))


def _covariate_id(value: object, path: JsonPath) -> int:
    """Convert an id that may be written as text."""
    try:
        return int(str(value))
    except ValueError:
        raise DataError(f"{json_path(path)} must be an id, not {str(value)[:40]!r}") from None
