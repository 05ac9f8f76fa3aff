"""Suppression of small counts in results that were released elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from steropes.studies.disclosure.cells import small_cells
from steropes.studies.disclosure.rules import DisclosureRules

__all__ = ["with_suppressed_counts"]

# The columns of result tables that count people, their outcomes or their records.
COUNTS = frozenset(
    (
        "subjects",
        "target_subjects",
        "comparator_subjects",
        "target_outcomes",
        "comparator_outcomes",
        "target_at_risk",
        "comparator_at_risk",
        "records",
        "count",
        "outcomes_before",
        "outcomes_added",
        "outcome_subjects",
        "outcome_events",
        "outcome_observation_periods",
        "covariate_subjects",
        "covariate_eras",
        "covariate_outcomes",
        "observed_subjects",
        "outcomes",
        "cover_before_after_subjects",
        "cohort_entries",
        "cohort_subjects",
        "persons_at_risk_pe",
        "persons_at_risk",
        "person_outcomes_pe",
        "person_outcomes",
        "outcomes_pe",
    )
)
# Shares and rates, from which a suppressed count of the same row would follow.
DERIVED = ("incidence_proportion_p100p", "incidence_rate_p100py")


def with_suppressed_counts(
    tables: Mapping[str, pd.DataFrame], rules: DisclosureRules
) -> dict[str, pd.DataFrame]:
    """Suppress counts that are too small for the rules of this site.

    Tables that were released under these rules or stricter ones are unchanged. Other packages
    release under rules of their own, often none; then this replaces small counts, but estimates
    and differences of counts stay as they were released.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Released tables. A suppressed count is the negative of a limit that it is below.
    rules : DisclosureRules
        Only the smallest count is used.
    """
    if rules.open:
        return dict(tables)
    return {name: _suppressed(table, rules.least) for name, table in tables.items()}


def _suppressed(table: pd.DataFrame, least: int) -> pd.DataFrame:
    """Suppress the small counts of one table, with the rates of their rows."""
    columns = [c for c in table.columns if c in COUNTS]
    small = pd.DataFrame({c: small_cells(table[c], least) for c in columns})
    if small.empty or not small.to_numpy().any():
        return table
    found = table.copy()
    for c in columns:
        found[c] = found[c].mask(small[c], -least)
    rates = [c for c in DERIVED if c in found]
    found.loc[small.any(axis=1), rates] = float("nan")
    return found
