"""Redaction of results that fail a diagnostic, unless they are requested.

The rule is that of R's packages: readers see neither the effect nor the numbers of outcomes from
which it follows. ``results.duckdb`` and ``results.zip`` contain every number, with the two flags
that viewers and meta-analyses read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from steropes.studies.disclosure.one_question_release import Published

__all__ = [
    "NOT_SHOWN",
    "NO_NOTE",
    "blinded",
    "hidden_note",
    "redacted_study",
    "redacted_tables",
    "without_effects",
    "without_lone_crude",
]

NOT_SHOWN = "not shown: a diagnostic failed"
NO_NOTE = "no finite estimate, and not shown: a diagnostic failed"
LONE_CRUDE = "a crude estimate is not shown where no adjusted one stands beside it"

KEY = ["target_comparator_id", "outcome_id", "analysis_id"]

EFFECT = (
    *("rr", "ci_95_lb", "ci_95_ub", "p", "one_sided_p", "log_rr", "se_log_rr", "llr"),
    *("calibrated_rr", "calibrated_ci_95_lb", "calibrated_ci_95_ub", "calibrated_p"),
    *("calibrated_one_sided_p", "calibrated_log_rr", "calibrated_se_log_rr"),
)
OUTCOMES = ("target_outcomes", "comparator_outcomes")
# Tables of a comparative grid whose rows are about the effect or about outcomes.
OF_EFFECT = ("absolute_effect", "cm_kaplan_meier_dist", "subgroup")
NOTES = ("e_value", "e_value_limit", "limit_ratio", "proportional_p")
STUDY_EFFECT = ("hr", "lower", "upper", "p", "log_hr", "se")
STUDY_OUTCOMES = ("events", "rate", "rate_lower", "rate_upper")


def hidden_note(note: str, one_arm: bool) -> str:
    """Return the reason for a missing estimate that is hidden; it does not name the arm.

    ``one_arm`` indicates that one of the arms, and not the other, had no outcome.
    """
    return NO_NOTE if one_arm else note


def without_effects(results: pd.DataFrame, outcomes: tuple[str, ...]) -> pd.DataFrame:
    """Remove the effects and outcomes of results whose flag ``unblind`` is 0.

    Parameters
    ----------
    results : DataFrame
        Results of any study design, with the column ``unblind``.
    outcomes : tuple of str
        Columns of numbers of outcomes from which an effect follows.
    """
    found = results.astype(dict.fromkeys(outcomes, "Int64"))
    hidden = found["unblind"] == 0
    found.loc[hidden, [c for c in EFFECT if c in found]] = float("nan")
    found.loc[hidden, list(outcomes)] = pd.NA
    return found


def blinded(results: pd.DataFrame) -> pd.DataFrame:
    """Remove the effects and the outcomes of the arms of results that fail a diagnostic.

    Parameters
    ----------
    results : DataFrame
        Rows of ``cm_result`` with the column ``unblind``, and ``note`` if there is one. A note
        that reveals which arm had no outcome is replaced.
    """
    found = without_effects(results, OUTCOMES)
    if "note" in found:
        in_one_arm = (results["target_outcomes"] == 0) != (results["comparator_outcomes"] == 0)
        in_one_arm &= (results["target_subjects"] != 0) & (results["comparator_subjects"] != 0)
        hidden = (results["unblind"] == 0) & in_one_arm & results["note"].ne("")
        found.loc[hidden, "note"] = NO_NOTE
    return found


def redacted_tables(tables: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Return the tables of a grid that pages show, without the results that may not be shown.

    Survival curves, absolute effects and subgroups of these results are left out, and the numbers
    in their notes are missing.
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
    found["note"] = notes
    return found


def redacted_study(public: Published) -> Published:
    """Return a one-question study without its effects and the outcomes of its arms."""
    one_arm = {}
    for analysis in ("all", "matched"):
        arms = [line for line in public.rates if line["analysis"] == analysis]
        one_arm[analysis] = sum(a["events"] == 0 for a in arms) == 1 and all(
            a["people"] != 0 for a in arms
        )
    hazards = []
    for line in public.hazard_ratios:
        among = "all" if line["analysis"] == "crude" else "matched"
        note = hidden_note(line["note"], one_arm[among]) if line["note"] else NOT_SHOWN
        hazards.append({**line, **dict.fromkeys(STUDY_EFFECT, math.nan), "note": note})
    precision = [replace(v, value=None) if v.key == "precision" else v for v in public.verdicts]
    return replace(
        public,
        blinded=True,
        hazard_ratios=hazards,
        rates=[{**line, **dict.fromkeys(STUDY_OUTCOMES)} for line in public.rates],
        curves={},
        adjustments=[
            {**line, **dict.fromkeys(("hr", "lower", "upper", "p"), math.nan), "note": NOT_SHOWN}
            for line in public.adjustments
        ],
        proportional_p=math.nan,
        e_value=(math.nan, math.nan),
        common=False,
        other_draws=(),
        verdicts=precision,
    )


def without_lone_crude(public: Published) -> Published:
    """Hide the crude hazard ratio of a study that has no adjusted one.

    Alone it would be the study's result, though confounding may explain all of it.
    """
    if any(not line["note"] for line in public.hazard_ratios if line["analysis"] != "crude"):
        return public
    hazards = [
        {**line, **dict.fromkeys(STUDY_EFFECT, math.nan), "note": LONE_CRUDE}
        if line["analysis"] == "crude" and not line["note"]
        else line
        for line in public.hazard_ratios
    ]
    return replace(public, hazard_ratios=hazards)
