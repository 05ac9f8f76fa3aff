"""Result tables of a grid of case series: settings, estimates, and reasons for missing ones."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import pandas as pd

from steropes.studies.diagnostics.diagnostic import NOT_EVALUATED
from steropes.studies.diagnostics.diagnostic_catalogue import SERIES
from steropes.studies.execution.resumable_steps import Tables
from steropes.studies.result_files.sccs_results_schema import TABLES
from steropes.studies.sccs.results.sccs_result_tables import (
    FIRST_WINDOW,
    FORMER_VERDICTS,
    exact_tables,
    window_rows,
)
from steropes.studies.sccs.results.unsuppressed_series_results import ExactSeries
from steropes.studies.sccs.specification.case_series_grid_settings import (
    CaseSeriesGrid,
    SeriesAnalysis,
    SeriesQuestion,
)

__all__ = ["Refusal", "refusal_rows", "specification_rows", "study_rows"]

# Endings of the names of columns that count people, events or days.
COUNTED = ("subjects", "events", "periods", "days", "eras", "outcomes")
# Columns that count cases, and those of their attrition.
CASES = {
    "outcome_subjects": "subjects",
    "outcome_events": "events",
    "outcome_observation_periods": "periods",
    "observed_days": "days",
}
# Tables that `specification_rows` fills.
SPECIFIED = ("sccs_analysis", "sccs_exposure", "sccs_exposures_outcome_set")


def specification_rows(
    grid: CaseSeriesGrid, questions: Sequence[SeriesQuestion], made: list[dict[str, object]]
) -> Tables:
    """Return the rows of the tables that describe the specification."""
    return {
        "positive_control": made,
        "sccs_analysis": [
            {"analysis_id": a.id, "description": a.description,
             "definition": json.dumps(_definition(a), default=str, sort_keys=True)}
            for a in grid.analyses
        ],
        "sccs_covariate_analysis": [
            {"analysis_id": a.id, **row}
            for a in grid.analyses
            for row in _windows_of(a, grid, questions[0])
        ],
        "sccs_exposure": [
            {"exposures_outcome_set_id": q.number, "era_id": q.exposure,
             "true_effect_size": q.true_ratio} for q in questions
        ],
        "sccs_exposures_outcome_set": [
            {"exposures_outcome_set_id": q.number, "outcome_id": q.outcome,
             "nesting_cohort_id": q.nesting}
            for q in questions
        ],
    }  # fmt: skip


def _windows_of(
    analysis: SeriesAnalysis, grid: CaseSeriesGrid, question: SeriesQuestion
) -> list[dict[str, object]]:
    """Return the exposure windows of an analysis, which are the same for all questions."""
    settings = analysis.settings_for(question, grid)
    return window_rows(settings, bool(settings.end_of_observation_days) and not settings.control)


def _definition(analysis: SeriesAnalysis) -> dict[str, object]:
    """Return the settings of an analysis as they are described in the results."""
    if not analysis.windows:
        return dict(analysis.settings)
    own = ("windows", "control", "within_exposure")
    return {**analysis.settings, **{name: v for name, v in asdict(analysis).items() if name in own}}


def study_rows(
    study: ExactSeries, grid: CaseSeriesGrid, question: SeriesQuestion, analysis: SeriesAnalysis
) -> Tables:
    """Return the rows of one case series that `specification_rows` does not have."""
    made = exact_tables(study, analysis.id, question.number, grid.database_id)
    left_out = (*SPECIFIED, "sccs_covariate_analysis")
    return {name: table for name, table in made.items() if name not in left_out}


@dataclass(frozen=True, eq=False)
class Refusal:
    """Why a question has no answer.

    Attributes
    ----------
    why : str
    attrition : DataFrame, optional
        ``rule``, ``subjects``, ``events``, ``periods`` and ``days`` of the cases, if these were
        found.
    """

    why: str
    attrition: pd.DataFrame | None = None


def refusal_rows(
    grid: CaseSeriesGrid, question: SeriesQuestion, analysis: SeriesAnalysis, refusal: Refusal
) -> Tables:
    """Return the rows of a question without an answer: the reason, and the cases up to it."""
    key = {"analysis_id": analysis.id, "exposures_outcome_set_id": question.number}
    line = {**key, "covariate_id": FIRST_WINDOW, "database_id": grid.database_id}
    columns = (*(d.verdict_column for d in SERIES), *FORMER_VERDICTS)
    summary = TABLES["sccs_diagnostics_summary"]
    unknown = {c: NOT_EVALUATED for c in columns if c in summary}
    none = {"mdrr": math.inf, "unblind": 0, "unblind_for_evidence_synthesis": 0}
    rules = [] if refusal.attrition is None else refusal.attrition.to_dict("records")
    attrition = [
        {**line, "sequence_number": k, "description": rule["rule"],
         **{column: int(rule[name]) for column, name in CASES.items()}}
        for k, rule in enumerate(rules, 1)
    ]  # fmt: skip
    left = {column: attrition[-1][column] if attrition else 0 for column in CASES}
    # Those of the exposure are unknown where cases were not split into intervals.
    counts = [c for c in TABLES["sccs_result"] if c.endswith(COUNTED)]
    exposed = {} if any(left.values()) else dict.fromkeys(counts, 0)
    return {
        "sccs_attrition": attrition,
        "sccs_result": [{**line, **exposed, **left}],
        "sccs_diagnostics_summary": [{**line, **unknown, **none}],
        "note": [{**key, "note": refusal.why, "database_id": grid.database_id}],
    }
