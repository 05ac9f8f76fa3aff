"""Redaction of results that fail a diagnostic, unless they are requested.

The rule is that of R's packages: readers see neither the effect nor the numbers of outcomes from
which it follows. ``results.duckdb`` and ``results.zip`` contain every number, with the two flags
that viewers and meta-analyses read.
"""

from __future__ import annotations

import pandas as pd

from steropes.studies.diagnostics.study_verdicts import NO_NOTE

__all__ = ["blinded", "without_effects"]

EFFECT = (
    *("rr", "ci_95_lb", "ci_95_ub", "p", "one_sided_p", "log_rr", "se_log_rr", "llr"),
    *("calibrated_rr", "calibrated_ci_95_lb", "calibrated_ci_95_ub", "calibrated_p"),
    *("calibrated_one_sided_p", "calibrated_log_rr", "calibrated_se_log_rr"),
)
OUTCOMES = ("target_outcomes", "comparator_outcomes")


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
