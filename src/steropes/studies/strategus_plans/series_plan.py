"""Translation of SelfControlledCaseSeriesModule to the specification of a grid of case series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steropes.errors import DataError
from steropes.studies.sccs.specification.case_series_grid_settings import (
    CaseSeriesGrid,
    SeriesAnalysis,
    SeriesExclusion,
    SeriesQuestion,
)
from steropes.studies.sccs.specification.sccs_thresholds import Thresholds
from steropes.studies.strategus_plans.r_json_values import JsonPath, json_path, parsed, within
from steropes.studies.strategus_plans.series_analyses import series_analysis
from steropes.studies.strategus_plans.series_settings import (
    SccsQuestion,
    SccsSettings,
    SccsThresholds,
)
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts
from steropes.studies.strategus_plans.shared_module_translation import (
    analysis_part,
    inner_settings,
    read_exclusions,
    repeated,
)
from steropes.studies.strategus_plans.supported_parts import PartVerdict, runs, skipped

__all__ = ["CASE_SERIES", "SeriesPlan", "series_plan"]

CASE_SERIES = "SelfControlledCaseSeriesModule"
OF_EXCLUSIONS = {
    "exposureId": "exposure", "outcomeId": "outcome", "nestingCohortId": "nesting",
    "analysisId": "analysis",
}  # fmt: skip
UNLIMITED = 1e9  # A threshold that nothing exceeds.


@dataclass(frozen=True)
class SeriesPlan:
    """Questions and analyses that run, and verdicts on all of them.

    Attributes
    ----------
    questions, analyses, exclude : tuple
        As in `CaseSeriesGrid`.
    thresholds : Thresholds
        Thresholds of the diagnostics.
    verdicts : tuple of PartVerdict
        A verdict for each analysis, and one for each group of questions.
    """

    questions: tuple[SeriesQuestion, ...]
    analyses: tuple[SeriesAnalysis, ...]
    exclude: tuple[SeriesExclusion, ...]
    thresholds: Thresholds
    verdicts: tuple[PartVerdict, ...]

    def spec(self, **settings: Any) -> CaseSeriesGrid | None:
        """Create the specification of the grid; None if no question or no analysis runs.

        Parameters
        ----------
        **settings
            The remaining fields of `CaseSeriesGrid`, such as ``database_id``.
        """
        if not (self.questions and self.analyses):
            return None
        return CaseSeriesGrid(
            self.questions,
            self.analyses,
            thresholds=self.thresholds,
            exclude=self.exclude,
            **settings,
        )


def series_plan(settings: object, path: JsonPath, cohorts: SharedCohorts) -> SeriesPlan:
    """Translate the settings of the module.

    Parameters
    ----------
    settings : Any
        The settings as parsed JSON, of any version.

    Raises
    ------
    DataError
        Settings that concern all analyses are unknown or invalid.
    """
    settings, path = inner_settings(settings, path, "sccsAnalysesSpecifications")
    given = parsed(SccsSettings, settings, path)
    if given.control_type != "outcome":
        raise DataError(
            f"{json_path((*path, 'controlType'))}: controls are outcomes here, not exposures"
        )
    verdicts: list[PartVerdict] = []
    limits = given.sccs_diagnostic_thresholds or SccsThresholds()
    analyses = _analyses(given, (*path, "sccsAnalysisList"), cohorts, limits, verdicts)
    questions = _questions(given, (*path, "exposuresOutcomeList"), cohorts, verdicts)
    exclude = read_exclusions(
        given.analyses_to_exclude, (*path, "analysesToExclude"), SeriesExclusion, OF_EXCLUSIONS
    )
    with within((*path, "sccsDiagnosticThresholds")):
        thresholds = _thresholds(limits)
    return SeriesPlan(questions, analyses, exclude, thresholds, tuple(verdicts))


def _analyses(
    given: SccsSettings,
    path: JsonPath,
    cohorts: SharedCohorts,
    limits: SccsThresholds,
    verdicts: list[PartVerdict],
) -> tuple[SeriesAnalysis, ...]:
    """Translate the analyses one by one and add their verdicts."""
    found: list[SeriesAnalysis] = []
    for i, values in enumerate(given.sccs_analysis_list):
        part = analysis_part(values, i)
        try:
            made, differences = series_analysis(values, (*path, i))
            if any(a.id == made.id for a in found):
                raise DataError(f"{json_path((*path, i))}: analysis {made.id} is defined before")
            for name in ("nesting_cohort", "restrict_to_exposure"):
                cohort = made.settings.get(name)
                if cohort is not None and (why := cohorts.fault(cohort)):
                    raise DataError(why)
        except DataError as error:
            verdicts.append(skipped(CASE_SERIES, part, str(error)))
            continue
        if limits.time_trend_p_threshold is not None or limits.pre_exposure_p_threshold is not None:
            differences.append(
                "stability over time and pre-exposure are judged by the diagnostics of version 6, "
                "not by the p-values of version 5"
            )
        differences += repeated(made, found)
        subject = (("analysis_id", made.id),)
        verdicts.append(runs(CASE_SERIES, part, differences, subject=subject))
        found.append(made)
    if not given.sccs_analysis_list:
        verdicts.append(skipped(CASE_SERIES, "analyses", "there are none"))
    return tuple(found)


def _questions(
    given: SccsSettings, path: JsonPath, cohorts: SharedCohorts, verdicts: list[PartVerdict]
) -> tuple[SeriesQuestion, ...]:
    """Translate the questions; those that do not run are grouped by their reasons."""
    found: list[SeriesQuestion] = []
    reasons: dict[str, int] = {}
    numbers: set[int] = set()
    for i, values in enumerate(given.exposures_outcome_list):
        try:
            made = _question(values, (*path, i), cohorts)
            number = made.number
            if number in numbers:
                raise DataError(f"{json_path((*path, i))}: this question is asked before")
            numbers.add(number)
            found.append(made)
        except DataError as error:
            reasons[str(error)] = reasons.get(str(error), 0) + 1
    if found:
        controls = sum(q.true_ratio is not None for q in found)
        part = f"{len(found):,} questions, of which {controls:,} with a known ratio"
        needs = [(q.exposure, q.outcome, q.nesting) for q in found]
        verdicts.append(runs(CASE_SERIES, part, needs=needs))
    for why, n in reasons.items():
        verdicts.append(skipped(CASE_SERIES, f"{n:,} question{'s' if n > 1 else ''}", why))
    if not given.exposures_outcome_list:
        verdicts.append(skipped(CASE_SERIES, "questions", "there are none"))
    return tuple(found)


def _question(values: object, path: JsonPath, cohorts: SharedCohorts) -> SeriesQuestion:
    """Translate a question."""
    read = parsed(SccsQuestion, values, path)
    if len(read.exposures) != 1:
        raise DataError(
            f"{json_path((*path, 'exposures'))}: a question has one exposure here, not "
            f"{len(read.exposures)}"
        )
    exposure = read.exposures[0]
    if exposure.exposure_id_ref != "exposureId":
        raise DataError(
            f"{json_path((*path, 'exposures', 0, 'exposureIdRef'))}: the exposure of a question is "
            f"called exposureId, not {exposure.exposure_id_ref!r}"
        )
    for cohort in (read.outcome_id, exposure.exposure_id, read.nesting_cohort_id):
        if cohort is not None and (why := cohorts.fault(cohort)):
            raise DataError(why)
    ratio = exposure.true_effect_size
    if isinstance(ratio, str) and ratio != "NA":
        at = json_path((*path, "exposures", 0, "trueEffectSize"))
        raise DataError(f"{at} must be a number, not {ratio[:40]!r}")
    with within(path):
        return SeriesQuestion(
            exposure.exposure_id,
            read.outcome_id,
            None if isinstance(ratio, str) else ratio,
            read.nesting_cohort_id,
        )


def _thresholds(given: SccsThresholds) -> Thresholds:
    """Translate the thresholds; an infinite or missing one is beyond any value."""
    default = Thresholds()

    def limit(value: float | None, most: float = UNLIMITED) -> float:
        return most if value is None or math.isinf(value) else value

    def bounds(pair: Sequence[float], otherwise: tuple[float, float]) -> tuple[float, float]:
        return (pair[0], min(pair[1], UNLIMITED)) if len(pair) == 2 else otherwise

    ratio = given.time_trend_max_ratio
    prevalence = given.rare_outcome_max_prevalence
    return Thresholds(
        time_ratio=default.time_ratio if ratio is None else limit(ratio),
        pre_exposure=bounds(given.event_exposure_dependence_null_bounds, default.pre_exposure),
        end_of_observation=bounds(
            given.event_observation_dependence_null_bounds, default.end_of_observation
        ),
        prevalence=default.prevalence if prevalence is None else limit(prevalence, 1.0),
        detectable=limit(given.mdrr_threshold),
        ease=limit(given.ease_threshold),
    )
