"""Translation of CohortMethodModule to the specification of a comparative grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from steropes.errors import DataError
from steropes.studies.cohorts.cohort_sources import CohortSources
from steropes.studies.comparative.grid_questions_and_analyses import (
    Outcome,
    Question,
    StudyAnalysis,
)
from steropes.studies.diagnostics.comparative_diagnostics import DiagnosticThresholds
from steropes.studies.specifications.grid_specification import Exclusion, GridSpec
from steropes.studies.strategus_plans.cohort_method_settings import (
    CmOutcome,
    CmQuestion,
    CmSettings,
    CmThresholds,
)
from steropes.studies.strategus_plans.comparative_analyses import comparative_analysis
from steropes.studies.strategus_plans.r_json_values import JsonPath, json_path, parsed, within
from steropes.studies.strategus_plans.shared_cohorts import SharedCohorts
from steropes.studies.strategus_plans.shared_module_translation import (
    analysis_part,
    inner_settings,
    read_exclusions,
    repeated,
)
from steropes.studies.strategus_plans.supported_parts import PartVerdict, runs, skipped

__all__ = ["COHORT_METHOD", "ComparativePlan", "comparative_plan"]

COHORT_METHOD = "CohortMethodModule"
OF_EXCLUSIONS = {
    "targetId": "target", "comparatorId": "comparator", "outcomeId": "outcome",
    "analysisId": "analysis",
}  # fmt: skip


@dataclass(frozen=True)
class ComparativePlan:
    """Questions and analyses that run, and verdicts on all of them.

    Attributes
    ----------
    questions, analyses, exclude : tuple
        As in `GridSpec`.
    verdicts : tuple of PartVerdict
        A verdict for each question and analysis.
    """

    questions: tuple[Question, ...]
    analyses: tuple[StudyAnalysis, ...]
    exclude: tuple[Exclusion, ...]
    thresholds: DiagnosticThresholds
    verdicts: tuple[PartVerdict, ...]

    def spec(self, **settings: Any) -> GridSpec | None:
        """Create the specification of the grid; None if no question or no analysis runs.

        Parameters
        ----------
        **settings
            The remaining fields of `GridSpec`, such as ``database_id``.
        """
        if not (self.questions and self.analyses):
            return None
        return GridSpec(
            CohortSources(table="cohort"),
            self.questions,
            self.analyses,
            thresholds=self.thresholds,
            exclude=self.exclude,
            **settings,
        )


def comparative_plan(
    settings: object,
    path: JsonPath,
    cohorts: SharedCohorts,
    lists: tuple[str, str] = ("cmAnalysisList", "targetComparatorOutcomesList"),
) -> ComparativePlan:
    """Translate the settings of the module.

    Parameters
    ----------
    settings : Any
        The settings as parsed JSON, of any version.
    lists : tuple of str
        Names of the lists of analyses and of questions in the file, for messages.

    Raises
    ------
    DataError
        Settings that concern all analyses are unknown or invalid.
    """
    settings, path = inner_settings(settings, path, "cmAnalysesSpecifications")
    given = parsed(CmSettings, settings, path)
    if given.control_type != "outcome":
        raise DataError(f"{json_path((*path, 'controlType'))}: controls are outcomes here")
    verdicts: list[PartVerdict] = []
    analyses = _analyses(given, (*path, lists[0]), cohorts, verdicts)
    questions = _questions(given, (*path, lists[1]), cohorts, verdicts)
    exclude = read_exclusions(
        given.analyses_to_exclude, (*path, "analysesToExclude"), Exclusion, OF_EXCLUSIONS
    )
    with within((*path, "cmDiagnosticThresholds")):
        thresholds = _thresholds(given.cm_diagnostic_thresholds or CmThresholds())
    return ComparativePlan(questions, analyses, exclude, thresholds, tuple(verdicts))


def _analyses(
    given: CmSettings, path: JsonPath, cohorts: SharedCohorts, verdicts: list[PartVerdict]
) -> tuple[StudyAnalysis, ...]:
    """Translate the analyses one by one and add their verdicts."""
    found: list[StudyAnalysis] = []
    for i, values in enumerate(given.cm_analysis_list):
        part = analysis_part(values, i)
        try:
            made, differences = comparative_analysis(
                values, (*path, i), given.refit_ps_for_every_study_population
            )
            if any(a.id == made.id for a in found):
                raise DataError(f"{json_path((*path, i))}: analysis {made.id} is defined before")
            if given.refit_ps_for_every_outcome and made.propensity is not None:
                raise DataError(
                    "refitPsForEveryOutcome: a propensity model for each outcome has no counterpart"
                )
            if made.nesting is not None and (why := cohorts.fault(made.nesting)):
                raise DataError(why)
        except DataError as error:
            verdicts.append(skipped(COHORT_METHOD, part, str(error)))
            continue
        differences += repeated(made, found)
        subject = (("analysis_id", made.id),)
        verdicts.append(runs(COHORT_METHOD, part, differences, subject=subject))
        found.append(made)
    if not given.cm_analysis_list:
        verdicts.append(skipped(COHORT_METHOD, "analyses", "there are none"))
    return tuple(found)


def _questions(
    given: CmSettings, path: JsonPath, cohorts: SharedCohorts, verdicts: list[PartVerdict]
) -> tuple[Question, ...]:
    """Translate the questions one by one and add their verdicts."""
    found: list[Question] = []
    compared: set[tuple[int, int, int | None]] = set()
    for i, values in enumerate(given.target_comparator_outcomes_list):
        part = f"question {i + 1}"
        try:
            read = parsed(CmQuestion, values, (*path, i))
            part = f"question {i + 1} ({read.target_id} against {read.comparator_id})"
            made, differences = _question(read, (*path, i), cohorts)
            key = (made.target, made.comparator, made.nesting)
            if key in compared:
                raise DataError(f"{json_path((*path, i))}: these cohorts are compared before")
            compared.add(key)
        except DataError as error:
            verdicts.append(skipped(COHORT_METHOD, part, str(error)))
            continue
        arms = (made.target, made.comparator, made.nesting)
        subject = (("target_id", made.target), ("comparator_id", made.comparator))
        verdicts.append(runs(COHORT_METHOD, part, differences, needs=[arms], subject=subject))
        found.append(made)
    if not given.target_comparator_outcomes_list:
        verdicts.append(skipped(COHORT_METHOD, "questions", "there are none"))
    return tuple(found)


def _question(
    read: CmQuestion, path: JsonPath, cohorts: SharedCohorts
) -> tuple[Question, list[str]]:
    """Translate a question; outcomes that cannot be made are left to the run."""
    for cohort in (read.target_id, read.comparator_id, read.nesting_cohort_id):
        if cohort is not None and (why := cohorts.fault(cohort)):
            raise DataError(why)
    if read.included_covariate_concept_ids:
        at = json_path((*path, "includedCovariateConceptIds"))
        raise DataError(f"{at}: concepts can be included for all questions of an analysis only")
    differences = []
    if any(not o.outcome_of_interest and o.true_effect_size is None for o in read.outcomes):
        differences.append(
            "outcomes that are neither of interest nor controls are reported like those of interest"
        )
    if any(_own_window(o) for o in read.outcomes):
        differences.append(
            "look-back and time at risk of single outcomes apply; CohortMethod up to 6.0.2 reads "
            "them and uses those of the analysis"
        )
    gone = [o.outcome_id for o in read.outcomes if cohorts.fault(o.outcome_id)]
    if gone:
        why = cohorts.fault(gone[0])
        differences.append(f"{len(gone)} of the outcomes have no results ({why})")
    with within(path):
        outcomes = tuple(
            Outcome(
                o.outcome_id,
                o.true_effect_size,
                start=o.risk_window_start,
                end=o.risk_window_end,
                start_anchor=o.start_anchor,
                end_anchor=o.end_anchor,
                look_back=o.prior_outcome_lookback,
            )
            for o in read.outcomes
        )
        made = Question(
            read.target_id,
            read.comparator_id,
            outcomes,
            read.nesting_cohort_id,
            tuple(dict.fromkeys(read.excluded_covariate_concept_ids)),
        )
    return made, differences


def _own_window(outcome: CmOutcome) -> bool:
    """Check whether an outcome has settings that differ from R's defaults."""
    look_back = outcome.prior_outcome_lookback
    return look_back not in (None, 99999) or any(
        v is not None
        for v in (
            outcome.risk_window_start,
            outcome.start_anchor,
            outcome.risk_window_end,
            outcome.end_anchor,
        )
    )


def _thresholds(given: CmThresholds) -> DiagnosticThresholds:
    """Translate the thresholds; an infinite one is none."""

    def limit(value: float | None) -> float | None:
        return None if value is None or math.isinf(value) else value

    return DiagnosticThresholds(
        detectable=limit(given.mdrr_threshold),
        systematic_error=limit(given.ease_threshold),
        balance=limit(given.sdm_threshold),
        balance_p=limit(given.sdm_alpha),
        equipoise=limit(given.equipoise_threshold),
        generalizability=limit(given.generalizability_sdm_threshold),
        attrition=limit(given.attrition_fraction_threshold),
    )
