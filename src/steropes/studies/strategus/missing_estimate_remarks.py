"""Numbers of missing estimates with their reasons, in the report on a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pandas as pd

from steropes.studies.formatting.text_safety import without_parentheses
from steropes.studies.strategus_plans.comparative_plan import COHORT_METHOD
from steropes.studies.strategus_plans.series_plan import CASE_SERIES
from steropes.studies.strategus_plans.supported_parts import PartVerdict

__all__ = ["with_missing_estimates"]

SHOWN = 2  # Number of reasons that are named.
# The table of estimates of a module, that of the ids of its questions, and their key.
ESTIMATES = {
    COHORT_METHOD: ("cm_result", "cm_target_comparator", "target_comparator_id"),
    CASE_SERIES: ("sccs_result", "sccs_exposures_outcome_set", "exposures_outcome_set_id"),
}
Tables = Mapping[str, pd.DataFrame]


def with_missing_estimates(
    verdicts: Iterable[PartVerdict], tables: Mapping[str, Tables]
) -> list[PartVerdict]:
    """Add the numbers of estimates that could not be computed to verdicts after a run.

    A part of which no estimate could be computed did not run. Estimates that are hidden because a
    diagnostic fails could be.

    Parameters
    ----------
    verdicts : iterable of PartVerdict
        Verdicts after a run.
    tables : mapping of str to mapping of str to DataFrame
        Released tables of each module.
    """
    estimates = {
        module: _estimates(tables[module], *places)
        for module, places in ESTIMATES.items()
        if module in tables and {places[0], "note"} <= {*tables[module]}
    }
    return [
        v if v.reason or v.module not in estimates else _with_missing(v, estimates[v.module])
        for v in verdicts
    ]


def _estimates(of: Tables, result: str, asked: str, place: str) -> pd.DataFrame:
    """Return the estimates of a module with the ids of their questions and their notes."""
    key = [c for c in (place, "outcome_id", "analysis_id", "covariate_id") if c in of["note"]]
    found = of[result].merge(of["note"][[*key, "note"]], on=key, how="left")
    if asked in of:
        ids = of[asked].drop(columns=["outcome_id"], errors="ignore").drop_duplicates(place)
        found = found.merge(ids, on=place, how="left")
    return found


def _with_missing(v: PartVerdict, estimates: pd.DataFrame) -> PartVerdict:
    """Count the missing estimates of a part; they are its reason if there are no others."""
    own = estimates
    for column, number in v.subject:
        own = own[own[column] == number]
    noted = own["note"].fillna("").astype(str)
    gone = noted[own["log_rr"].isna() & noted.ne("")]
    if gone.empty:
        return v
    brief = gone.map(without_parentheses)
    if gone.nunique() > SHOWN or brief.nunique() < gone.nunique():
        gone = brief  # They differ in the names of cohorts, which the questions name.
    reasons = gone.value_counts()
    listed = "; ".join(f"{why} ({n:,})" for why, n in reasons.iloc[:SHOWN].items())
    more = f"; {len(reasons) - SHOWN:,} other reasons" if len(reasons) > SHOWN else ""
    text = f"{len(gone):,} of {len(own):,} estimates are missing: {listed}{more}"
    if len(gone) == len(own):
        return replace(v, reason="; ".join(filter(None, (text, v.remark))), remark="")
    return replace(v, remark="; ".join(filter(None, (v.remark, text))))
