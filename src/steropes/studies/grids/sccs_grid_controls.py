"""Controls of a grid of case series: positive controls and calibration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from steropes.errors import DataError
from steropes.studies.cohorts.cohort_table import CohortTable
from steropes.studies.database.omop import OmopDatabase
from steropes.studies.diagnostics.diagnostic import FAIL, NOT_EVALUATED, PASS, Guards
from steropes.studies.diagnostics.diagnostic_catalogue import declared_diagnostics
from steropes.studies.execution.result_store import ResultStore
from steropes.studies.grids.sccs_positive_controls import add_to_exposed_time
from steropes.studies.results.calibrated_results import calibrate_group
from steropes.studies.sccs.specification.case_series_grid_settings import (
    CaseSeriesGrid,
    SeriesQuestion,
)

__all__ = ["calibrate_series", "calibrated_series", "with_positives"]

RESULT = ["analysis_id", "exposures_outcome_set_id", "covariate_id"]


def with_positives(
    db: OmopDatabase, grid: CaseSeriesGrid, cohorts: CohortTable | None, say: Callable[[str], None]
) -> tuple[list[SeriesQuestion], list[dict[str, Any]], dict[int, CohortTable]]:
    """Return all questions, the rows of the positive controls, and their cohorts by question."""
    questions = list(grid.questions)
    made: list[dict[str, Any]] = []
    controls: dict[int, CohortTable] = {}
    for question in grid.questions if grid.positive is not None else ():
        if question.true_ratio != 1:
            continue
        assert grid.positive is not None
        say(f"positive controls from {question.outcome}")
        try:
            cases = grid.analyses[0].settings_for(question, grid).cases
            found = add_to_exposed_time(db, question, cases, grid.positive, cohorts)
        except DataError as error:
            say(f"no positive controls from {question.outcome}: {error}")
            continue
        if not found:
            say(
                f"no positive controls from {question.outcome}: fewer than "
                f"{grid.positive.min_outcomes} outcomes in exposed time"
            )
        for row, table in found:
            asked = SeriesQuestion(question.exposure, row["outcome"], row["true_effect_size"])
            questions.append(asked)
            controls[asked.number] = table
            made.append(
                {**row, "exposures_outcome_set_id": asked.number,
                 "negative_control_id": question.outcome, "database_id": grid.database_id,
                 "name": table.name(row["outcome"])}
            )  # fmt: skip
    return questions, made, controls


def calibrate_series(store: ResultStore, grid: CaseSeriesGrid) -> None:
    """Calibrate the results in a store, once all questions of an exposure are complete."""
    names = (
        "sccs_result", "sccs_diagnostics_summary", "sccs_exposure", "sccs_covariate", "note",
        "sccs_further_diagnostic",
    )  # fmt: skip
    results, checks = calibrated_series({name: store.table(name) for name in names}, grid)
    store.replace("sccs_result", results)
    store.replace("sccs_diagnostics_summary", checks)


def calibrated_series(
    tables: Mapping[str, pd.DataFrame], grid: CaseSeriesGrid
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Calibrate the estimates of each exposure; return results and diagnostics with the EASE.

    Results of an earlier calibration are replaced.
    """
    results, checks = tables["sccs_result"].copy(), tables["sccs_diagnostics_summary"].copy()
    results[[c for c in results if str(c).startswith("calibrated_")]] = np.nan
    checks["ease"], checks["ease_diagnostic"] = np.nan, NOT_EVALUATED
    exposure = tables["sccs_exposure"].set_index("exposures_outcome_set_id")
    eras = results["exposures_outcome_set_id"].map(exposure["era_id"])
    truth = results["exposures_outcome_set_id"].map(exposure["true_effect_size"])
    failed = _failed(tables, grid)
    usable = ~failed["calibration"]
    drugs = _drugs(results, tables["sccs_covariate"]).fillna(eras)
    groups = results.groupby([eras, results["analysis_id"], drugs]).groups
    for rows in groups.values():
        ease = calibrate_group(results, rows, usable, truth)
        if math.isfinite(ease):
            checks.loc[rows, "ease"] = ease
            checks.loc[rows, "ease_diagnostic"] = PASS if ease < grid.thresholds.ease else FAIL
    evaluated = results["log_rr"].notna()
    fit = usable & ~failed["synthesis"] & checks["ease_diagnostic"].ne(FAIL) & evaluated
    checks["unblind_for_evidence_synthesis"] = fit.astype(int)
    checks["unblind"] = (fit & ~failed["viewing"]).astype(int)
    return results, checks


def _failed(tables: Mapping[str, pd.DataFrame], grid: CaseSeriesGrid) -> dict[Guards, pd.Series]:
    """Mark results that fail a diagnostic, by the use that it rules out first.

    The systematic error is left out, because calibration determines it anew.
    """
    checks, key = tables["sccs_diagnostics_summary"], RESULT[:2]
    notes = tables["note"].set_index(key).reindex(pd.MultiIndex.from_frame(checks[key]))
    further = tables["sccs_further_diagnostic"]
    found: dict[Guards, pd.Series] = {}
    for guards in ("calibration", "synthesis", "viewing"):
        of = [d for d in declared_diagnostics(grid.thresholds, "case series") if d.guards == guards]
        own = further["diagnostic"].isin([d.key for d in of if d.measure is not None])
        bad = further[own & further["verdict"].eq(FAIL)]
        marks = pd.MultiIndex.from_frame(checks[RESULT]).isin(pd.MultiIndex.from_frame(bad[RESULT]))
        failed = pd.Series(marks, index=checks.index)
        for column in (d.verdict_column for d in of if d.measure is None):
            if column != "ease_diagnostic":
                words = checks[column] if column in checks else notes[column]
                failed |= words.eq(FAIL).to_numpy()
        found[guards] = failed
    return found


def _drugs(results: pd.DataFrame, covariates: pd.DataFrame) -> pd.Series:
    """Identify the drug of each result when each drug of a class is a separate covariate.

    Covariates are numbered by the drugs of an outcome's cases, so that the same number may mean
    different drugs for different outcomes.
    """
    key = ["analysis_id", "exposures_outcome_set_id", "covariate_id"]
    ids = covariates.set_index(key)["era_id"]
    return ids.reindex(pd.MultiIndex.from_frame(results[key])).set_axis(results.index)
