"""Disclosure control of pathways of events.

Pathways, events, lines and steps of attrition share people in many ways. All counts are therefore
rounded as `DisclosureRules.coarse` does. Pathways and events of few people are left out, because
their names alone would describe these people.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from steropes.studies.disclosure.complementary_suppression import limit_of_part
from steropes.studies.disclosure.disclosure_rules import DisclosureRules
from steropes.studies.release.strategus_release import (
    beside_everybody,
    released_count,
    released_distributions,
)

__all__ = ["released_pathways"]

TARGET = "target_cohort_id"
# The columns of durations by the names that distributions of covariates have.
DISTRIBUTION = {
    "duration_min": "min_value",
    "duration_max": "max_value",
    "duration_average": "average_value",
    "duration_sd": "standard_deviation",
    "duration_q_1": "p_25_value",
    "duration_median": "median_value",
    "duration_q_2": "p_75_value",
    "event_count": "count_value",
    "people": "persons",
}
Tables = dict[str, pd.DataFrame]


def released_pathways(exact: Mapping[str, pd.DataFrame], rules: DisclosureRules) -> Tables:
    """Return the counts of pathways for release.

    Parameters
    ----------
    exact : mapping of str to DataFrame
        Exact tables of all targets: "paths", "durations", "people" and "attrition".

    Returns
    -------
    dict of str to DataFrame
        The same tables, without exact numbers of people.
    """
    return {
        "paths": _paths(exact["paths"], rules),
        "durations": _durations(exact["durations"], rules),
        "people": _people(exact["people"], rules),
        "attrition": _attrition(exact["attrition"], rules),
    }


def _paths(paths: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release the numbers of pathways; those of few people are left out."""
    if rules.open or not len(paths):
        return paths.drop(columns="people")
    pairs = zip(paths["freq"], paths["people"], strict=True)
    shown = pd.Series([released_count(n, of, rules) for n, of in pairs], paths.index)
    whole = paths.groupby(TARGET)["freq"].transform("sum")
    gone = _narrowing(paths, pd.Series(0, paths.index), paths["freq"], shown, whole, rules)
    made = paths.assign(freq=shown).drop(columns="people")
    return made[(shown > 0) & ~gone].reset_index(drop=True)


def _durations(durations: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release the days of events; those of few people are left out."""
    if not len(durations):
        return durations.drop(columns="people")
    named = durations.rename(columns=DISTRIBUTION).assign(p_10_value=math.nan, p_90_value=math.nan)
    made = released_distributions(named, rules)
    back = {name: column for column, name in DISTRIBUTION.items()}
    made = made.rename(columns=back).drop(columns=["p_10_value", "p_90_value"])
    return made[made["event_count"] > 0].reset_index(drop=True)


def _people(people: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release the numbers of people as texts, such as "<5"."""
    if rules.open or not len(people):
        return people.assign(n=people["n"].astype(str))
    shown = people["n"].map(rules.coarse)
    kinds = pd.Series(people.groupby("kind", sort=False).ngroup(), people.index)
    whole = people.groupby([TARGET, "kind"])["n"].transform("sum")
    gone = _narrowing(people, kinds, people["n"], shown, whole, rules)
    limits = limit_of_part(whole.map(rules.coarse), rules).astype(np.int64)
    shown = shown.mask(gone, limits)
    return people.assign(n=[f"<{-n}" if n < 0 else str(n) for n in shown])


def _narrowing(
    table: pd.DataFrame,
    kinds: pd.Series,
    exact: pd.Series,
    shown: pd.Series,
    whole: pd.Series,
    rules: DisclosureRules,
) -> pd.Series:
    """Mark the counts of groups of which everybody has one, and that narrow a small one."""
    of = pd.Series(table.groupby(TARGET, sort=False).ngroup(), table.index)
    return pd.Series(beside_everybody(of, kinds, exact, shown, whole, rules), table.index)


def _attrition(attrition: pd.DataFrame, rules: DisclosureRules) -> pd.DataFrame:
    """Release the numbers of records and people."""
    pairs = zip(attrition["number_records"], attrition["number_subjects"], strict=True)
    return attrition.assign(
        number_records=[released_count(n, of, rules) for n, of in pairs],
        number_subjects=attrition["number_subjects"].map(rules.coarse),
    )
