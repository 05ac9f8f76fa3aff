"""Removal of results that fail a diagnostic, unless the user asks for them.

The rule is that of R's packages: readers see neither the effect nor the numbers of outcomes from
which it follows. ``results.duckdb`` and ``results.zip`` contain every number, with the two flags
that viewers and meta-analyses read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import pandas as pd

__all__ = [
    "NOT_SHOWN",
    "NO_NOTE",
    "blinded",
    "is_not_shown",
    "redacted_results",
    "redacted_study",
    "redacted_tables",
    "tells_of_outcomes",
    "tells_the_arm",
    "without_effects",
    "without_lone_crude",
]

NOT_SHOWN = "not shown: a diagnostic failed"
NO_NOTE = "no finite estimate, and not shown: a diagnostic failed"
LONE_CRUDE = "a crude estimate is not shown without an adjusted one"

# Words in reasons that follow from outcomes, such as "no finite maximum" of a coefficient.
OF_OUTCOMES = re.compile(r"\b(outcomes?|events?|finite|maximum)\b")

KEY = ["target_comparator_id", "outcome_id", "analysis_id"]

EFFECT = (
    *("rr", "ci_95_lb", "ci_95_ub", "p", "one_sided_p", "log_rr", "se_log_rr", "llr"),
    *("calibrated_rr", "calibrated_ci_95_lb", "calibrated_ci_95_ub", "calibrated_p"),
    *("calibrated_one_sided_p", "calibrated_log_rr", "calibrated_se_log_rr"),
)
OUTCOMES = ("target_outcomes", "comparator_outcomes")
# Days at risk end with the outcome, so that the days that an arm lacks grow with its outcomes.
DAYS = ("target_days", "comparator_days")
# Tables of a comparative grid whose rows are about the effect or about outcomes. Follow-up ends
# with the outcome, so that its quantiles differ between the arms as the outcomes do.
OF_EFFECT = (
    "absolute_effect", "cm_kaplan_meier_dist", "cm_follow_up_dist", "subgroup", "effect_by_period",
)  # fmt: skip
NOTES = ("e_value", "e_value_limit", "limit_ratio", "proportional_p")


def is_not_shown(note: object) -> bool:
    """Check whether a note states that a diagnostic failed, with or without the names of those."""
    return str(note).startswith(NOT_SHOWN)


def without_effects(results: pd.DataFrame, outcomes: tuple[str, ...]) -> pd.DataFrame:
    """Remove the effects, outcomes and days at risk of results with ``unblind`` = 0.

    Parameters
    ----------
    results : DataFrame
        Results of any study design, with the column ``unblind``.
    outcomes : tuple of str
        Columns of numbers of outcomes from which an effect follows.
    """
    days = [c for c in DAYS if c in results]
    found = results.astype({**dict.fromkeys(outcomes, "Int64"), **dict.fromkeys(days, "float64")})
    hidden = found["unblind"] == 0
    found.loc[hidden, [*(c for c in EFFECT if c in found), *days]] = float("nan")
    found.loc[hidden, list(outcomes)] = pd.NA
    return found


def blinded(results: pd.DataFrame) -> pd.DataFrame:
    """Remove the effects and the outcomes of the arms of results that fail a diagnostic.

    Parameters
    ----------
    results : DataFrame
        Rows of ``cm_result`` with the column ``unblind``, and ``note`` if there is one. A note
        that may reveal which arm had no outcome is replaced.
    """
    found = without_effects(results, OUTCOMES)
    if "note" in found:
        in_one_arm = (results["target_outcomes"] == 0) != (results["comparator_outcomes"] == 0)
        in_one_arm &= (results["target_subjects"] != 0) & (results["comparator_subjects"] != 0)
        tells = in_one_arm & results["note"].map(tells_of_outcomes)
        tells |= results["note"].map(tells_the_arm)
        found.loc[(results["unblind"] == 0) & tells, "note"] = NO_NOTE
    return found


def tells_of_outcomes(note: object) -> bool:
    """Check whether a note may name an arm without outcomes.

    The propensity model and the choice of covariates use no outcome, so that reasons which they
    give are kept. All other reasons may.
    """
    text = str(note or "").lower()
    if not text or text.startswith("propensity model"):
        return False
    of_covariates = text.startswith(("covariate ", "no covariate"))
    return not of_covariates or OF_OUTCOMES.search(text) is not None


def tells_the_arm(note: object) -> bool:
    """Check whether a note names an arm without outcomes, from which the effect follows.

    The other arm may have outcomes too, at times when no one of this one is at risk.
    """
    return " arm had the outcome" in str(note or "")


def redacted_tables(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the tables of a grid that pages show, without the results that may not be shown.

    Survival curves, follow-up, absolute effects and subgroups of these results are left out, and
    the numbers in their notes are missing. So is the form of the E-value, which reveals whether the
    outcome is common.
    """
    checks = tables["cm_diagnostics_summary"]
    hidden = pd.MultiIndex.from_frame(checks.loc[checks["unblind"] == 0, KEY])

    def is_hidden(table: pd.DataFrame) -> pd.Series:
        """Mark the rows of hidden results."""
        places = pd.MultiIndex.from_frame(table[KEY])
        return pd.Series(places.isin(hidden), index=table.index)

    found = dict(tables)
    for name in OF_EFFECT:
        found[name] = tables[name][~is_hidden(tables[name])]
    notes = tables["note"].copy()
    notes.loc[is_hidden(notes), list(NOTES)] = math.nan
    notes.loc[is_hidden(notes), "e_value_form"] = None
    found["note"] = notes
    return found


def redacted_study(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the tables of a one-question study without the effects and outcomes of any analysis.

    The diagnostics of the main analysis decide on all of them.
    """
    checks = tables["cm_diagnostics_summary"].assign(unblind=0)
    return redacted_results({**tables, "cm_diagnostics_summary": checks})


def redacted_results(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return tables without the effects and outcomes of results whose flag ``unblind`` is 0.

    Such a result without a note, which had an estimate, receives the note `NOT_SHOWN`.
    """
    found, flags = redacted_tables(tables), tables["cm_diagnostics_summary"][[*KEY, "unblind"]]
    notes = found["note"].copy()
    lines = tables["cm_result"].merge(flags, on=KEY).merge(notes[[*KEY, "note"]], on=KEY)
    hidden = blinded(lines)
    hidden["note"] = hidden["note"].mask(hidden["note"].eq("") & hidden["unblind"].eq(0), NOT_SHOWN)
    texts = notes[KEY].merge(hidden[[*KEY, "note"]], on=KEY, how="left")["note"]
    notes["note"] = texts.to_numpy()
    return {**found, "note": notes, "cm_result": hidden.drop(columns=["note", "unblind"])}


def without_lone_crude(
    tables: Mapping[str, pd.DataFrame], crude: int, adjusted: Sequence[int]
) -> dict[str, pd.DataFrame]:
    """Hide the crude hazard ratio of a study that has no adjusted one.

    Alone it would be the study's result, though confounding may explain all of it.

    Parameters
    ----------
    crude : int
        Id of the crude analysis.
    adjusted : sequence of int
        Ids of the analyses that make it showable.
    """
    notes, results = tables["note"].copy(), tables["cm_result"].copy()
    without = notes["note"].eq("")
    if (without & notes["analysis_id"].isin(adjusted)).any():
        return dict(tables)
    notes.loc[without & notes["analysis_id"].eq(crude), "note"] = LONE_CRUDE
    effect = [c for c in EFFECT if c in results]
    results.loc[results["analysis_id"].eq(crude), effect] = math.nan
    return {**tables, "note": notes, "cm_result": results}
