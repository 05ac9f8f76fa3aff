"""What nobody is to see of a result that fails a diagnostic, unless that is asked for.

The rule is that of R's packages: whoever looks at results sees neither the effect nor the outcomes
of the arms, from which it follows; ``results.duckdb`` and ``results.zip`` hold the results model,
which has every number beside the two flags that viewers and meta-analyses go by.
"""

from __future__ import annotations

import pandas as pd

from steropes.studies.diagnostics.study_verdicts import NO_NOTE

__all__ = ["blinded"]

EFFECT = (
    *("rr", "ci_95_lb", "ci_95_ub", "p", "one_sided_p", "log_rr", "se_log_rr", "llr"),
    *("calibrated_rr", "calibrated_ci_95_lb", "calibrated_ci_95_ub", "calibrated_p"),
    *("calibrated_one_sided_p", "calibrated_log_rr", "calibrated_se_log_rr"),
)
OUTCOMES = ("target_outcomes", "comparator_outcomes")


def blinded(results: pd.DataFrame) -> pd.DataFrame:
    """Results in which those that may not be looked at have no effect and no outcomes.

    Parameters
    ----------
    results : DataFrame
        Rows of ``cm_result`` with the column ``unblind``, and ``note`` if there is one. A note
        that tells which arm had no outcome is replaced by one that does not.
    """
    found = results.astype(dict.fromkeys(OUTCOMES, "Int64"))
    hidden = found["unblind"] == 0
    if "note" in found:
        in_one_arm = (found["target_outcomes"] == 0) != (found["comparator_outcomes"] == 0)
        in_one_arm &= (found["target_subjects"] != 0) & (found["comparator_subjects"] != 0)
        found.loc[hidden & in_one_arm & found["note"].ne(""), "note"] = NO_NOTE
    found.loc[hidden, [c for c in EFFECT if c in found]] = float("nan")
    found.loc[hidden, list(OUTCOMES)] = pd.NA
    return found
