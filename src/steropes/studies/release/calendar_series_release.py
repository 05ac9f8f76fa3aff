"""Disclosure control of series of cohorts by calendar period, age and sex."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from steropes.studies.disclosure.complementary_suppression import limit_of_part
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.disclosure.sums_over_people import released_sums
from steropes.studies.release.strategus_release import coarse_counts, released_counts

__all__ = ["released_series"]

STRATA = ["age_group", "gender_id"]
SERIES = ["cohort_id", "series_type"]
# Numbers of records, with the number of people who have them.
RECORDS = {
    "records": "subjects",
    "records_start": "subjects_start",
    "records_end": "subjects_end",
}
ENTRIES = ("records", "subjects")
FLOWS = ("records_start", "subjects_start", "subjects_start_in",
         "records_end", "subjects_end", "subjects_end_in")  # fmt: skip


def released_series(series: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Return the counts of series for release.

    Ages and sexes add up, and entries that begin in a period follow from those that exist in it and
    in the last one, and those that end. Therefore ages and sexes are withheld in years with a
    period in which one of them is few, and entries that begin or end in years with a period in
    which few begin, end or exist. Days are those of the released people.

    Parameters
    ----------
    series : DataFrame
        Exact counts; see `calendar_series`.
    """
    if rules.open or not len(series):
        return series.drop(columns="subjects_in")
    exact, made = series.reset_index(drop=True), series.reset_index(drop=True).copy()
    for records, people in RECORDS.items():
        made[records] = released_counts(exact[records], exact[people], rules)
        made[people] = coarse_counts(exact[people], rules)
    for name in ("subjects_start_in", "subjects_end_in"):
        made[name] = coarse_counts(exact[name], rules)
    few = made[[*ENTRIES, *FLOWS]].lt(0).any(axis=1).to_numpy()
    withheld = _in_years_of(exact, few)
    of_strata = exact[STRATA].notna().any(axis=1).to_numpy()
    for names, gone in ((ENTRIES, withheld & of_strata), (FLOWS, withheld)):
        for name in names:
            whole = made.groupby(SERIES)[name].transform("max").clip(lower=0)
            limits = pd.Series(limit_of_part(whole, rules).astype(np.int64), made.index)
            made[name] = made[name].mask(pd.Series(gone, made.index), limits)
    made["person_days"] = released_sums(
        exact["person_days"], exact["subjects"], made["subjects"], rules
    )
    first = coarse_counts(exact["subjects_in"], rules).mask(made["subjects"] < 0, -rules.least)
    made["person_days_in"] = released_sums(
        exact["person_days_in"], exact["subjects_in"], first, rules
    )
    return made.drop(columns="subjects_in")


def _in_years_of(table: pd.DataFrame, few: NDArray) -> NDArray:
    """Mark the periods in the years of marked ones, and of the periods before and after them.

    Those of other ages and sexes are marked too, but neither longer periods nor coarser strata.
    """
    begin, end = (pd.to_datetime(table[name]) for name in ("period_begin", "period_end"))
    scope = table[[*SERIES, "calendar_interval"]].assign(
        strata=table[STRATA].notna().to_numpy() @ np.array([1, 2])
    )
    day = pd.Timedelta(days=1)
    years = pd.concat(
        [scope[few].assign(year=days.dt.year) for days in (begin - day, begin, end, end + day)]
    ).drop_duplicates()
    at = scope.assign(year=begin.dt.year).merge(years, how="left", indicator=True)
    return (at["_merge"] == "both").to_numpy()
