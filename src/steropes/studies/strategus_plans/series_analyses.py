"""Translation of analyses of R's SelfControlledCaseSeries to those of a grid of case series."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from steropes.errors import DataError
from steropes.studies.sccs.specification.case_series_grid_settings import (
    CaseSeriesGrid,
    SeriesAnalysis,
    SeriesQuestion,
)
from steropes.studies.sccs.specification.case_series_settings import ExposureWindow, Spline
from steropes.studies.strategus_plans.cyclops_settings import require_prior
from steropes.studies.strategus_plans.r_json_values import JsonPath, json_path, parsed, within
from steropes.studies.strategus_plans.series_settings import (
    EraWindow,
    FitArgs,
    IntervalArgs,
    KnotSettings,
    SccsAnalysis,
    SccsDataArgs,
)

__all__ = ["series_analysis"]

OWN = "exposureId"  # R's name of the exposure of a question.
OF_QUESTION = {OWN: 0}  # The exposure of the question has no id in an analysis.
ANY_QUESTION = (1, 2)  # An exposure and an outcome, to validate the settings of an analysis.
# R's default range of likelihood profiles.
BOUNDS = (-math.log(10), math.log(10))
MaybeIds = tuple[int, ...] | None


def series_analysis(
    values: object, path: JsonPath, exposures: Mapping[str, int] = OF_QUESTION
) -> tuple[SeriesAnalysis, list[str]]:
    """Translate an analysis.

    Parameters
    ----------
    values : Any
        The analysis as parsed JSON, of SelfControlledCaseSeries 5 or 6.
    exposures : mapping of str to int
        Ids of R's names of exposures. Default: the exposure of the question, whichever it is.

    Returns
    -------
    SeriesAnalysis
        The analysis.
    list of str
        Differences from R.

    Raises
    ------
    DataError
        A setting is unknown, invalid or without counterpart; the message has its JSON path.
    """
    given = parsed(SccsAnalysis, values, path)
    differences: list[str] = []
    if given.fit_sccs_model_args is None:
        raise DataError(f"{json_path(path)} has no fitSccsModelArgs: there is nothing to estimate")
    data, people = given.get_db_sccs_data_args, given.create_study_population_args
    data_path: JsonPath = (*path, "getDbSccsDataArgs")
    loaded = _loaded(data, data_path, exposures)
    restrict = people.restrict_time_to_era_id
    interval_path: JsonPath = (*path, "createIntervalDataArgs")
    cut = given.create_interval_data_args
    if data.max_cases_per_outcome:
        differences.append(
            f"more than {data.max_cases_per_outcome:,} cases are sampled, and the sample is not R's"
        )
    settings: dict[str, Any] = {
        "outcomes_from": "cohort",
        "exposures_from": "cohort",
        "nesting_cohort": _nesting(data),
        "study_periods": _periods(data, data_path),
        "first_outcome_only": people.first_outcome_only,
        "naive_days": people.naive_period,
        "min_age": people.min_age,
        "max_age": people.max_age,
        "age_rule": "365.25 days",
        "sexes": people.gender_concept_ids,
        "max_cases": data.max_cases_per_outcome,
        "min_eras": data.delete_covariates_small_count,
        **_model(given.fit_sccs_model_args, (*path, "fitSccsModelArgs"), differences),
        **_time(cut, interval_path, differences),
    }
    within_exposure = False
    if restrict not in (None, [], ""):
        at = (*path, "createStudyPopulationArgs", "restrictTimeToEraId")
        era = _id(restrict, at, exposures)
        within_exposure = era == 0
        settings["restrict_to_exposure"] = era or None
    windows, control = _windows(cut, interval_path, loaded, exposures, differences)
    with within(path):
        if not windows:
            raise DataError("there are no covariates of eras")
        made = SeriesAnalysis(
            given.analysis_id,
            given.description or f"analysis {given.analysis_id}",
            {name: v for name, v in settings.items() if v not in (None, ())},
            windows=windows,
            control=control,
            within_exposure=within_exposure,
        )
        asked = SeriesQuestion(*ANY_QUESTION)
        made.settings_for(asked, CaseSeriesGrid((asked,), (made,)))  # Invalid settings raise here.
    return made, differences


def _nesting(data: SccsDataArgs) -> int | None:
    """Return the nesting cohort; version 5 has a flag for its use."""
    return None if data.use_nesting_cohort is False else data.nesting_cohort_id


def _periods(data: SccsDataArgs, path: JsonPath) -> tuple[tuple[object, object], ...]:
    """Return the study periods; version 5 has one, and an open end is None."""
    starts, ends = data.study_start_dates, data.study_end_dates
    if len(starts) != len(ends):
        at = json_path((*path, "studyStartDates"))
        raise DataError(f"{at}: there are {len(starts)} starts and {len(ends)} ends")
    if starts:
        return tuple(zip(starts, ends, strict=True))
    if data.study_start_date is None and data.study_end_date is None:
        return ()
    return ((data.study_start_date, data.study_end_date),)


def _loaded(data: SccsDataArgs, path: JsonPath, exposures: Mapping[str, int]) -> MaybeIds:
    """Return the eras that R loads: None for all, 0 in the place of the question's exposure."""
    custom: tuple[int, ...] = ()
    if data.use_custom_covariates is not False:
        listed = [c for c in data.custom_covariate_ids if c != ""]
        custom = tuple(_id(c, (*path, "customCovariateIds"), {}) for c in listed)
    asked = [e for e in data.exposure_ids if e not in ("", None)]
    if not asked:
        return None
    return (*(_id(e, (*path, "exposureIds"), exposures) for e in asked), *custom)


def _id(value: object, path: JsonPath, exposures: Mapping[str, int]) -> int:
    """Convert an id or the name of an exposure; other names have no counterpart."""
    if isinstance(value, str) and value in exposures:
        return exposures[value]
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise DataError(f"{json_path(path)} must be an id")
    try:
        return int(str(value).strip())
    except ValueError:
        raise DataError(
            f"{json_path(path)}: {str(value)[:40]!r} is neither an id nor {OWN}, the one exposure "
            "that a question has here"
        ) from None


def _windows(
    given: IntervalArgs,
    path: JsonPath,
    loaded: MaybeIds,
    exposures: Mapping[str, int],
    differences: list[str],
) -> tuple[tuple[ExposureWindow, ...], ExposureWindow | None]:
    """Translate the covariates of eras and the control interval."""
    windows = [
        _window(w, (*path, "eraCovariateSettings", i), loaded, exposures, differences)
        for i, w in enumerate(given.era_covariate_settings)
    ]
    control = None
    if given.control_interval_settings is not None:
        at = (*path, "controlIntervalSettings")
        control = _window(
            given.control_interval_settings, at, loaded, exposures, differences, control=True
        )
    return tuple(windows), control


def _window(
    given: EraWindow,
    path: JsonPath,
    loaded: MaybeIds,
    exposures: Mapping[str, int],
    differences: list[str],
    control: bool = False,
) -> ExposureWindow:
    """Translate a covariate of eras or the control interval."""
    if given.is_control_interval and not control:
        raise DataError(f"{json_path((*path, 'isControlInterval'))}: use controlIntervalSettings")
    exclude = tuple(_id(e, (*path, "excludeEraIds"), exposures) for e in given.exclude_era_ids)
    if 0 in exclude:
        raise DataError(f"{json_path((*path, 'excludeEraIds'))}: {OWN} cannot be excluded here")
    asked = loaded
    if given.include_era_ids:
        at: JsonPath = (*path, "includeEraIds")
        asked = tuple(_id(e, at, exposures) for e in given.include_era_ids)
        if loaded is not None:
            both = tuple(i for i in asked if i in loaded)
            if not both:
                differences.append(
                    f"window {given.label!r} has no eras, because exposureIds do not load them"
                )
                exclude = (*exclude, *asked)
            asked = both or asked
    try:
        return ExposureWindow(
            given.label,
            _eras(asked, path),
            exclude=exclude,
            start=given.start,
            end=given.end,
            start_at="start" if given.start_anchor == "era start" else "end",
            end_at="start" if given.end_anchor == "era start" else "end",
            by_concept=given.stratify_by_id,
            first_only=given.first_occurrence_only,
            penalized=given.allow_regularization,
            of_interest=given.exposure_of_interest,
            profile=given.profile_likelihood,
            pre_exposure=False if control else given.pre_exposure,
        )
    except DataError as error:
        raise DataError(f"{json_path(path)}: {error}") from None


def _eras(asked: MaybeIds, path: JsonPath) -> MaybeIds:
    """Return the eras of a window: () for the question's exposure, None for all cohorts."""
    if asked is None:
        return None
    if asked == (0,):
        return ()
    if 0 in asked:
        raise DataError(
            f"{json_path(path)}: a window of {OWN} together with other eras has no counterpart"
        )
    return asked


def _model(args: FitArgs, path: JsonPath, differences: list[str]) -> dict[str, object]:
    """Translate the prior and the cross-validation."""
    differences += args.control.differences
    if args.control.cv_repetitions > 1:
        differences.append("cross-validation has one repetition")
    bounds = tuple(args.profile_bounds)
    odd = bounds and any(abs(a - b) > 1e-3 for a, b in zip(bounds, BOUNDS, strict=False))
    if args.profile_grid or odd:
        differences.append("the stored likelihood profile has points of our choice")
    variance = require_prior(args.prior, (*path, "prior"), ("laplace", "normal", "none"))
    return {
        "prior": args.prior.prior_type,
        "variance": None if args.prior.prior_type == "none" else variance,
        "folds": args.control.fold,
        "seed": args.control.seed_used,
    }


def _time(cut: IntervalArgs, path: JsonPath, differences: list[str]) -> dict[str, object]:
    """Translate splines, the probe at the end of observation and dependent observation."""
    found: dict[str, Any] = {
        "spline_cases": cut.min_cases_for_time_covariates or cut.min_cases_for_age_season or 10_000,
        "end_of_observation_days": cut.end_of_observation_era_length or 0,
        "event_dependent_observation": bool(cut.event_dependent_observation),
    }
    for name, r_name, knots, settings in (
        ("age", "ageCovariateSettings", "age_knots", cut.age_covariate_settings),
        (
            "season",
            "seasonalityCovariateSettings",
            "season_knots",
            cut.seasonality_covariate_settings,
        ),
        (
            "calendar",
            "calendarTimeCovariateSettings",
            "calendar_time_knots",
            cut.calendar_time_covariate_settings,
        ),
    ):
        if settings is None:
            continue
        found[name] = _spline(settings, knots, (*path, r_name))
        if settings.compute_confidence_intervals:
            differences.append(f"the {name} spline has no confidence intervals")
    return found


def _spline(settings: KnotSettings, name: str, path: JsonPath) -> Spline:
    """Translate a spline; its knots are a number, or their places."""
    knots: Sequence[Any] | None = getattr(settings, name)
    if not knots:
        raise DataError(f"{json_path(path)} has no knots of its kind")
    if any(isinstance(k, bool) or not isinstance(k, int | float) for k in knots):
        raise DataError(f"{json_path(path)}: knots that are dates have no counterpart")
    try:
        return Spline(
            int(knots[0]) if len(knots) == 1 else tuple(float(k) for k in knots),
            penalized=settings.allow_regularization,
        )
    except DataError as error:
        raise DataError(f"{json_path(path)}: {error}") from None
