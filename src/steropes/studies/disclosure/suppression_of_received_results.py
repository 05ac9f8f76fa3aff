"""Suppression of small counts in results that were released elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.small_cell_suppression import small_cells

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
        "target_count",
        "unique_people",
        "person_count",
        "person_count_at_risk",
        "person_count_with_outcome",
        "covariate_count",
        "with_no_outcome_covariate_count",
        "with_outcome_covariate_count",
        "positive_count",
        "negative_count",
        "true_count",
        "false_count",
        "true_positive_count",
        "true_negative_count",
        "false_positive_count",
        "false_negative_count",
        "cohort_count",
        "concept_count",
        "subject_count",
        "concept_subjects",
        "sum_value",
        "count_value",
        "gain_count",
        "person_total",
        "base_count",
        "final_count",
        "both_subjects",
        "before_subjects",
        "same_day_subjects",
        "after_subjects",
        "row_count",
        "num_events",
        "num_exposure_eras",
        "num_persons_exposed",
        "num_cases",
        "freq",
        "event_count",
        "number_records",
        "number_subjects",
        *(
            f"{kind}challenge_{part}"
            for kind in ("de", "re")
            for part in ("attempt", "success", "fail")
        ),
    )
)
_CLASSIFIED = (
    "true_positive_count", "true_negative_count", "false_positive_count", "false_negative_count",
)  # fmt: skip
_STRATUM = ("person_count_at_risk", "person_count_with_outcome")
_RATE = ("persons_at_risk", "person_outcomes", "outcomes")
_GROUPS = ("with_no_outcome_covariate_", "with_outcome_covariate_")
_OF_OUTCOMES = tuple(f"{group}count" for group in _GROUPS)
# Totals of a row with their two parts; the parts of a group follow from each other.
TOTALS = (
    (
        ("true_count", "true_positive_count", "false_negative_count"),
        ("false_count", "false_positive_count", "true_negative_count"),
        ("positive_count", "true_positive_count", "false_positive_count"),
        ("negative_count", "true_negative_count", "false_negative_count"),
    ),
    (("covariate_count", *_OF_OUTCOMES),),
    (
        ("dechallenge_attempt", "dechallenge_success", "dechallenge_fail"),
        ("rechallenge_attempt", "rechallenge_success", "rechallenge_fail"),
    ),
)
# Shares, rates, means and days with the counts of the same row that would follow from them.
DERIVED: dict[str, tuple[str, ...]] = {
    "incidence_proportion_p100p": _RATE,
    "incidence_rate_p100py": _RATE,
    "observed_incidence": _STRATUM,
    "person_days_pe": ("persons_at_risk_pe",),
    "person_days": ("persons_at_risk",),
    "target_days": ("target_subjects", "target_outcomes"),
    "comparator_days": ("comparator_subjects", "comparator_outcomes"),
    "covariate_days": ("covariate_subjects", "covariate_outcomes"),
    "observed_days": ("outcome_subjects", "outcome_events", "outcome_observation_periods"),
    "mean_exposure_time": ("person_count",),
    "incidence_rate": ("cohort_count",),
    **{
        f"pct_{name}": (name, of)
        for name, of in (
            ("dechallenge_attempt", "num_cases"),
            ("dechallenge_success", "dechallenge_attempt"),
            ("dechallenge_fail", "dechallenge_attempt"),
            ("rechallenge_attempt", "dechallenge_attempt"),
            ("rechallenge_success", "rechallenge_attempt"),
            ("rechallenge_fail", "rechallenge_attempt"),
        )
    },
    **dict.fromkeys(("mean", "sd", "average_value"), ("sum_value",)),
    **dict.fromkeys(
        (
            "duration_min", "duration_q_1", "duration_median", "duration_q_2", "duration_max",
            "duration_average", "duration_sd",
        ),
        ("event_count",),
    ),
    "standardized_mean_diff": _OF_OUTCOMES,
    **{
        f"{group}{of}": (f"{group}count",)
        for group in ("covariate_", *_GROUPS)
        for of in ("mean", "st_dev")
    },
    **dict.fromkeys(
        (
            "f_1_score", "accuracy", "sensitivity", "false_negative_rate", "false_positive_rate",
            "specificity", "positive_predictive_value", "false_discovery_rate",
            "negative_predictive_value", "false_omission_rate", "positive_likelihood_ratio",
            "negative_likelihood_ratio", "diagnostic_odds_ratio",
        ),
        _CLASSIFIED,
    ),
}  # fmt: skip


def with_suppressed_counts(
    tables: Mapping[str, pd.DataFrame], rules: DisclosureRules
) -> dict[str, pd.DataFrame]:
    """Suppress counts that are too small for the rules of this site.

    Tables that were released under these rules or stricter ones are unchanged. Other packages
    release under rules of their own, often none; then this replaces small counts, and withholds
    those of the same row from which a small one follows. Estimates and differences between rows
    stay as they were released.

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
    if small.empty:
        return table
    found = table.copy() if small.to_numpy().any() else table
    for c in columns:
        if small[c].any():
            found[c] = found[c].mask(small[c], -least)
    for group in TOTALS:
        known = [totals for totals in group if {*totals} <= {*columns}]
        few = pd.Series(False, index=found.index)
        for total, *parts in known:
            for part in parts:
                rest = (found[total] - found[part]).where(found[[total, part]].ge(0).all(axis=1))
                few |= small_cells(rest, least)
        if few.any():
            parts = list(dict.fromkeys(part for _, *of in known for part in of))
            found = found.assign(**{c: found[c].mask(few & found[c].ge(0)) for c in parts})
    for name, counts in DERIVED.items():
        own = [c for c in counts if c in columns]
        if name in found and own:
            unknown = found[own].lt(0).any(axis=1) | found[own].isna().any(axis=1)
            found = found.assign(**{name: found[name].mask(unknown)})
    return found
