"""Columns and texts that views of several modules share."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from steropes.studies.diagnostics.archive_blinding import HIDDEN
from steropes.studies.diagnostics.failing_diagnostics import FAILED, with_names
from steropes.studies.diagnostics.result_blinding import NOT_SHOWN
from steropes.studies.viewer.view_definition import column, ids, important, texts

__all__ = [
    "CALIBRATED",
    "COMPARISON",
    "COUNTS",
    "EFFECT",
    "ESTIMATE",
    "FURTHER",
    "GROUP",
    "PERMISSIONS",
    "PROFILE",
    "QUESTION",
    "RESULT_IDS",
    "SHARED_IDS",
    "STATUS",
    "everybody_first",
    "role_of",
    "shown_of",
    "with_permissions",
]

GROUP = "Cohort studies"
FURTHER = "Diagnostics that the study adds, with the value of each and whether it passes."
COMPARISON = texts(
    database="Database", target="Target", comparator="Comparator", analysis="Analysis"
)
QUESTION = (*COMPARISON[:3], *texts(outcome="Outcome"), COMPARISON[3])
RESULT_IDS = ids("target_comparator_id", "outcome_id", "analysis_id")
SHARED_IDS = ids("target_comparator_id", "analysis_id")
ESTIMATE = important((
    column("rr", "Ratio", "ratio"),
    column("ci_95_lb", "Lower", "ratio"),
    column("ci_95_ub", "Upper", "ratio"),
))  # fmt: skip
EFFECT = (*ESTIMATE, column("p", "p", "p"))
STATUS = important(texts("text", status="Status"))
CALIBRATED = (
    column("calibrated_rr", "Calibrated", "ratio"),
    column("calibrated_ci_95_lb", "Lower, calibrated", "ratio"),
    column("calibrated_ci_95_ub", "Upper, calibrated", "ratio"),
    column("calibrated_p", "p, calibrated", "p"),
)
COUNTS = (
    column("target_subjects", "Target people", "count"),
    column("comparator_subjects", "Comparator people", "count"),
    column("target_outcomes", "Target outcomes", "count"),
    column("comparator_outcomes", "Comparator outcomes", "count"),
)
PERMISSIONS = important(texts(may_be_read="May be shown", in_synthesis="In synthesis"))
PROFILE = (column("log_rr", "Log ratio"), column("log_likelihood", "Log-likelihood"))


def everybody_first(table: pd.DataFrame, strata: Sequence[str]) -> pd.DataFrame:
    """Put rows of everybody, which have "all" as their strata, before those of strata."""
    if table.empty:
        return table
    of_all = table[[*strata]].eq("all").sum(axis=1)
    return table.iloc[np.argsort(-of_all.to_numpy(), kind="stable")]


def role_of(true_ratio: pd.Series) -> pd.Series:
    """Name the role of an outcome: of interest or, with a known ratio, a control."""
    known = true_ratio.astype(float)
    control = np.where(known == 1, "negative control", "positive control")
    return pd.Series(np.where(known.isna(), "of interest", control), index=true_ratio.index)


def shown_of(results: pd.DataFrame) -> pd.Series:
    """State whether each estimate is shown; the note of a missing one is kept."""
    note = results["note"].fillna("") if "note" in results else pd.Series("", results.index)
    failed = results[FAILED] if FAILED in results else pd.Series("", results.index)
    pairs = zip(note.mask(note.eq(""), NOT_SHOWN), failed, strict=True)
    reason = pd.Series([with_names(*pair) for pair in pairs], results.index, dtype=object)
    return reason.where(results[HIDDEN].astype(bool), note.where(results["rr"].isna(), "shown"))


def with_permissions(diagnostics: pd.DataFrame) -> pd.DataFrame:
    """Add whether an estimate may be read and used in evidence synthesis, as `PERMISSIONS`."""
    if diagnostics.empty:
        return diagnostics
    return diagnostics.assign(
        may_be_read=np.where(diagnostics["unblind"].eq(1), "yes", "no"),
        in_synthesis=np.where(diagnostics["unblind_for_evidence_synthesis"].eq(1), "yes", "no"),
    )
