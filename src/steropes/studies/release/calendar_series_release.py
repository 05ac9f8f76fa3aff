"""Disclosure control of series of cohorts by calendar period, age and sex."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.cohort_diagnostics.calendar_series import ADDITIVE, PERIOD
from steropes.studies.disclosure.complementary_suppression import (
    limit_of_part,
    nested_splits,
    withheld_counts,
)
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.sums_over_people import released_sums
from steropes.studies.release.strategus_release import released_count

__all__ = ["released_series"]

STRATA = ["age_group", "gender_id"]
# Numbers of records, with the number of people who have them.
RECORDS = {
    "records": "subjects",
    "records_start": "subjects_start",
    "records_end": "subjects_end",
}
FIRST_ONLY = ("subjects_start_in", "subjects_end_in")
# The interval of which each is a part, and the frequency of that interval.
WHOLE = {"m": ("q", "Q"), "q": ("y", "Y"), "y": ("c", "")}
Split = tuple[NDArray, NDArray]


def released_series(series: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Return the counts of series for release.

    Counts that narrow a suppressed one are withheld: those of ages and sexes that add up to
    everybody, and entries of the parts of a period. Days are those of the released people.

    Parameters
    ----------
    series : DataFrame
        Exact counts; see `calendar_series`.
    """
    if rules.open or not len(series):
        return series.drop(columns="subjects_in")
    exact, made = series.reset_index(drop=True), series.reset_index(drop=True).copy()
    by_strata = nested_splits(exact, PERIOD, STRATA)
    by_time = _time_splits(exact)
    for records, people in RECORDS.items():
        pairs = zip(exact[records], exact[people], strict=True)
        made[records] = [released_count(n, k, rules) for n, k in pairs]
        made[people] = exact[people].map(rules.coarse)
        _withhold(made, (people, records), by_strata, by_time, rules)
    for name in FIRST_ONLY:
        made[name] = exact[name].map(rules.coarse)
        _withhold(made, (name,), by_strata, by_time, rules)
    made["person_days"] = released_sums(
        exact["person_days"], exact["subjects"], made["subjects"], rules
    )
    first = exact["subjects_in"].map(rules.coarse)
    made["person_days_in"] = released_sums(
        exact["person_days_in"], exact["subjects_in"], first, rules
    )
    return made.drop(columns="subjects_in")


def _withhold(
    made: pd.DataFrame,
    names: tuple[str, ...],
    by_strata: list[Split],
    by_time: list[Split],
    rules: DisclosureRules,
) -> None:
    """Replace counts that narrow a suppressed one by minus the limit of their total."""
    gone = np.zeros(len(made), bool)
    for name in names:
        splits = by_strata + (by_time if name in ADDITIVE else [])
        gone |= withheld_counts(
            made[name].to_numpy(),
            splits,
            rules,
            entries=name in RECORDS,
            fewest=int(name in ("records", "subjects")),
        )
    for name in names:
        whole = made.groupby(["cohort_id", "series_type"])[name].transform("max").clip(lower=0)
        limits = pd.Series(limit_of_part(whole, rules).astype(np.int64), made.index)
        made[name] = made[name].mask(pd.Series(gone, made.index), limits)


def _time_splits(table: pd.DataFrame) -> list[Split]:
    """Find the months of quarters, quarters of years and years of the whole time."""
    rows = table[["cohort_id", "series_type", *STRATA]].assign(
        interval=table["calendar_interval"], begin=pd.to_datetime(table["period_begin"])
    )
    # Ages are those at the start of a period, so that only series of all ages add up.
    rows = rows[rows["age_group"].isna()].drop(columns="age_group").fillna({"gender_id": -1})
    found = []
    for part, (whole, frequency) in WHOLE.items():
        parts = rows[rows["interval"] == part]
        totals = rows[rows["interval"] == whole]
        keys = ["cohort_id", "series_type", "gender_id"]
        if frequency:
            begin = parts["begin"].dt.to_period(frequency).dt.start_time
            parts, keys = parts.assign(begin=begin), [*keys, "begin"]
        at = parts[keys].merge(totals[keys].assign(whole=totals.index), on=keys, how="left")
        there = at["whole"].notna().to_numpy()
        if there.any():
            found.append((parts.index.to_numpy()[there], at["whole"][there].to_numpy(np.int64)))
    return found
